"""The loss, against values worked out by hand."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

import torch

from denslice.train.config import LossConfig
from denslice.train.loss import TrainVectors, distill_loss, flops, losses, score, softmax_loss

NOTHING_MARKED = torch.zeros(2, 4, dtype=torch.bool)
# two queries, each with a positive and one hard negative: passages 0, 1 and 2, 3
LEXICAL = TrainVectors(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), None)
PASSAGES = TrainVectors(torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, 1.0], [2.0, 0.0]]), None)


def test_the_loss_is_a_softmax_over_every_passage_of_the_batch() -> None:
    scores = score(LEXICAL, PASSAGES, 1.0).searched
    assert scores.tolist() == [[3.0, 1.0, 0.0, 2.0], [0.0, 2.0, 2.0, 0.0]]
    first = -math.log(math.exp(3) / (math.exp(3) + math.exp(1) + math.exp(0) + math.exp(2)))
    second = -math.log(math.exp(2) / (math.exp(0) + math.exp(2) + math.exp(2) + math.exp(0)))
    assert float(softmax_loss(scores, NOTHING_MARKED)) == pytest.approx((first + second) / 2, abs=1e-6)


def test_a_passage_known_to_be_relevant_is_no_negative() -> None:
    marked = torch.tensor([[False, False, False, True], [False, False, False, False]])
    scores = score(LEXICAL, PASSAGES, 1.0).searched
    first = -math.log(math.exp(3) / (math.exp(3) + math.exp(1) + math.exp(0)))
    second = -math.log(math.exp(2) / (2 * math.exp(0) + 2 * math.exp(2)))
    assert float(softmax_loss(scores, marked)) == pytest.approx((first + second) / 2, abs=1e-6)


def test_a_joint_models_loss_is_on_the_sum_of_its_scores() -> None:
    queries = TrainVectors(LEXICAL.lexical, torch.tensor([[1.0], [-1.0]]))
    passages = TrainVectors(PASSAGES.lexical, torch.tensor([[0.5], [1.0], [-2.0], [0.0]]))
    scores = score(queries, passages, 2.0)
    assert scores.searched.tolist() == [[4.0, 3.0, -4.0, 2.0], [-1.0, 0.0, 6.0, 0.0]]
    parts = losses(queries, passages, NOTHING_MARKED, None, LossConfig(), 2.0, 0)
    assert list(parts) == ["softmax"]
    assert float(parts["softmax"]) == pytest.approx(float(softmax_loss(scores.searched, NOTHING_MARKED)))


def test_the_parts_own_losses_stand_beside_it_when_asked_for() -> None:
    queries = TrainVectors(LEXICAL.lexical, torch.tensor([[1.0], [-1.0]]))
    passages = TrainVectors(PASSAGES.lexical, torch.tensor([[0.5], [1.0], [-2.0], [0.0]]))
    parts = losses(queries, passages, NOTHING_MARKED, None, LossConfig(lexical=0.5, dense=0.25), 2.0, 0)
    scores = score(queries, passages, 2.0)
    assert scores.lexical is not None
    assert scores.dense is not None
    assert float(parts["lexical"]) == pytest.approx(0.5 * float(softmax_loss(scores.lexical, NOTHING_MARKED)))
    assert float(parts["dense"]) == pytest.approx(0.25 * float(softmax_loss(2 * scores.dense, NOTHING_MARKED)))


def test_temperature_divides_the_scores() -> None:
    parts = losses(LEXICAL, PASSAGES, NOTHING_MARKED, None, LossConfig(temperature=2.0), 1.0, 0)
    halved = score(LEXICAL, PASSAGES, 1.0).searched / 2
    assert float(parts["softmax"]) == pytest.approx(float(softmax_loss(halved, NOTHING_MARKED)))


def test_flops_is_the_sum_of_squared_mean_weights() -> None:
    weights = torch.tensor([[1.0, 0.0, 3.0], [3.0, 0.0, 1.0]])
    assert float(flops(weights)) == pytest.approx(2.0**2 + 0.0 + 2.0**2)


def test_the_regulariser_grows_with_the_square_of_the_step() -> None:
    config = LossConfig(flops_queries=0.1, flops_docs=0.01, flops_steps=4)
    half, full, later = (losses(LEXICAL, PASSAGES, NOTHING_MARKED, None, config, 1.0, step) for step in (1, 3, 9))
    assert float(full["flops_queries"]) == pytest.approx(0.1 * (0.5**2 + 1.0**2))
    assert float(full["flops_docs"]) == pytest.approx(0.01 * (1.5**2 + 0.5**2))
    assert float(half["flops_docs"]) == pytest.approx(float(full["flops_docs"]) / 4)
    assert float(later["flops_docs"]) == pytest.approx(float(full["flops_docs"]))


def test_distillation_is_the_divergence_from_the_teachers_softmax() -> None:
    scores = torch.tensor([[1.0, 0.0]])
    teacher = torch.tensor([[2.0, 0.0]])
    wanted = [math.exp(2) / (math.exp(2) + 1), 1 / (math.exp(2) + 1)]
    given = [math.exp(1) / (math.exp(1) + 1), 1 / (math.exp(1) + 1)]
    by_hand = sum(p * math.log(p / q) for p, q in zip(wanted, given, strict=True))
    assert float(distill_loss(scores, teacher, 1.0)) == pytest.approx(by_hand, abs=1e-6)
    assert float(distill_loss(teacher, teacher, 1.0)) == pytest.approx(0.0, abs=1e-7)


def test_distillation_looks_only_at_what_the_teacher_scored() -> None:
    scores = torch.tensor([[1.0, 0.0, 9.0], [5.0, 0.0, 0.0]], requires_grad=True)
    teacher = torch.tensor([[2.0, 0.0, math.nan], [1.0, math.nan, math.nan]])
    alone = distill_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]]), 1.0)
    loss = distill_loss(scores, teacher, 1.0)
    assert float(loss.detach()) == pytest.approx(float(alone), abs=1e-6)
    loss.backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert scores.grad[0, 2] == 0
    assert scores.grad[1].tolist() == [0, 0, 0]


def test_a_batch_the_teacher_says_nothing_about_costs_nothing() -> None:
    nothing = torch.full((2, 4), math.nan)
    parts = losses(LEXICAL, PASSAGES, NOTHING_MARKED, nothing, LossConfig(distill=1.0), 1.0, 0)
    assert float(parts["distill"]) == 0.0
