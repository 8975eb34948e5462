"""The protocol of a contender: build in a folder, open it, and search with given settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from denslice.bench.bench_data import Collection

Setting = Mapping[str, Any]
Docs = npt.NDArray[np.int64]  # positions in the collection, best first
EXACT: Sequence[Setting] = ({},)  # a search without settings


class Opened(Protocol):
    """A contender that is ready to search. Converting queries to its own form is not timed."""

    def query(self, at: int) -> Any:
        """Return a query of the collection in the contender's own form."""
        ...

    def search(self, query: Any, k: int, setting: Setting) -> Any:
        """Answer one query on one thread: this is what is timed."""
        ...

    def docs(self, answer: Any) -> Docs:
        """Return the documents of an answer."""
        ...

    def search_all(self, k: int, setting: Setting) -> int:
        """Answer every query on all cores and return how many answers there were."""
        ...


class Contender(Protocol):
    """A library with one way to build and search."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    @property
    def built_as(self) -> str:
        """The name of its folder; contenders that differ only in how they search share one."""
        ...

    @property
    def module(self) -> str:
        """The module that must be installed."""
        ...

    @property
    def packages(self) -> Sequence[str]:
        """The packages whose versions are recorded."""
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
        """The most documents it is measured with, or None."""
        ...

    @property
    def is_linear(self) -> bool:
        """Whether its times grow with the number of documents, so that times on some can be scaled to all."""
        ...

    @property
    def dense(self) -> bool:
        """Whether it searches dense vectors, and its recall is against the exact search of those."""
        ...

    def settings(self, k: int) -> Sequence[Setting]:
        """Return the settings of its search that are tried for k."""
        ...

    def prepare(self, collection: Collection, folder: Path) -> None:
        """Write its input, which does not count as building."""
        ...

    def build(self, collection: Collection, folder: Path) -> None:
        """Build from the prepared input to files that can be opened again."""
        ...

    def open(self, collection: Collection, folder: Path) -> Opened:
        """Open what was built."""
        ...
