"""Finished cells in the work folder: a run that was interrupted continues with the missing ones."""

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
