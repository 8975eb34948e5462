"""TextEmbedder: an encoder whose model returns dense vectors of texts alone, without an index around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from denslice.vectors import Floats


class TextVectors(NamedTuple):
    """The dense vectors of texts, and how many word pieces the model read of each."""

    vectors: Floats  # (n, dimensions) float32
    pieces: tuple[int, ...]


@runtime_checkable
class TextEmbedder(Protocol):
    """The part of an encoder with a model that returns dense vectors. A longer text than it reads is cut off."""

    @property
    def dimensions(self) -> int | None:
        """The width of the vectors; None if the model has none."""

    def embed_docs(self, texts: Sequence[str]) -> TextVectors:
        """Return the dense vectors of texts, each read as a document, or as a passage of one."""

    def embed_queries(self, texts: Sequence[str]) -> TextVectors:
        """Return the dense vectors of texts, each read as a query."""
