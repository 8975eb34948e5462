"""What a benchmark asks of a contender: build in a folder, open it, and answer queries for given settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from denslice.bench.bench_data import Collection

Setting = Mapping[str, Any]
Docs = npt.NDArray[np.int64]  # positions in the collection, best first
EXACT: Sequence[Setting] = ({},)  # a search without anything to set


class Opened(Protocol):
    """A contender ready to answer. Queries are brought into its own form outside the time that is taken."""

    def query(self, at: int) -> Any:
        """A query of the collection in the contender's own form."""
        ...

    def search(self, query: Any, k: int, setting: Setting) -> Any:
        """One answer, on one thread: this is what is timed."""
        ...

    def docs(self, answer: Any) -> Docs:
        """The documents of an answer."""
        ...

    def search_all(self, k: int, setting: Setting) -> int:
        """Answers every query on all cores; how many answers there were."""
        ...


class Contender(Protocol):
    """One way to build and search."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def built_as(self) -> str:
        """What its folder is called; contenders that differ only in how they search share one."""
        ...

    @property
    def module(self) -> str:
        """What must be installed for it."""
        ...

    @property
    def packages(self) -> Sequence[str]:
        """Whose versions matter."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings of its build."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """Patterns of the files it searches in, within its folder."""
        ...

    @property
    def most_docs(self) -> int | None:
        """How many documents it can sanely take."""
        ...

    @property
    def is_linear(self) -> bool:
        """Whether its times grow with the documents, so that times on some can be scaled to all."""
        ...

    @property
    def dense(self) -> bool:
        """Whether it searches dense vectors, and its recall is against the exact search of those."""
        ...

    def settings(self, k: int) -> Sequence[Setting]:
        """The settings of its search that are tried for k."""
        ...

    def prepare(self, collection: Collection, folder: Path) -> None:
        """Brings what is searched into the form it reads, which is not counted as building."""
        ...

    def build(self, collection: Collection, folder: Path) -> None:
        """Builds, from what was prepared to files that can be opened again."""
        ...

    def open(self, collection: Collection, folder: Path) -> Opened:
        """Opens what was built."""
        ...
