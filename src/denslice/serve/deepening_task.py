"""The background task that encodes documents of the quick level fully, with a share of one core's time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

from denslice.errors import LockedError
from denslice.index.deepening import Pace, Stopped
from denslice.index.index import Index
from denslice.serve.background import Background, in_thread

AT_ONCE = 128  # documents in a commit: few seconds of work that a stop gives up
LOOK_SECONDS = 1.0  # between looks for documents of the quick level
LOCK_WAIT = 2.0  # seconds that a commit waits for other writers


class DeepeningTask:
    """Deepens an index beside the requests of a server, in a thread that `stop` ends."""

    def __init__(self, index: Index, share: float) -> None:
        self._index, self._stop = index, Event()
        self._pace = Pace(share, self._stop)
        self.pool = ThreadPoolExecutor(1, "denslice-deepen")

    def start(self, background: Background) -> None:
        """Start the task."""
        background.every(LOOK_SECONDS, "deepening", partial(in_thread, self.pool, self.deepen))

    def stop(self) -> None:
        """Make the thread give up what it is encoding. It ends soon after."""
        self._stop.set()

    def deepen(self) -> None:
        """Deepen until every document is deep. If other writers are busy, the next look goes on."""
        try:
            while self._index.reader.snapshot.manifest.deep < 1:
                self._index.deepen(AT_ONCE, wait=LOCK_WAIT, pace=self._pace)
        except (Stopped, LockedError):
            return
