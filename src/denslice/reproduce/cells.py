"""The settings of the cells of a table, and finished cells in the work folder, from which an interrupted run continues.

A setting is an index of a model's vectors, and how it is searched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from denslice.errors import InputError
from denslice.reproduce.encoding import Encodings
from denslice.store.files import replace_file

PAPER_THETA, PAPER_CANDIDATES = 0.1, 10_000
K = 1000  # documents that a search returns, unless fewer are rescored


@dataclass(frozen=True)
class IndexSetting:
    """An index of one model's vectors. If `slices` is None, every weight is kept."""

    model: str
    mode: str  # what the index holds and is searched by: lexical, dense or hybrid
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

    @property
    def depth(self) -> int:
        """How many documents a search returns: a search rescores at least as many as it returns."""
        return min(K, self.candidates) if self.theta > 0 and self.rerank else K

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


@dataclass(frozen=True)
class Figures:
    """The figures of a setting on one collection and one machine."""

    means: dict[str, float]
    per_query: dict[str, dict[str, float]]  # measure → query → value
    p50_ms: float  # of single searches, k = 1000, the fastest of three runs for each query
    p95_ms: float
    bytes: int  # of the index
    lost: float  # share of the documents' weights that the slicing dropped
    commit: str
    date: str

    def to_json(self) -> dict[str, Any]:
        """Return the figures without those of single queries."""
        fields = asdict(self)
        del fields["per_query"]
        return fields


class Cells:
    """Figures by setting. `context` is what else they depend on, the collection and the hardware."""

    def __init__(self, folder: Path, context: Mapping[str, Any]) -> None:
        self._folder = folder
        self._context = dict(context)

    def get(self, setting: Setting, model: str) -> Figures | None:
        """Return the figures of a setting whose model has this fingerprint, or None."""
        path = self._path(setting, model)
        if not path.exists():
            return None
        try:
            return Figures(**json.loads(path.read_text(encoding="utf-8"))["figures"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: damaged ({error}); remove it to measure the cell again") from None

    def put(self, setting: Setting, model: str, figures: Figures) -> None:
        """Save the figures of a setting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        told = {"key": self._key(setting, model), "figures": asdict(figures)}
        replace_file(self._path(setting, model), (json.dumps(told, allow_nan=False) + "\n").encode())

    def _key(self, setting: Setting, model: str) -> dict[str, Any]:
        fields = setting.to_json()
        del fields["model"]  # its name; the fingerprint identifies it
        return {"model": model, "setting": fields, **self._context}

    def _path(self, setting: Setting, model: str) -> Path:
        key = json.dumps(self._key(setting, model), sort_keys=True)
        return self._folder / f"{sha256(key.encode()).hexdigest()[:16]}.json"
