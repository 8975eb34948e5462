"""densify in torch, for training and for evaluation on a GPU: it equals `denslice.densify` and is differentiable."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from denslice.errors import InputError
from denslice.slicing import Slicing


def densify_torch(lexical: Tensor, slicing: Slicing) -> tuple[Tensor, Tensor]:
    """Return values and gates (B, M) of lexical weights (B, V) ≥ 0; gradients reach the weights that are kept.

    Of equal weights in a slice the lower gate is kept; an empty slice has value 0 and gate 0.
    """
    if lexical.shape[1] != slicing.vocab:
        raise InputError(f"vectors have {lexical.shape[1]:,} columns, expected a vocabulary of {slicing.vocab:,}")
    slice_of, gate_of = _places(slicing, lexical.device)
    placed = lexical[:, slicing.skip :]  # (B, V - skip)
    cells = slice_of.expand(len(placed), -1)  # (B, V - skip)
    kept = _lowest_winner(placed.detach(), cells, slicing.slices)  # (B, M)
    # A slice without tokens points at an additional column of zeros.
    values = torch.nn.functional.pad(placed, (0, 1)).gather(1, kept)  # (B, M)
    return values, gate_of[kept].where(values > 0, 0)


def _lowest_winner(weights: Tensor, cells: Tensor, slices: int) -> Tensor:
    """Return the lowest token with the largest weight of each slice (B, M), or the number of tokens if it has none."""
    best = weights.new_zeros(len(weights), slices).scatter_reduce(1, cells, weights, "amax")  # (B, M)
    tokens = torch.arange(weights.shape[1], device=weights.device)  # (V - skip,)
    winners = tokens.where(weights == best.gather(1, cells), weights.shape[1])  # (B, V - skip)
    none = torch.full_like(best, weights.shape[1], dtype=torch.int64)
    return none.scatter_reduce(1, cells, winners, "amin")


@lru_cache(maxsize=8)
def _places(slicing: Slicing, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the slice of each placed token, and the gates with a 0 at the end for "no token"."""
    slice_of = torch.from_numpy(slicing.slice_of[slicing.skip :]).to(device, torch.int64)
    gates = torch.from_numpy(slicing.gate_of[slicing.skip :].astype("int64"))
    narrow = torch.uint8 if slicing.gate_dtype.itemsize == 1 else torch.int32
    return slice_of, torch.nn.functional.pad(gates, (0, 1)).to(device, narrow)
