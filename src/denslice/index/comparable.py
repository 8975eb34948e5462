"""Whether the scores of two indexes compare: whether each document has the vectors that it would have in the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from denslice.errors import InputError
from denslice.store.manifest import Manifest
from denslice.store.snapshot import Snapshot

MODEL_PLACE = ("model", "revision")  # where a model was found, which its fingerprint makes irrelevant
REASONS = {
    "fingerprint": "another model, or another edition of it, made their vectors",
    "analysis": "another version analysed their words",
}
ADVICE = "index one of them again with the options of the other (`denslice info` shows them), or all in one index"


def check_comparable(snapshots: Sequence[Snapshot]) -> None:
    """Raise InputError if the scores of any two indexes do not compare."""
    for one, other in pairwise(snapshots):
        if reasons := [*_encoder_differences(one.manifest, other.manifest), *_document_differences(one, other)]:
            told = f"{one.folder} and {other.folder} cannot be searched together: their scores do not compare"
            raise InputError(f"{told} ({'; '.join(reasons)}); {ADVICE}")


def has_fixed_vocabulary(manifest: Manifest) -> bool:
    """Return whether a token has the same id in every index of the encoder."""
    return bool(manifest.encoder_options.get("vocab"))


def _encoder_differences(one: Manifest, other: Manifest) -> Iterator[str]:
    first, second = dict(one.encoder_options), dict(other.encoder_options)
    if "fingerprint" in first and first["fingerprint"] == second.get("fingerprint"):
        for name in MODEL_PLACE:
            first.pop(name, None)
            second.pop(name, None)
    elif one.encoder != other.encoder:
        yield _told("encoder", one.encoder, other.encoder)
        return
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            yield REASONS.get(name) or _told(name, first.get(name), second.get(name))


def _document_differences(one: Snapshot, other: Snapshot) -> Iterator[str]:
    first, second = one.manifest, other.manifest
    if first.passages != second.passages:
        yield "only one of them cuts documents into passages; run `denslice upgrade` on the other"
    if first.segments and second.segments and first.dimensions != second.dimensions:
        yield _told("dimensions", first.dimensions, second.dimensions)
    if first.query != second.query:
        yield _told("query", first.query, second.query)
    if first.slicing.slices != second.slicing.slices:
        yield _told("slices", first.slicing.slices, second.slicing.slices)
    elif not _has_same_slices(one, other):
        yield "each assigns tokens to slices in its own way"


def _has_same_slices(one: Snapshot, other: Snapshot) -> bool:
    """Return whether documents keep the same tokens in both. Words get their ids, and so slices, as they come."""
    first, second = one.manifest.slicing, other.manifest.slicing
    if first.slices is None and first.skip == second.skip == 0:
        return True
    if not has_fixed_vocabulary(one.manifest) or first.skip != second.skip:
        return False
    if one.slicing is None or other.slicing is None:  # none, or no documents yet
        return True
    return np.array_equal(one.slicing.slice_of, other.slicing.slice_of)


def _told(name: str, one: Any, other: Any) -> str:
    return f"{name} is {one!r} in one and {other!r} in the other"
