"""Watches folders: yields when files in them change."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from denslice.errors import MissingExtraError

QUIET_MS = 400  # without a change end a burst of changes
LONGEST_MS = 5_000  # of a burst: files that never stop changing are synced as often
FIRST_LOOK_MS = 1_000


def changes(folders: Sequence[Path], but_for: Path) -> Iterator[None]:
    """Yield after each burst of changes in the folders, but not in `but_for`, until Ctrl-C or SIGTERM.

    The first time is soon after the start, since a file may have changed just before.
    """
    try:
        import watchfiles
    except ImportError:
        raise MissingExtraError("--watch", "files") from None
    index = str(but_for.resolve())

    def is_watched(_: watchfiles.Change, path: str) -> bool:
        return path != index and not path.startswith(f"{index}/")

    is_first = True
    with _stop_event() as stop:
        for found in watchfiles.watch(
            *folders,
            watch_filter=is_watched,
            debounce=LONGEST_MS,
            step=QUIET_MS,
            stop_event=stop,
            rust_timeout=FIRST_LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if found or is_first:
                is_first = False
                yield


@contextmanager
def _stop_event() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM sets; in a thread, which cannot handle signals, nothing sets it."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
