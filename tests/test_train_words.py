"""Training a model that weighs words: what it starts from, several collections, and the way to an encoder."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from denslice import Index
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.train.brute_force import BruteForce, Scoring, scorings
from denslice.train.config import read_config
from denslice.train.data import CollectionReader, Mixed, Pairs, Source
from denslice.train.loop import train
from tiny import DOCS, QUERIES, logged_losses, make_backbone, make_folder, write_config

MODEL = ModelConfig(
    lexical="words", dense="mean", normalise=True, lam=2.0, max_length=16, query_length=16, head_width=4
)
WORDS = (
    'lexical = "words"\ndense = "mean"\nnormalise = true\nlam = 2.0\nmax_length = 16\nquery_length = 16\nhead_width = 4'
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("tiny") / "bert", mlm=False)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [make_folder(tmp_path / name) for name in ("one", "two")]


def pairs_of(folder: Path, bert: Path) -> Pairs:
    model = BiEncoder.load(bert, MODEL)
    found = CollectionReader(model.tokenizer, MODEL).collection(Source.of_folder(folder, "train"))
    return Pairs(found, [[] for _ in found.query_ids], 1, seed=0)


def test_an_untrained_models_words_rank_as_bm25_does(tmp_path: Path, folders: list[Path], bert: Path) -> None:
    model = BiEncoder.load(bert, MODEL)
    found = CollectionReader(model.tokenizer, MODEL).collection(Source.of_folder(folders[0], "train"))
    ranked = BruteForce(model, 0, 64).search(found.queries, found.docs, [Scoring(True, False)], 6)["lexical"]
    index = Index.create(tmp_path / "bm25.idx", "bm25")
    index.add([{"id": id, "text": text} for id, text in DOCS.items()])
    for query, rows in zip(found.query_ids, ranked, strict=True):
        assert tuple(found.doc_ids[row] for row in rows if row >= 0)[:1] == index.search(QUERIES[query], k=1).ids


def test_a_word_model_is_measured_whole_since_its_slices_are_the_collections(bert: Path) -> None:
    assert [scoring.name for scoring in scorings(BiEncoder.load(bert, MODEL), (768,))] == ["lexical", "dense", "joint"]


def test_a_batch_comes_from_one_of_several_collections_and_a_resumed_run_sees_the_same(
    folders: list[Path], bert: Path
) -> None:
    collections = [pairs_of(folder, bert) for folder in folders]
    mixed = Mixed(collections, seed=0)
    drawn = [batch.queries.flat.tolist() for batch in islice(mixed.batches(0, 2), 8)]
    assert [batch.queries.flat.tolist() for batch in islice(mixed.batches(6, 2), 5)] == drawn[3:]
    assert len(list(mixed.texts())) == 2 * len(DOCS)


def test_a_batchs_words_have_a_column_for_each_word_of_its_queries(folders: list[Path], bert: Path) -> None:
    batch = next(pairs_of(folders[0], bert).batches(0, 2))
    queries, passages = batch.queries.words, batch.passages.words
    assert queries is not None
    assert passages is not None
    columns = queries.columns()
    asked, given = (words.tensors(columns) for words in (queries, passages))
    assert asked.columns == given.columns == len(columns) == len(set(queries.weights.indices))
    assert len(given.weights) < passages.weights.nnz  # words that no query has are left out
    assert (np.diff(columns) > 0).all()


def test_training_on_several_folders_moves_importances_and_ends_in_an_encoder(
    tmp_path: Path, folders: list[Path], bert: Path
) -> None:
    pytest.importorskip("onnx")
    from denslice.encoders.onnx.export import export_onnx

    BiEncoder.load(bert, MODEL).save(tmp_path / "start")
    names = ", ".join(f'"{folder}"' for folder in folders)
    data = f"folders = [{names}]\nnegatives = 1\nnegatives_from = 'model'\ndepth = 3"
    loss = f'lexical = 0.5\ndense = 0.5\ndistill = 1.0\nteacher = "{tmp_path / "start"}"'
    config = write_config(tmp_path, model=WORDS, data=data, loss=loss, optimizer="steps = 6\nbatch = 4\nlr = 0.01")
    model = train(read_config(config, backbone=str(tmp_path / "start"), device="cpu"))
    assert len(logged_losses(tmp_path / "out")) > 0
    assert (tmp_path / "out" / "negatives-model" / "two.jsonl.gz").is_file()
    head: Any = BiEncoder.load(model).token_head
    assert head[-1].weight.abs().sum() > 0
    export_onnx(model, tmp_path / "onnx")
    index = Index.create(tmp_path / "my.idx", str(tmp_path / "onnx"), slices=8)
    index.add([{"id": id, "text": text} for id, text in DOCS.items()])
    assert index.search("cat tree", mode="lexical")[0].id == "d1"


@pytest.mark.parametrize(
    ("data", "told"),
    [('folder = "a"\nfolders = ["b"]', "one of data.folder"), ('triples = "a"\nfolders = ["b"]', "one of data.folder")],
)
def test_training_data_is_named_once(tmp_path: Path, data: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_config(write_config(tmp_path, data=data))


def test_prompts_are_no_words_of_a_text() -> None:
    with pytest.raises(InputError, match="weighed as words"):
        ModelConfig(lexical="words", dense="mean", query_prompt="query: ")
