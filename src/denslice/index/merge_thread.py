"""Merges in a background thread, so that callers do not wait for large ones."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from weakref import WeakMethod, WeakSet

from denslice.errors import DensliceError

log = logging.getLogger(__name__)
_running: WeakSet[Merging] = WeakSet()


class Merging:
    """Runs a method in a thread, once at a time, until it ends or is told to stop.

    It has only a weak reference to the method, so that its owner can be garbage collected.
    """

    def __init__(self, work: Callable[[Event], None]) -> None:
        self._work = WeakMethod(work)
        self._lock = Lock()
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread unless it is running."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stop.clear()
            self._thread = Thread(target=self._run, args=(self._work(),), name="denslice-merge", daemon=True)
            _running.add(self)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stop the merge without a commit, and wait until the thread has ended."""
        self._stop.set()
        self.wait()

    def _run(self, work: Callable[[Event], None]) -> None:
        try:
            work(self._stop)
        except (DensliceError, OSError) as error:
            log.warning("segments are not merged: %s", error)
        except Exception:
            log.exception("segments are not merged")


@atexit.register
def _stop_all() -> None:
    """Stop every thread before the interpreter ends."""
    for one in list(_running):
        one.stop()
