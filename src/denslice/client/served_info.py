"""ServedInfo: what a server tells of its index and of itself, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class ServedInfo:
    """The index that a server shows, and the limits of the server. The names are those of IndexInfo.

    A server does not tell where its index is stored, nor how.
    """

    documents: int
    quick: int  # documents that are still at the quick level
    generation: int
    encoder: str
    slicing: str | None
    slices: int | None  # None: every token is kept
    dimensions: int | None
    languages: Mapping[str, int]
    model_languages: tuple[str, ...]
    earlier_model: bool
    filterable: tuple[str, ...]
    lam: float  # the default weight of the dense score
    writable: bool
    limits: Mapping[str, float]  # by the names of `denslice serve --limit`

    @classmethod
    def of(cls, answer: Any) -> ServedInfo:
        """Return what the JSON of `GET /index` tells; fields of later versions are ignored."""
        told = {one.name: answer[one.name] for one in fields(cls)}
        return cls(**told | {name: tuple(told[name]) for name in ("model_languages", "filterable")})

    def most(self, limit: str) -> int:
        """Return a limit of the server that is a number of things."""
        return int(self.limits[limit])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the server sent."""
        return asdict(self) | {"filterable": list(self.filterable), "model_languages": list(self.model_languages)}

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]
