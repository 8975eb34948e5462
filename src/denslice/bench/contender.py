"""What a benchmark asks of a contender: build in a folder, open it, and answer queries for given settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from denslice.bench.collection import Collection

Setting = Mapping[str, Any]
Docs = npt.NDArray[np.int64]  # positions in the collection, best first
EXACT: Sequence[Setting] = ({},)  # a search without anything to set


class Opened(Protocol):
    """A contender ready to answer. Queries are made ready outside the time that is taken."""

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
    def packages(self) -> Sequence[str]:
        """Whose versions matter."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings of its build."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """Patterns of the files it needs to search, within its folder."""
        ...

    def settings(self, k: int) -> Sequence[Setting]:
        """The settings of its search that are tried for k."""
        ...

    def limit(self, docs: int) -> int:
        """How many of so many documents it can sanely take; times are then scaled by the document."""
        ...

    def truth(self, collection: Collection) -> Docs:
        """The best documents of each query (queries, 1000), by exact search of the vectors it stands for."""
        ...

    def prepare(self, collection: Collection, folder: Path) -> None:
        """Brings the vectors into the form it reads, which is not counted as building."""
        ...

    def build(self, collection: Collection, folder: Path) -> None:
        """Builds, from what was prepared to files that can be opened again."""
        ...

    def open(self, collection: Collection, folder: Path) -> Opened:
        """Opens what was built."""
        ...
