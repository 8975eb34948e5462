"""What a cell of a table measures: an index made of a model's vectors, and a way to search it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from denslice.reproduce.encoding import Encodings

PAPER_THETA, PAPER_CANDIDATES = 0.1, 10_000


@dataclass(frozen=True)
class IndexSetting:
    """An index of one model's vectors. `slices` None leaves the documents whole: every weight is kept."""

    model: str
    mode: str  # what the index holds and is searched by: lexical, dense or hybrid
    slices: int | None
    slicing: str = "stride"
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """An index and how it is searched, from exhaustively to the paper's two stages."""

    index: IndexSetting
    query: str = "full"  # or sliced
    theta: float = 0.0
    candidates: int = PAPER_CANDIDATES
    candidates_from: str = "both"
    rerank: bool = True
    engine: str = "denslice"  # or faiss, a flat index of the dense vectors

    @property
    def is_exact(self) -> bool:
        """Whether the best documents by the definition are what must be found."""
        return self.theta == 0 and self.candidates_from == "both" and self.rerank

    def to_json(self) -> dict[str, Any]:
        """The setting as one flat JSON object."""
        fields = asdict(self)
        return {**fields.pop("index"), **fields}


def whole(model: Encodings) -> Setting:
    """Every weight of documents and queries, as an inverted index would have it."""
    return Setting(IndexSetting(model.name, "lexical", None))


def as_in_paper(model: Encodings, slices: int, slicing: str = "stride", seed: int = 0) -> Setting:
    """Documents and queries sliced, all of them compared."""
    return Setting(IndexSetting(model.name, "lexical", slices, slicing, seed), "sliced")


def with_full_query(model: Encodings, slices: int, slicing: str = "learned", seed: int = 0) -> Setting:
    """Documents sliced, queries left whole, all compared; by default with a learned slicing, as an index has it."""
    return Setting(IndexSetting(model.name, "lexical", slices, slicing, seed))


def lexical_models(models: Sequence[Encodings]) -> list[Encodings]:
    """The models that weigh words."""
    return [model for model in models if model.facts.lexical != "none"]


def dense_models(models: Sequence[Encodings]) -> list[Encodings]:
    """The models that have dense vectors."""
    return [model for model in models if model.facts.dense != "none"]


def joint_models(models: Sequence[Encodings]) -> list[Encodings]:
    """The models that have both."""
    return [model for model in lexical_models(models) if model in dense_models(models)]
