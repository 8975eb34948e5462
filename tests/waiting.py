"""Waiting for what other processes and threads do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 200.0) -> None:
    """Waits until it holds; fails where it does not in time, which is plenty even on a busy machine."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.005)
    raise AssertionError(f"did not come to hold within {seconds:g} s")
