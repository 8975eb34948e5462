"""A server that commits one document at a time, with a reader beside it, both with few file handles.

`python tests/many_commits.py --commits 10000` is the whole of it: no request may fail, no document may be missing,
and the handles that are open may not be more than so many segments need as there are tiers for.
"""

import argparse
import http.client
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from denslice import Index
from denslice.store.tiers import FANOUT
from serving import KEY, Live
from waiting import wait_until

HANDLES = 256  # of each process, as macOS has it
LOOKS = 20  # at the open handles, evenly over the commits
READER = """
import sys
from denslice import open_index

index = open_index(sys.argv[1])
print("reading", flush=True)
for line in sys.stdin:
    index.refresh()
    found = index.search(line.strip(), 1)
    print(found.ids[0] if found else "nothing", flush=True)
"""


@dataclass
class Seen:
    """What was seen of one run."""

    commits: int
    seconds: float = 0.0
    segments: int = 0
    server: list[int] = field(default_factory=list)  # handles, look by look
    reader: list[int] = field(default_factory=list)


def run(folder: Path, commits: int, start: int = 1_000) -> Seen:
    """Commits one document after the other; AssertionError on any failure."""
    path = folder / "my.idx"
    with Index.create(path, "bm25") as index:
        index.add({"id": f"s{n}", "text": f"start {n} of many documents"} for n in range(start))
    seen, began = Seen(commits), time.perf_counter()
    with served(path) as (server, live), reading(path) as reader, poster(live.port) as post:
        for n in range(commits):
            post({"documents": [{"id": f"d{n}", "text": f"commit{n} commit{n} commit{n} among many documents"}]})
            if n % max(1, commits // LOOKS) == 0:
                seen.server.append(handles(server.pid))
                seen.reader.append(handles(reader.pid))
                assert asked(reader, f"commit{n}") == f"d{n}"
                assert (
                    live.ask("/search", {"query": f"commit{n}", "k": 1}, **headers()).json()["results"][0]["hits"][0][
                        "id"
                    ]
                    == f"d{n}"
                )
    seen.seconds = time.perf_counter() - began
    check(path, start + commits, seen)
    return seen


def check(path: Path, docs: int, seen: Seen) -> None:
    """Every document is there, and handles did not grow."""
    with Index.open(path) as index:
        index.verify()
        assert len(index) == len({doc.id for doc in index.docs()}) == docs
        seen.segments = index.info()["segments"]
    tiers = math.ceil(math.log(docs, FANOUT)) + 1  # and one for a merge that is just done
    for looks in (seen.server, seen.reader):
        assert max(looks) <= looks[0] + 2 * FANOUT * tiers < HANDLES, looks  # two handles a segment


def limited() -> None:
    """Gives this process few handles."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))


@contextmanager
def served(path: Path) -> Iterator[tuple[subprocess.Popen[str], Live]]:
    """A server that may be written to, ready."""
    command = [sys.executable, "-m", "denslice", "serve", str(path), "--port", "0", "--writable", "--api-key", KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=limited) as server:
        try:
            assert server.stdout is not None
            live = Live(int(server.stdout.readline().rpartition(":")[2]))
            wait_until(lambda: live.ask("/readyz").status == 200)
            yield server, live
        finally:
            server.terminate()


@contextmanager
def reading(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A reader in a process of its own."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", READER, str(path)], preexec_fn=limited, **pipes) as reader:
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "reading\n"
            yield reader
        finally:
            reader.kill()


def asked(reader: subprocess.Popen[str], query: str) -> str:
    """The id of the best document that the reader finds, after it has moved on to the last commit."""
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(f"{query}\n")
    reader.stdin.flush()
    return reader.stdout.readline().strip()


def headers() -> dict[str, str]:
    """What shows the key."""
    return {"Authorization": f"Bearer {KEY}"}


@contextmanager
def poster(port: int) -> Iterator[Callable[[Any], None]]:
    """Posts documents over one connection; AssertionError unless each is taken."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:

        def post(body: Any) -> None:
            sent = {"Content-Type": "application/json", **headers()}
            connection.request("POST", "/documents", json.dumps(body), sent)
            answer = connection.getresponse()
            told = answer.read()
            assert answer.status == 200, told

        yield post


def handles(pid: int | str = "self") -> int:
    """How many handles a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def main() -> int:
    """Runs, and prints what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = run(Path(folder), given.commits)
    rate = 1000 * seen.seconds / seen.commits
    sys.stdout.write(
        f"{seen.commits:,} commits in {seen.seconds:.0f} s ({rate:.1f} ms each), {seen.segments} segments\n"
    )
    sys.stdout.write(f"handles of the server {seen.server}\nhandles of the reader {seen.reader}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
