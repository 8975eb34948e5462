"""Finished cells, kept in the work folder as they are measured: a run that stopped goes on with what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from denslice.errors import InputError
from denslice.reproduce.cell_settings import Setting
from denslice.store.files import replace_file


@dataclass(frozen=True)
class Figures:
    """What a setting reached, on one collection and one machine."""

    means: dict[str, float]
    per_query: dict[str, dict[str, float]]  # measure → query → value
    p50_ms: float  # of a search by itself, k = 1000, each query's fastest of three
    p95_ms: float
    bytes: int  # of the index
    lost: float  # the part of the documents' weights that the slicing dropped
    commit: str
    date: str

    def to_json(self) -> dict[str, Any]:
        """The figures without those of single queries."""
        fields = asdict(self)
        del fields["per_query"]
        return fields


class Cells:
    """Figures by setting. `context` is all else they depend on: collection, hardware; models come with each call."""

    def __init__(self, folder: Path, context: Mapping[str, Any]) -> None:
        self._folder = folder
        self._context = dict(context)

    def get(self, setting: Setting, model: str) -> Figures | None:
        """The figures of a setting whose model has this fingerprint, if they are there."""
        path = self._path(setting, model)
        if not path.exists():
            return None
        try:
            return Figures(**json.loads(path.read_text(encoding="utf-8"))["figures"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: damaged ({error}); remove it, and it is measured again") from None

    def put(self, setting: Setting, model: str, figures: Figures) -> None:
        """Keeps the figures of a setting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        told = {"key": self._key(setting, model), "figures": asdict(figures)}
        replace_file(self._path(setting, model), (json.dumps(told, allow_nan=False) + "\n").encode())

    def _key(self, setting: Setting, model: str) -> dict[str, Any]:
        fields = setting.to_json()
        del fields["model"]  # its name; the fingerprint says what it is
        return {"model": model, "setting": fields, **self._context}

    def _path(self, setting: Setting, model: str) -> Path:
        key = json.dumps(self._key(setting, model), sort_keys=True)
        return self._folder / f"{sha256(key.encode()).hexdigest()[:16]}.json"
