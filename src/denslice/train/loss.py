"""The training loss: softmax over the search scores, and optional terms for each part, distillation and sparsity.

A batch has B queries and P = B · (1 + negatives) passages: each query's positive, then its hard negatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from denslice.train.config import LossConfig


@dataclass(frozen=True)
class TrainVectors:
    """The vectors of some texts; None for a part that the model lacks."""

    lexical: Tensor | None  # (n, V) weights ≥ 0
    dense: Tensor | None  # (n, D)


@dataclass(frozen=True)
class Scores:
    """Scores of every query and passage, (B, P) each: the parts of the model, and the score that search uses."""

    lexical: Tensor | None
    dense: Tensor | None
    searched: Tensor


def score(queries: TrainVectors, passages: TrainVectors, lam: float) -> Scores:
    """Return inner products, and for a joint model lexical + λ · dense (paper, section 5.3 and equation 9)."""
    lexical = _products(queries.lexical, passages.lexical)
    dense = _products(queries.dense, passages.dense)
    if lexical is not None and dense is not None:
        return Scores(lexical, dense, lexical + lam * dense)
    only = lexical if lexical is not None else dense
    if only is None:
        raise ValueError("the model returned neither lexical nor dense vectors")
    return Scores(lexical, dense, only)


def losses(
    queries: TrainVectors,
    passages: TrainVectors,
    relevant: Tensor,
    teacher: Tensor | None,
    config: LossConfig,
    lam: float,
    step: int,
) -> dict[str, Tensor]:
    """Return the weighted parts of the loss; their sum is the loss."""
    scores = score(queries, passages, lam)
    heat = config.temperature
    parts = {"softmax": softmax_loss(scores.searched / heat, relevant)}
    if config.lexical and scores.lexical is not None:
        parts["lexical"] = config.lexical * softmax_loss(scores.lexical / heat, relevant)
    if config.dense and scores.dense is not None:
        parts["dense"] = config.dense * softmax_loss(lam * scores.dense / heat, relevant)
    if config.distill and teacher is not None:
        parts["distill"] = config.distill * distill_loss(scores.searched / heat, teacher, config.distill_temperature)
    grown = min(1.0, (step + 1) / config.flops_steps) ** 2 if config.flops_steps else 1.0  # as in SPLADE
    if config.flops_queries and queries.lexical is not None:
        parts["flops_queries"] = config.flops_queries * grown * flops(queries.lexical)
    if config.flops_docs and passages.lexical is not None:
        parts["flops_docs"] = config.flops_docs * grown * flops(passages.lexical)
    return parts


def softmax_loss(scores: Tensor, relevant: Tensor) -> Tensor:
    """Return the mean of -log softmax at each query's positive, over the passages of the whole batch.

    `relevant` (B, P) marks other passages that are known to be relevant to the query and are left out of its sum.
    """
    queries, passages = scores.shape
    targets = torch.arange(queries, device=scores.device) * (passages // queries)  # (B,)
    return functional.cross_entropy(scores.masked_fill(relevant, -torch.inf), targets)


def distill_loss(scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the mean divergence of the model's softmax from the teacher's, over the passages the teacher scored."""
    known = ~teacher.isnan()  # (B, P)
    taught = known.sum(1) > 1  # one passage alone teaches nothing
    if not taught.any():
        return scores.sum() * 0.0
    lowest = torch.finfo(scores.dtype).min  # finite, because 0 · -inf is NaN
    wanted = (teacher / temperature).masked_fill(~known, lowest).log_softmax(1)  # (B, P)
    given = (scores / temperature).masked_fill(~known, lowest).log_softmax(1)  # (B, P)
    divergence = (wanted.exp() * (wanted - given)).masked_fill(~known, 0.0).sum(1)  # (B,)
    return divergence[taught].mean() * temperature**2


def flops(weights: Tensor) -> Tensor:
    """Return SPLADE's FLOPS regulariser: the sum over tokens of the squared mean weight, an estimate of search cost."""
    return weights.mean(0).square().sum()


def _products(queries: Tensor | None, passages: Tensor | None) -> Tensor | None:
    if queries is None or passages is None:
        return None
    return queries.float() @ passages.float().T  # (B, P)
