"""Readers search while a writer commits and merges: none may see an error, or half a commit.

`python tests/readers.py --commits 100 --docs 500`. Every commit replaces the document "head", which says which commit
it is and how many documents there are now: so a reader knows what it must find.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from denslice import Index, Ranking
from forked import FAILED, Child

READERS = 4
MERGE_EVERY = 9  # commits
KEPT = 2.0  # seconds a reader keeps an old view beside its new one
SECONDS = 900  # the longest it may take


@dataclass(frozen=True)
class Plan:
    """How much is written, and where."""

    path: Path
    commits: int
    docs: int

    def text(self, commit: int) -> str:
        """What the documents of a commit say. The word stands thrice, so that no slice drops it for another."""
        return f"{f'commit{commit} ' * 3} of {self.docs} documents"

    def ids(self, commit: int) -> list[str]:
        """The ids of a commit's documents; the first commit, 0, has none."""
        return [f"d{commit}-{i}" for i in range(self.docs if commit else 0)]

    def written(self, commit: int) -> Iterator[dict[str, Any]]:
        """The documents of a commit."""
        yield from ({"id": id, "text": self.text(commit)} for id in self.ids(commit))
        yield {"id": "head", "text": f"head is at {commit}", "commit": commit, "docs": commit * self.docs + 1}


def write(plan: Plan) -> str:
    """Adds in many commits, and merges every so often; what it did."""
    started = time.perf_counter()
    index = Index.open(plan.path)
    merges = 0
    for commit in range(1, plan.commits + 1):
        index.add(plan.written(commit))
        if commit % MERGE_EVERY == 0:
            merges += index.merge() > 0
    return f"{len(index):,} documents in {plan.commits} commits, {merges} merges, {time.perf_counter() - started:.1f} s"


def read(plan: Plan, seed: int) -> str:
    """Searches until the last commit shows; what it saw."""
    rng = random.Random(seed)
    index = Index.open(plan.path)
    old = OldView(plan)
    seen, rounds, views = {0}, 0, 1
    while plan.commits not in seen:
        index.refresh()
        seen.add(check(plan, index, rng))
        old.check()
        if time.perf_counter() - old.since > KEPT:
            old, views = OldView(plan), views + 1
        rounds += 1
    old.check()
    return f"{rounds:,} rounds, {len(seen) - 1} of {plan.commits} commits seen, {views} old views kept"


def check(plan: Plan, index: Index, rng: random.Random) -> int:
    """Checks that the index shows one commit, whole, and nothing of the next; which."""
    head = index.get("head")
    assert head is not None, "head is missing"
    commit: int = head.meta["commit"]
    assert head.text == f"head is at {commit}"
    assert len(index) == head.meta["docs"] == commit * plan.docs + 1
    assert index.search("head").ids == ("head",)
    for whole in {commit, rng.randint(0, commit)}:
        hits = index.search(f"commit{whole}", plan.docs + 10)
        assert sorted(hits.ids) == sorted(plan.ids(whole)), f"commit {whole}, seen at {commit}: {len(hits)} documents"
        assert {hit.text for hit in hits} <= {plan.text(whole)}
    assert index.search(f"commit{commit + 1}").ids == ()
    return commit


class OldView:
    """An index opened once and never refreshed: its answers may not change, whatever is written and merged."""

    def __init__(self, plan: Plan) -> None:
        self.since = time.perf_counter()
        self.plan = plan
        self.index = Index.open(plan.path)
        self.first = self._answers()
        self.unread = self._search()  # texts not fetched yet

    def check(self) -> None:
        """Asks again."""
        assert self._answers() == self.first
        assert [hit.id for hit in self.unread] == list(self.unread.ids)
        self.unread = self._search()

    def _answers(self) -> list[Any]:
        head = self.index.get("head")
        assert head is not None, "head is missing"
        return [head, len(self.index), [(hit.id, hit.score, hit.text) for hit in self._search()]]

    def _search(self) -> Ranking:
        return self.index.search("documents head", 20)


def run(plan: Plan) -> dict[str, str]:
    """What the writer and each reader told, by name."""
    Index.create(plan.path, "bm25", slices=64, options={"language": "none"}).add(plan.written(0))
    check(plan, Index.open(plan.path), random.Random(0))  # what is compiled and imported here, children need not
    work = {f"reader {n}": Child(partial(read, plan, n), seconds=SECONDS) for n in range(READERS)}
    work["writer"] = Child(lambda: write(plan), seconds=SECONDS)
    told = {"writer": work.pop("writer").result()}
    if told["writer"].startswith(FAILED):  # the readers would wait for its last commit
        for child in work.values():
            os.kill(child.pid, signal.SIGKILL)
    told |= {name: child.result() for name, child in work.items()}
    Index.open(plan.path).verify()
    return told


def main() -> int:
    """Runs writer and readers, and prints what they told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--docs", type=int, default=500, help="documents in each commit")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = run(Plan(Path(folder) / "index", given.commits, given.docs))
    sys.stdout.writelines(f"{name}: {what}\n" for name, what in told.items())
    return int(any(what.startswith(FAILED) for what in told.values()))


if __name__ == "__main__":
    sys.exit(main())
