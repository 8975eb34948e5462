"""Slicing: the map from each vocabulary token to a slice and to a gate within it (paper section 3.1).

A gate is a token's rank among the tokens of its slice, so the slice of each token defines a slicing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from denslice.errors import InputError
from denslice.scalars import is_whole, whole_number
from denslice.vectors import lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

SliceNumbers = npt.NDArray[np.int32]
SKIPPED = -1
BYTE_GATES = 256  # tokens of a slice whose gates fit one byte


@dataclass(frozen=True, eq=False)
class Slicing:
    """The map token → (slice, gate). Tokens below `skip` are in no slice; `grown` places new tokens by stride."""

    kind: str
    slices: int
    skip: int
    slice_of: SliceNumbers  # (vocab,) the slice of each token, SKIPPED for the first `skip`

    @classmethod
    def stride(cls, vocab: int, slices: int, skip: int = 0) -> Slicing:
        """Return the slicing in which every M-th token shares a slice: the paper's default."""
        _check(vocab, slices, skip)
        return cls("stride", slices, skip, _with_skipped(np.arange(vocab - skip) % slices, skip))

    @classmethod
    def contiguous(cls, vocab: int, slices: int, skip: int = 0) -> Slicing:
        """Return the slicing in which runs of consecutive token ids share a slice; sizes differ by at most one."""
        _check(vocab, slices, skip)
        return cls("contiguous", slices, skip, _with_skipped(_even_runs(vocab - skip, slices), skip))

    @classmethod
    def random(cls, vocab: int, slices: int, skip: int = 0, seed: int = 0) -> Slicing:
        """Return a slicing with tokens assigned at random to slices whose sizes differ by at most one."""
        _check(vocab, slices, skip)
        whole_number("seed", seed, 0)
        dealt = np.random.default_rng(seed).permutation(np.arange(vocab - skip) % slices)
        return cls("random", slices, skip, _with_skipped(dealt, skip))

    @classmethod
    def learned(cls, sample: sp.csr_array, slices: int, skip: int = 0) -> Slicing:
        """Return a slicing learned from a sample: the heaviest token first, each to the slice where it collides least.

        `sample` is a (documents, vocab) matrix of lexical weights. The collision of a token with a slice is the weight
        that it displaces, or that is displaced by it. A slice has at most 256 tokens, or an equal share if the
        vocabulary is too large for that. Tokens without a weight in the sample are placed by stride.
        """
        sample = lexical_csr(sample)
        vocab = sample.shape[1]
        _check(vocab, slices, skip)
        placed = np.arange(vocab - skip) % slices
        columns = sample[:, skip:].tocsc()
        mass = np.asarray(columns.sum(axis=0)).ravel()
        seen = np.flatnonzero(mass)
        heaviest_first = seen[np.argsort(-mass[seen], kind="stable")]
        if slices < len(seen):
            room = max(BYTE_GATES, -(-vocab // slices))
            placed[heaviest_first] = _place_greedily(columns, heaviest_first, slices, room)
        elif slices < vocab - skip:  # a slice for each token of the sample
            placed[heaviest_first] = np.arange(len(seen))
        return cls("learned", slices, skip, _with_skipped(placed, skip))

    @classmethod
    def made(cls, kind: str, sample: sp.csr_array, slices: int, skip: int = 0, seed: int = 0) -> Slicing:
        """Return a slicing of the named kind for the sample's vocabulary."""
        if kind not in SLICINGS:
            raise InputError(f"unknown slicing {kind!r}; known: {', '.join(KINDS)}")
        return SLICINGS[kind](sample, slices, skip, seed)

    @property
    def vocab(self) -> int:
        """The number of tokens, skipped ones included."""
        return len(self.slice_of)

    @cached_property
    def gate_of(self) -> npt.NDArray[Any]:
        """The gate of each token (vocab,): its rank among the tokens of its slice, or 0 if it is skipped."""
        order = np.argsort(self.slice_of, kind="stable")
        ordered = self.slice_of[order]
        starts = np.searchsorted(ordered, ordered, side="left")
        gates = np.empty(self.vocab, dtype=np.int64)
        gates[order] = np.arange(self.vocab) - starts
        gates[: self.skip] = 0
        return gates.astype(self.gate_dtype)

    @cached_property
    def gate_dtype(self) -> np.dtype[Any]:
        """The narrowest unsigned type for the gates of the largest slice."""
        placed = self.slice_of[self.skip :]
        fullest = int(np.bincount(placed, minlength=1).max()) if len(placed) else 0
        return np.min_scalar_type(max(fullest - 1, 0))

    def grown(self, vocab: int) -> Slicing:
        """Return this slicing with new tokens up to `vocab` placed by stride; the places of other tokens stay."""
        if vocab <= self.vocab:
            return self
        new = (np.arange(self.vocab, vocab) - self.skip) % self.slices
        new[np.arange(self.vocab, vocab) < self.skip] = SKIPPED
        return Slicing(self.kind, self.slices, self.skip, np.concatenate([self.slice_of, new.astype(np.int32)]))

    def to_json(self) -> dict[str, Any]:
        """Return the slicing as a JSON object."""
        return {"kind": self.kind, "slices": self.slices, "skip": self.skip, "slice_of": self.slice_of.tolist()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Slicing:
        """Return the slicing of a JSON object."""
        if set(fields) != {"kind", "slices", "skip", "slice_of"}:
            raise InputError(f"a slicing has kind, slices, skip and slice_of; found {', '.join(sorted(fields))}")
        places = fields["slice_of"]
        if not isinstance(places, list) or not all(map(is_whole, places)):
            raise InputError("slice_of must be a list of whole numbers, one for each token")
        return cls.checked(
            str(fields["kind"]), fields["slices"], fields["skip"], np.array(places, dtype=np.int64).astype(np.int32)
        )

    def save(self, path: str | Path) -> None:
        """Write the slicing to an .npz file."""
        shape = np.array([self.slices, self.skip])
        np.savez(path, kind=np.array(self.kind), shape=shape, slice_of=self.slice_of)

    @classmethod
    def load(cls, path: str | Path) -> Slicing:
        """Return the slicing in a file that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                kind, (slices, skip), places = str(stored["kind"]), stored["shape"].tolist(), stored["slice_of"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: cannot be read as a slicing ({error})") from error
        return cls.checked(kind, slices, skip, places)

    @classmethod
    def checked(cls, kind: str, slices: int, skip: int, slice_of: SliceNumbers) -> Slicing:
        """Return the slicing with these slices; raise InputError if they are not valid."""
        if kind not in KINDS:
            raise InputError(f"unknown slicing {kind!r}; known: {', '.join(KINDS)}")
        _check(len(slice_of), slices, skip)
        if slice_of.ndim != 1:
            raise InputError(f"slice_of must be a flat list, not {slice_of.ndim}-dimensional")
        placed = slice_of[skip:]
        if (slice_of[:skip] != SKIPPED).any() or (len(placed) and (placed.min() < 0 or placed.max() >= slices)):
            raise InputError(f"tokens from {skip} on must be in slices 0 to {slices - 1}, and all others in none")
        return cls(kind, slices, skip, slice_of)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slicing):
            return NotImplemented
        is_alike = (self.kind, self.slices, self.skip) == (other.kind, other.slices, other.skip)
        return is_alike and np.array_equal(self.slice_of, other.slice_of)

    def __hash__(self) -> int:
        return hash((self.kind, self.slices, self.skip, self.vocab))


# A new slicing is a method and a line here: of a sample of documents, the number of slices, skip and a seed.
SLICINGS: dict[str, Callable[[sp.csr_array, int, int, int], Slicing]] = {
    "stride": lambda sample, slices, skip, _: Slicing.stride(sample.shape[1], slices, skip),
    "contiguous": lambda sample, slices, skip, _: Slicing.contiguous(sample.shape[1], slices, skip),
    "random": lambda sample, slices, skip, seed: Slicing.random(sample.shape[1], slices, skip, seed),
    "learned": lambda sample, slices, skip, _: Slicing.learned(sample, slices, skip),
}
KINDS = tuple(SLICINGS)


def _check(vocab: int, slices: int, skip: int) -> None:
    for name, value, least in (("vocab", vocab, 0), ("slices", slices, 1), ("skip", skip, 0)):
        whole_number(name, value, least)
    if skip > vocab:
        raise InputError(f"skip must lie between 0 and the vocabulary's size {vocab:,}, not {skip!r}")


def _with_skipped(placed: npt.NDArray[Any], skip: int) -> SliceNumbers:
    return np.concatenate([np.full(skip, SKIPPED), placed]).astype(np.int32)


def _even_runs(tokens: int, slices: int) -> npt.NDArray[np.int64]:
    sizes = np.full(slices, tokens // slices)
    sizes[: tokens % slices] += 1
    return np.repeat(np.arange(slices), sizes)


def _place_greedily(columns: sp.csc_array, order: npt.NDArray[Any], slices: int, room: int) -> npt.NDArray[np.int64]:
    from denslice.array_loops import place_greedily

    starts = columns.indptr.astype(np.int64)
    found = place_greedily(starts, columns.indices, columns.data, order, columns.shape[0], slices, room)
    return np.asarray(found)
