"""What a contender is: it builds in a folder, opens what it built, and searches with settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from contenders.vectors_folder import Floats, VectorsFolder

Setting = Mapping[str, Any]
Tokens = npt.NDArray[np.int32]
Found = Sequence[int] | npt.NDArray[Any]  # the numbers of documents, best first


class Contender(ABC):
    """A library with one way to build and search."""

    kind = "words"  # hybrid, dense or words: what its recall is measured against
    packages: Sequence[str] = ()  # whose versions are recorded
    every = False  # every setting is reported, and none is chosen

    def settings(self, k: int) -> Sequence[Setting]:
        """Return the settings that are tried for k."""
        return [{}]

    @abstractmethod
    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        """Build from the vectors to files in the folder, which is empty."""

    @abstractmethod
    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        """Open what was built."""

    @abstractmethod
    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> Any:
        """Return a query in the library's own form, which is not timed."""

    @abstractmethod
    def search(self, query: Any, k: int, setting: Setting) -> Any:
        """Answer a query: this is timed."""

    @abstractmethod
    def found(self, answer: Any) -> Found:
        """Return the documents of an answer."""


def grid(**values: Sequence[Any]) -> list[Setting]:
    """Return every combination of the values of settings."""
    return [dict(zip(values, some, strict=True)) for some in product(*values.values())]
