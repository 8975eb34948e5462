"""The setting of a cell of a table: an index of a model's vectors, and how it is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from denslice.reproduce.encoding import Encodings

PAPER_THETA, PAPER_CANDIDATES = 0.1, 10_000


@dataclass(frozen=True)
class IndexSetting:
    """An index of one model's vectors. If `slices` is None, every weight is kept."""

    model: str
    mode: str  # lexical, dense or hybrid: which vectors the index holds and is searched by
    slices: int | None
    slicing: str = "stride"
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """An index and how it is searched, from exactly to the paper's two stages."""

    index: IndexSetting
    query: str = "full"  # or sliced
    theta: float = 0.0
    candidates: int = PAPER_CANDIDATES
    candidates_from: str = "both"
    rerank: bool = True
    engine: str = "denslice"  # or faiss, a flat index of the dense vectors

    @property
    def is_exact(self) -> bool:
        """Whether the search must find the best documents by the definition."""
        return self.theta == 0 and self.candidates_from == "both" and self.rerank

    def to_json(self) -> dict[str, Any]:
        """Return the setting as one flat JSON object."""
        fields = asdict(self)
        return {**fields.pop("index"), **fields}


def whole(model: Encodings) -> Setting:
    """Return the setting with every weight of documents and queries, as in an inverted index."""
    return Setting(IndexSetting(model.name, "lexical", None))


def as_in_paper(model: Encodings, slices: int, slicing: str = "stride", seed: int = 0) -> Setting:
    """Return the setting with sliced documents and queries, searched exactly."""
    return Setting(IndexSetting(model.name, "lexical", slices, slicing, seed), "sliced")


def with_full_query(model: Encodings, slices: int, slicing: str = "learned", seed: int = 0) -> Setting:
    """Return the setting with sliced documents and full queries, searched exactly."""
    return Setting(IndexSetting(model.name, "lexical", slices, slicing, seed))


def lexical_models(models: Sequence[Encodings]) -> list[Encodings]:
    """Return the models with a lexical part."""
    return [model for model in models if model.facts.lexical != "none"]


def dense_models(models: Sequence[Encodings]) -> list[Encodings]:
    """Return the models with dense vectors."""
    return [model for model in models if model.facts.dense != "none"]


def joint_models(models: Sequence[Encodings]) -> list[Encodings]:
    """Return the models with both."""
    return [model for model in lexical_models(models) if model in dense_models(models)]
