"""Chooses the pieces that leave long texts: common ones, without which a text keeps its vector best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from denslice.encoders.onnx.graph import Leaving
from mini_bodies import TextBody

if TYPE_CHECKING:
    from mini_teach import TwoBodies

CANDIDATES = 400  # most frequent pieces, of which some are chosen
DOUBT, DOUBTED = 2.0, 15  # a piece that was seen rarely is taken to do twice the usual harm, as if seen so often more
Ints64 = np.ndarray[Any, np.dtype[np.int64]]
Floats64 = np.ndarray[Any, np.dtype[np.float64]]


def leave(two: TwoBodies, texts: Sequence[str], long: Sequence[str], count: int, after: Sequence[int]) -> None:
    """Let pieces leave both bodies: frequent ones in texts, chosen by what their absence does to long ones."""
    vocabulary = [len(body.body.embeddings.word_embeddings.weight) for body in two.both]
    for body, size, layers in zip(two.both, vocabulary, after, strict=True):
        counts = np.zeros(size, dtype=np.int64)
        for row in body.pieces(texts):
            np.add.at(counts, row, 1)
        counts[np.setdiff1d(np.arange(size), body.ordinary().numpy())] = 0
        frequent = np.argsort(-counts, kind="stable")[: min(CANDIDATES, np.count_nonzero(counts))]
        harm = harms(body, frequent, [np.array(row) for row in body.pieces(long)], layers)
        chosen = np.sort(frequent[np.argsort(harm, kind="stable")[:count]])
        body.leaving = Leaving(chosen, layers, importances(two, chosen, long) if body is two.first else None)


@torch.no_grad()
def harms(body: TextBody, candidates: Ints64, rows: Sequence[Ints64], after: int) -> Floats64:
    """Return how much the vector of a text turns for each occurrence of a piece that leaves it."""
    harm, seen = np.zeros(len(candidates)), np.zeros(len(candidates))
    for row in rows:
        here = np.flatnonzero(np.isin(candidates, row))
        gone = row == candidates[here, None]  # (pieces that are here, L)
        gone = np.concatenate([np.zeros((1, len(row)), dtype=bool), gone])  # first of all, the whole text
        vectors = without(body, torch.from_numpy(row), torch.from_numpy(gone), after)
        harm[here] += (1 - functional.cosine_similarity(vectors[:1], vectors[1:], dim=1)).cpu().numpy()
        seen[here] += gone[1:].sum(1)
    usual = harm.sum() / max(1, seen.sum())
    found: Floats64 = (harm + DOUBTED * DOUBT * usual) / (seen + DOUBTED)
    return found


def without(body: TextBody, ids: Tensor, gone: Tensor, after: int) -> Tensor:
    """Return the vectors of a text (L) without some pieces (variants, L) after the first layers."""
    device = next(body.parameters()).device
    stays = ~gone.to(device)
    hidden = body.embedded(ids.to(device)[None])
    for number, layer in enumerate(body.layers):
        hidden = hidden.expand(len(gone), -1, -1) if number == after else hidden
        hidden = body.passed(layer, hidden, stays if number >= after else torch.ones_like(stays[:1]))
    return body.pooled(hidden.expand(len(gone), -1, -1), stays)


@torch.no_grad()
def importances(two: TwoBodies, pieces: Ints64, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the mean importance of pieces (pieces, 2), in a document and in a query."""
    device = next(two.parameters()).device
    sums, counts = np.zeros((len(pieces), 2)), np.zeros(len(pieces))
    place = {int(piece): at for at, piece in enumerate(pieces)}
    for row in two.first.pieces(texts):
        found = two.importance(two.first.states(torch.tensor([row], device=device))[-1])[0].cpu().numpy()
        for piece, weights in zip(row, found, strict=True):
            if piece in place:
                sums[place[piece]] += weights
                counts[place[piece]] += 1
    sums[counts == 0], counts[counts == 0] = 1.0, 1.0  # as BM25 alone would weigh them
    means: np.ndarray[Any, np.dtype[np.float32]] = (sums / counts[:, None]).astype(np.float32)
    return means
