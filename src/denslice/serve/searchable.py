"""What the server asks of what it serves: an Index is one, and so is anything that offers the same verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Unpack

from denslice.index.index_info import IndexInfo
from denslice.options import SearchKeywords
from denslice.records import Doc, Ranking


class Searchable(Protocol):
    """The verbs of an Index that the server uses. Every one may be called from any thread, at any time."""

    @property
    def generation(self) -> int:
        """How many commits there have been."""
        ...

    @property
    def commit(self) -> str:
        """Which commit is shown: a name that changes whenever results may."""
        ...

    @property
    def lam(self) -> float:
        """λ, the weight of the dense score, where a search gives none."""
        ...

    def search_batch(self, texts: Sequence[str], k: int = 10, **options: Unpack[SearchKeywords]) -> list[Ranking]:
        """Return the k best documents for each text; a ranking explains its scores."""
        ...

    def get(self, id: str) -> Doc | None:
        """The document with this id."""
        ...

    def add(self, docs: Iterable[Doc | Mapping[str, Any]], *, wait: float = 0.0) -> int:
        """Adds or replaces documents in one commit; how many."""
        ...

    def delete(self, ids: Iterable[str], *, wait: float = 0.0) -> int:
        """Deletes documents in one commit; how many there were."""
        ...

    def refresh(self) -> bool:
        """Moves on to the last commit, of whichever process; whether there was a newer one."""
        ...

    def info(self) -> IndexInfo:
        """Return what it is. Its path is never part of an answer."""
        ...
