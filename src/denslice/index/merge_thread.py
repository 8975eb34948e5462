"""Merging beside other work: a thread that is started when a merge would keep a caller waiting."""

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
    """Does one piece of work at a time in a thread of its own, and gives it up when it is told to stop.

    The work is a method of whoever has this, and is not held on to: the two can be let go of at once.
    """

    def __init__(self, work: Callable[[Event], None]) -> None:
        self._work = WeakMethod(work)
        self._lock = Lock()
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin the work, unless it is under way."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stop.clear()
            self._thread = Thread(target=self._run, args=(self._work(),), name="denslice-merge", daemon=True)
            _running.add(self)
            self._thread.start()

    def wait(self) -> None:
        """Return when no work is under way."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Give up what is under way: nothing of it is committed. Return when the thread has ended."""
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
    """Have every thread end before the interpreter does."""
    for one in list(_running):
        one.stop()
