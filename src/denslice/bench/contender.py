"""A contender of the benchmark: it builds in a folder, opens it, and searches with given settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

    def search(self, query: Any, k: int, setting: Setting) -> Any:
        """Answer one query on one thread: this is what is timed."""

    def docs(self, answer: Any) -> Docs:
        """Return the documents of an answer."""

    def search_all(self, k: int, setting: Setting) -> int:
        """Answer every query on all cores and return how many answers there were."""


@dataclass(frozen=True)
class Contender(ABC):
    """A library with one way to build and search."""

    name: str  # in tables
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the settings of its build
    packages: Sequence[str] = ()  # whose versions are recorded
    files: Sequence[str] = ()  # patterns of the files it searches in, within its folder
    built_as: str = ""  # the name of its folder; contenders that differ only in how they search share one
    module: str = ""  # that must be installed
    most_docs: int | None = None  # the most documents it is measured with
    is_linear: bool = True  # its times grow with the number of documents, so times on some can be scaled to all
    dense: bool = False  # it searches dense vectors, and its recall is against the exact search of those

    def settings(self, k: int) -> Sequence[Setting]:
        """Return the settings of its search that are tried for k."""
        return EXACT

    def prepare(self, collection: Collection, folder: Path) -> None:
        """Read or write its input, which does not count as building."""
        _ = collection.docs

    @abstractmethod
    def build(self, collection: Collection, folder: Path) -> None:
        """Build from the prepared input to files that can be opened again."""

    @abstractmethod
    def open(self, collection: Collection, folder: Path) -> Opened:
        """Open what was built."""
