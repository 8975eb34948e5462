"""Whether the compiled loops of search are on disk. Where they are not yet, another process compiles them.

That takes some twenty seconds, once per installation. A person's first questions do not wait for it: numpy answers
them. A program that asks more than a few does wait, since all later searches are faster by far.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread

FIRST_SEARCHES = 8  # of a process, that do not wait
LONGEST = 300.0  # seconds that are waited for the other process
READY = "ready"  # the file beside the compiled code that tells that all of it is there
COMPILE = "import sys; sys.path.append(sys.argv[1]); from denslice.search.compile_loops import main; main()"


class Loops:
    """What this process knows of the compiled loops."""

    def __init__(self) -> None:
        self.ready = False  # they are on disk, or it is time to compile them in this process
        self._left = FIRST_SEARCHES
        self._compiling: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def ready_for_search(self) -> bool:
        """Return whether the next search should use the loops; this waits if the first searches are over."""
        with self._lock:
            self._left -= 1
            self.ready = self._look() or self._left < 0
            if self.ready and self._compiling is not None:
                self._wait(self._compiling)
            return self.ready

    def ready_or_begun(self) -> bool:
        """Return whether the loops are ready. If not, another process compiles them from now on."""
        with self._lock:
            self.ready = self._look()
            return self.ready

    def _look(self) -> bool:
        from denslice.compiling import cache_folder

        folder = cache_folder()
        if self.ready or folder is None:
            return self.ready
        if (folder / READY).exists():
            return True
        if self._compiling is None:
            self._compiling = _start()
            return False
        return self._compiling.poll() is not None  # then it failed

    def _wait(self, compiling: subprocess.Popen[bytes]) -> None:
        try:
            compiling.wait(LONGEST)
        except subprocess.TimeoutExpired:
            logging.getLogger(__name__).warning("another process compiles the search loops for too long")


def _start() -> subprocess.Popen[bytes] | None:
    """Compile all loops in a process that outlives this one, which may be a command that ends at once."""
    if "python" not in Path(sys.executable or "").name.lower():  # Python is a part of another program
        return None
    logging.getLogger(__name__).info("compiling search loops in the background (once per installation) …")
    command = [sys.executable, "-P", "-c", COMPILE, str(Path(__file__).parents[1])]
    nothing = subprocess.DEVNULL
    try:
        begun = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except OSError:
        return None
    Thread(target=begun.wait, daemon=True).start()  # leaves no zombie, and no warning if this process ends first
    return begun


LOOPS = Loops()
