"""Evaluation on the device: measures against ir_measures, slicing against densify, search against brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

import torch

from denslice.densify import densify, restore
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.slicing import Slicing
from denslice.train import brute_force as evaluation
from denslice.train.brute_force import NOT_FOUND, BruteForce, EncodedTexts, by_length, evaluate, scorings
from denslice.train.data import CollectionReader, Source
from denslice.train.loss import TrainVectors
from denslice.train.measures import first_ranks, measures, packed, unpacked
from denslice.train.tokens import tokenised
from tiny import make_backbone, make_folder

JOINT = ModelConfig(lexical="splade", dense="mean", lam=3.0, max_length=16, query_length=16)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> BiEncoder:
    return BiEncoder.load(make_backbone(tmp_path_factory.mktemp("tiny") / "bert"), JOINT)


def test_measures_are_those_of_ir_measures() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    draw = np.random.default_rng(0)
    rankings = np.array([draw.permutation(1500)[:1000] for _ in range(30)])
    relevant = [
        {int(row): int(draw.integers(1, 4)) for row in draw.choice(1500, int(draw.integers(1, 9)), replace=False)}
        for _ in range(30)
    ]
    for query in range(0, 30, 2):  # some near the top
        near = next(iter(relevant[query]))
        others = rankings[query][rankings[query] != near][:999]
        rankings[query] = np.insert(others, draw.integers(12), near)
    rankings[3, 900:] = NOT_FOUND
    found = measures(rankings, relevant)
    run = [
        ir_measures.ScoredDoc(str(query), str(row), float(-rank))
        for query, ranking in enumerate(rankings)
        for rank, row in enumerate(ranking)
        if row != NOT_FOUND
    ]
    qrels = [
        ir_measures.Qrel(str(q), str(row), grade) for q, grades in enumerate(relevant) for row, grade in grades.items()
    ]
    names = {"RR@10": ir_measures.RR @ 10, "nDCG@10": ir_measures.nDCG @ 10, "R@1000": ir_measures.R @ 1000}
    expected = ir_measures.calc_aggregate(list(names.values()), qrels, run)
    for name, measure in names.items():
        assert found[name] == pytest.approx(expected[measure], abs=1e-9), name
    assert found["RR@10"] > 0.1


def test_first_ranks_are_packed_and_unpacked() -> None:
    ranks = first_ranks(np.array([[4, 2, 7], [1, 0, 3], [5, 6, 8]]), [{7: 1, 2: 1}, {1: 2}, {9: 1}])
    assert ranks.tolist() == [2, 1, 0]
    assert unpacked(packed(ranks)).tolist() == [2, 1, 0]


@pytest.mark.parametrize(("vocab", "slices", "skip"), [(30, 8, 5), (30, 4, 0), (31, 7, 3), (30, 25, 5), (30, 40, 5)])
def test_sliced_weights_on_the_device_are_those_that_densify_keeps(vocab: int, slices: int, skip: int) -> None:
    weights = np.random.default_rng(1).integers(0, 4, (20, vocab)).astype(np.float32)  # many equal ones
    slicing = Slicing.stride(vocab, slices, skip)
    expected = restore(densify(weights, slicing), slicing).toarray()
    sliced = EncodedTexts(TrainVectors(torch.from_numpy(weights), None), skip).lexical(slices)
    np.testing.assert_array_equal(sliced.numpy(), expected)


def test_scorings_are_the_parts_their_sum_and_every_slicing_of_them(model: BiEncoder) -> None:
    assert [scoring.name for scoring in scorings(model, [8])] == [
        "lexical",
        "dense",
        "joint",
        "lexical-8",
        "lexical-8-full",
        "joint-8",
        "joint-8-full",
    ]


def test_search_finds_what_scoring_everything_at_once_finds(
    model: BiEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = CollectionReader(model.tokenizer, model.config).collection(
        Source.of_folder(make_folder(tmp_path / "beir"), "dev")
    )
    monkeypatch.setattr(evaluation, "QUERIES_AT_ONCE", 2)
    rankings = BruteForce(model, skip=5, tokens=20).search(found.queries, found.docs, scorings(model, [8]), k=4)

    def encoded(tokens: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
        rows = [tokens[row].tolist() for row in range(count)]
        with torch.no_grad():
            outputs = [model(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.int64)) for row in rows]
        lexical, dense = (np.concatenate([part.numpy() for part in parts]) for parts in zip(*outputs, strict=True))
        return lexical, dense

    (q_lexical, q_dense), (d_lexical, d_dense) = encoded(found.queries, 5), encoded(found.docs, 6)
    slicing = Slicing.stride(q_lexical.shape[1], 8, 5)
    q_sliced, d_sliced = (restore(densify(part, slicing), slicing).toarray() for part in (q_lexical, d_lexical))
    dense = 3.0 * q_dense @ d_dense.T
    expected = {
        "lexical": q_lexical @ d_lexical.T,
        "dense": dense,
        "joint": q_lexical @ d_lexical.T + dense,
        "lexical-8": q_sliced @ d_sliced.T,
        "lexical-8-full": q_lexical @ d_sliced.T,
        "joint-8": q_sliced @ d_sliced.T + dense,
        "joint-8-full": q_lexical @ d_sliced.T + dense,
    }
    assert set(rankings) == set(expected)
    for name, scores in expected.items():
        np.testing.assert_array_equal(rankings[name], np.argsort(-scores, axis=1, kind="stable")[:, :4], err_msg=name)


def test_a_document_that_shares_no_token_is_not_found(tmp_path: Path) -> None:
    config = ModelConfig(lexical="unicoil", max_length=16, query_length=16)
    model = BiEncoder.load(make_backbone(tmp_path / "bert"), config)
    assert isinstance(model.token_head, torch.nn.Linear)
    with torch.no_grad():
        model.token_head.weight.zero_()
        model.token_head.bias.fill_(1.0)  # every word of a text counts 1
    docs = tokenised(model.tokenizer, ["cat cat dog", "bird fish", "dog"], 16)
    queries = tokenised(model.tokenizer, ["dog cat", "stone"], 16)
    found = BruteForce(model, skip=0, tokens=100).search(queries, docs, scorings(model), k=3)
    assert found["lexical"].tolist() == [[0, 2, NOT_FOUND], [NOT_FOUND] * 3]


def test_evaluate_gives_measures_weights_and_ranks_of_every_scoring(model: BiEncoder, tmp_path: Path) -> None:
    found = CollectionReader(model.tokenizer, model.config).collection(
        Source.of_folder(make_folder(tmp_path / "beir"), "dev")
    )
    result: Any = evaluate(model, found, scorings(model, [8]), skip=5, tokens=64)
    assert set(result["measures"]) == set(result["ranks"]) == {scoring.name for scoring in scorings(model, [8])}
    assert set(result["measures"]["joint"]) == {"RR@10", "nDCG@10", "R@1000"}
    assert result["measures"]["dense"]["R@1000"] == 1.0
    ranks = unpacked(result["ranks"]["dense"])
    assert np.mean(1 / ranks) == pytest.approx(result["measures"]["dense"]["RR@10"])
    assert not model.training


def test_groups_hold_every_row_once_and_no_more_tokens_than_allowed(model: BiEncoder) -> None:
    docs = tokenised(model.tokenizer, ["cat " * n for n in (1, 5, 2, 9, 3, 3)], 32)
    groups = list(by_length(docs, 14))
    assert sorted(row for group in groups for row in group) == list(range(6))
    assert [max(docs.lengths[group]) * len(group) <= 14 for group in groups] == [True] * len(groups)
