"""DenseVectors: the dense vectors of a segment's passages. Many of them are stored cluster by cluster.

So a search can read the clusters that are near to its query, each in one piece, and leave out the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from denslice.clustering import clustered
from denslice.store.byte_planes import BytePlanes, on_grid
from denslice.store.container import Container
from denslice.store.files import damaged
from denslice.vectors import Array, Floats

MANY = 1 << 15  # vectors from which a segment has clusters


@dataclass(frozen=True)
class Clusters:
    """The centres of clusters, where the vectors of each begin, and which passages these vectors belong to."""

    centres: BytePlanes
    starts: Array  # (clusters + 1,) uint32, into the stored vectors
    passages: Array  # (passages,) uint32, the passage of each stored vector
    places: Array  # (passages,) uint32, the stored vector of each passage


@dataclass(frozen=True)
class DenseVectors:
    """Vectors by the numbers of their passages; `stored` has them in the order of the file."""

    stored: Array | BytePlanes  # (passages, dimensions) float16; planes if there are clusters
    clusters: Clusters | None = None

    @classmethod
    def read(cls, container: Container, count: int) -> DenseVectors:
        """Return the vectors of a container, so many; raise IndexFormatError if it is damaged."""
        if "cluster_starts" not in container:
            return cls(container.array("dense", "float16", count, dimensions=2))
        stored = _planes(container, "dense", count)
        starts = container.array("cluster_starts", "uint32")
        centres = _planes(container, "centre", len(starts) - 1)
        passages, places = (container.array(f"cluster_{name}", "uint32", count) for name in ("passages", "places"))
        is_whole = starts[0] == 0 and starts[-1] == count and (starts[1:] >= starts[:-1]).all()
        are_known = max(passages.max(initial=0), places.max(initial=0)) < max(1, count)
        if not is_whole or not are_known or centres.shape[1] != stored.shape[1]:
            raise damaged(container.path, "its clusters do not fit its vectors")
        return cls(stored, Clusters(centres, starts, passages, places))

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, numbers: Any) -> Array:
        found: Array = self.stored[self.places(numbers)]
        return found

    @property
    def is_late(self) -> bool:
        """Whether the vectors would be in clusters if they were written now."""
        return self.clusters is None and len(self) >= MANY

    def places(self, numbers: Any) -> Any:
        """Return where the vectors of passages are stored, given their number, numbers or slice."""
        return numbers if self.clusters is None else self.clusters.places[numbers]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of vectors and their width."""
        return len(self.stored), int(self.stored.shape[1])

    def by_passage(self, values: Floats) -> Floats:
        """Return values of stored vectors (passages,) in the order of the passages."""
        return values if self.clusters is None else values[self.clusters.places]


def dense_arrays(vectors: Array) -> dict[str, Array]:
    """Return the arrays of a container for these vectors, in the order of their passages.

    Many of them are put `on_grid`, where those are already that this version has encoded.
    """
    if len(vectors) < MANY:
        return {"dense": vectors}
    centres, starts, passages = clustered(vectors)
    places = np.empty_like(passages)
    places[passages] = np.arange(len(passages), dtype=np.uint32)
    clusters = {"starts": starts, "passages": passages, "places": places}
    return {
        **_plane_arrays("dense", vectors[passages]),
        **_plane_arrays("centre", centres),
        **{f"cluster_{name}": array for name, array in clusters.items()},
    }


def _plane_arrays(name: str, vectors: Array) -> dict[str, Array]:
    return {f"{name}_{field}": array for field, array in vars(BytePlanes.of(on_grid(vectors))).items()}


def _planes(container: Container, name: str, count: int) -> BytePlanes:
    high = container.array(f"{name}_high", "int8", count, dimensions=2)
    low = container.array(f"{name}_low", "uint8", count, dimensions=2)
    scales, errors = (container.array(f"{name}_{field}", "float32", count) for field in ("scales", "errors"))
    if low.shape != high.shape:
        raise damaged(container.path, "its planes do not fit each other")
    return BytePlanes(high, low, scales, errors)
