"""Kills a product in the middle of adding documents, again and again, and counts what is lost or there twice.

A program adds in batches and acknowledges each. After SIGKILL, a new process opens the store: documents that were there
before and those of acknowledged batches must be in it. Then everything is added again, as one does after a crash.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from denslice.bench.product_process import ProductError, ProductProcess
from denslice.bench.product_texts import DocText

BATCHES = 5
Start = Callable[[Path], AbstractContextManager[ProductProcess]]


@dataclass(frozen=True)
class KillTest:
    """A store to start from, which is copied for each kill, and what is added to it."""

    start: Start  # a program with a store
    base: Path  # the store, closed; a file or a folder
    before: Sequence[str]  # ids of the documents in it
    docs: Sequence[DocText]

    @property
    def batches(self) -> list[Sequence[DocText]]:
        """The documents in the batches in which they are added."""
        size = -(-len(self.docs) // BATCHES)
        return [self.docs[start : start + size] for start in range(0, len(self.docs), size)]

    def undisturbed(self, store: Path) -> float:
        """Return the seconds that adding takes without a kill; raise ProductError if a document is missing then."""
        copy_store(self.base, store)
        with self.start(store) as product:
            product.ask("open")
            began = time.perf_counter()
            for batch in self.batches:
                product.ask("add", docs=batch)
            seconds = time.perf_counter() - began
        _, missing, twice = self.counted(store, self.docs)
        if missing or twice:
            raise ProductError(f"{product.name}: of added documents {missing} are missing and {twice} are there twice")
        return seconds

    def killed(self, store: Path, after: float) -> dict[str, Any]:
        """Return what a kill did that comes so many seconds after the first batch was sent."""
        copy_store(self.base, store)
        with self.start(store) as product:
            product.ask("open")
            acknowledged = self._adding(product, after)
        stored = [doc for batch in self.batches[:acknowledged] for doc in batch]
        opens, lost, twice = self.counted(store, stored)
        found = {"acknowledged": acknowledged, "opens": opens, "lost": lost, "twice": twice}
        again = (
            self._add_again(store) if opens else {"lost_for_good": len(self.before) + len(self.docs), "twice_then": 0}
        )
        return found | again

    def _adding(self, product: ProductProcess, after: float) -> int:
        """Send batches one after another, kill, and return how many were acknowledged."""
        until = time.perf_counter() + after
        for at, batch in enumerate(self.batches):
            product.send("add", docs=batch)
            if not product.answers_by(until):
                product.kill()
                return at
            product.answer()
        product.kill()
        return len(self.batches)

    def counted(self, store: Path, stored: Sequence[DocText]) -> tuple[bool, int, int]:
        """Return whether the store can be opened, how many documents are missing, and how many are there twice."""
        expected = {*self.before, *(doc["id"] for doc in stored)}
        try:
            with self.start(store) as product:
                product.ask("open")
                found = Counter(product.ask("ids"))
        except ProductError:
            return False, len(expected), 0
        return True, len(expected - found.keys()), sum(count > 1 for count in found.values())

    def _add_again(self, store: Path) -> dict[str, int]:
        """Return how many documents are missing, and how many are there twice, after all were added again."""
        try:
            with self.start(store) as product:
                product.ask("open")
                for batch in self.batches:
                    product.ask("add", docs=batch)
        except ProductError:
            return {"lost_for_good": len(self.before) + len(self.docs), "twice_then": 0}
        _, missing, twice = self.counted(store, self.docs)
        return {"lost_for_good": missing, "twice_then": twice}


def moments(kills: int, seconds: float) -> list[float]:
    """Return when the kills come: at random within the time that adding takes, the same in every run."""
    rng = Random(1)
    return [rng.uniform(0.02, 0.98) * seconds for _ in range(kills)]


def copy_store(base: Path, to: Path) -> None:
    """Copy a store, a file or a folder, with the files beside it that begin with its name."""
    shutil.rmtree(to.parent, ignore_errors=True)
    shutil.copytree(base.parent, to.parent)


def totals(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over all kills."""
    counted = {name: sum(one[name] for one in rounds) for name in ("lost", "twice", "lost_for_good", "twice_then")}
    return counted | {"kills": len(rounds), "unopened": sum(not one["opens"] for one in rounds), "rounds": rounds}
