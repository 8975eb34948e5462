"""The protocol of what the server serves: an Index, a Cluster, or anything else with these methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Unpack

from denslice.encoders.text_embedder import TextEmbedder
from denslice.index.index_info import IndexInfo
from denslice.options import SearchKeywords
from denslice.queries import Query
from denslice.rankings import Ranking
from denslice.records import Doc, GivenDocs, Place
from denslice.store.manifest import FULL


class Searchable(Protocol):
    """The methods of an Index that the server uses. They are called from several threads at the same time."""

    @property
    def generation(self) -> int:
        """The number of the commit that is served."""

    @property
    def commit(self) -> str:
        """The name of the commit that is served; it changes whenever results may change."""

    @property
    def lam(self) -> float:
        """λ, the default weight of the dense score."""

    @property
    def embedder(self) -> TextEmbedder | None:
        """What returns dense vectors of texts; None if the index has none."""

    def search_batch(
        self, texts: Sequence[str | Query], k: int = 10, **options: Unpack[SearchKeywords]
    ) -> list[Ranking]:
        """Return the k best documents or passages for each text or query; a ranking explains its scores."""

    def similar(self, id: str, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k documents or passages that are most like the document with this id."""

    def suggest(self, text: str, k: int = 10) -> list[str]:
        """Return how a text that is being typed may go on."""

    def get(self, id: str) -> Doc | None:
        """Return the document with this id, or None."""

    def places(self, id: str) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None."""

    def add(self, docs: GivenDocs, *, level: str = FULL, wait: float = 0.0) -> int:
        """Add or replace documents in one commit, at the level "quick" or "full", and return how many."""

    def delete(self, ids: Iterable[str], *, wait: float = 0.0) -> int:
        """Delete documents in one commit and return how many there were."""

    def refresh(self) -> bool:
        """Move on to the last commit of any process and return whether it is newer."""

    def info(self) -> IndexInfo:
        """Return what it is. Its path is never part of an answer."""
