"""Clusters of vectors: each holds vectors that are near to each other, so that a search need not read all of them.

Spherical k-means of a sample, along the axes on which it varies most; then each vector joins the nearest centre. The
same vectors give the same clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from denslice.blas_threads import one_blas_thread
from denslice.vectors import Array, Floats, Ints

PER_ROOT = 2.0  # clusters for each square root of the number of vectors: reading centres and members then costs alike
AXES = 96  # along which vectors are compared with centres
SAMPLE = 16  # vectors of each cluster by which its centre is found
AXES_SAMPLE = 8_192  # vectors by which the axes are found
ROUNDS = 6  # of k-means
AT_ONCE = 4_096  # vectors that are compared with all centres
SEED = 1


class Clustered(NamedTuple):
    """The centres of clusters, and the numbers of the vectors of each: `members` from starts[i] to starts[i + 1]."""

    centres: Array  # (clusters, dimensions) float16: the direction of the members, as long as they are on average
    starts: Array  # (clusters + 1,) uint32
    members: Array  # (vectors,) uint32, ascending within a cluster


def clustered(vectors: Array) -> Clustered:
    """Return the clusters of vectors (n, dimensions), some hundred or more."""
    dice = np.random.default_rng(SEED)
    count = max(1, round(PER_ROOT * len(vectors) ** 0.5))
    chosen = np.sort(dice.permutation(len(vectors))[: SAMPLE * count])
    with one_blas_thread():  # as many threads as there are cores would round differently on each machine
        sample = _unit(vectors[chosen].astype(np.float32))
        axes = _axes(sample)
        directions = _directions(sample @ axes, count, dice)
        parts = [_nearest(_unit(part.astype(np.float32)) @ axes, directions) for part in _parts(vectors)]
    nearest = np.concatenate(parts)
    members = np.argsort(nearest, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(nearest, minlength=count))])
    centres = np.stack([_centre(vectors[members[start:end]]) for start, end in pairwise(starts)])
    return Clustered(centres.astype(np.float16), starts.astype(np.uint32), members.astype(np.uint32))


def _parts(vectors: Array) -> Iterator[Array]:
    return (vectors[start : start + AT_ONCE] for start in range(0, len(vectors), AT_ONCE))


def _axes(sample: Floats) -> Floats:
    """Return the axes on which vectors vary most (dimensions, axes)."""
    some = sample[:AXES_SAMPLE]
    found: Floats = np.linalg.eigh(some.T @ some)[1][:, -AXES:]
    return found


def _directions(sample: Floats, count: int, dice: np.random.Generator) -> Floats:
    """Return the directions of clusters: those of random vectors at first, and then of the vectors nearest to each."""
    directions = _unit(sample[dice.permutation(len(sample))[:count]])
    for _ in range(ROUNDS):
        nearest = np.concatenate([_nearest(part, directions) for part in _parts(sample)])
        sums = np.zeros_like(directions)
        np.add.at(sums, nearest, sample)
        empty = np.flatnonzero(~sums.any(axis=1))
        sums[empty] = sample[dice.integers(0, len(sample), len(empty))]
        directions = _unit(sums)
    return directions


def _nearest(vectors: Floats, directions: Floats) -> Ints:
    found: Ints = (vectors @ directions.T).argmax(axis=1)
    return found


def _centre(members: Array) -> Floats:
    """Return the direction of vectors, as long as they are on average."""
    if not len(members):
        return np.zeros(members.shape[1], np.float32)
    found = members.astype(np.float32)
    length = np.float32(np.linalg.norm(found, axis=1).mean())
    centre: Floats = length * _unit(found.sum(axis=0)[None])[0]
    return centre


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = (vectors / np.maximum(lengths, np.float32(1e-12))).astype(np.float32)
    return found
