"""Stage one of every reproduction: texts are encoded once, go on after a stop, and travel without their model."""

from __future__ import annotations

import json
import shutil
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner, Result

import tiny
from denslice import Index
from denslice.__main__ import app
from denslice.analysis.analyzer import Analyzer
from denslice.corpus.documents import read_docs, read_queries
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.encoders.torch.loader import fingerprint
from denslice.encoders.torch.transformer_encoder import TransformerEncoder
from denslice.errors import InputError
from denslice.reproduce import encoded_rows, encoding
from denslice.reproduce.collection import read_collection
from denslice.reproduce.encoding import Encodings, NamedModel, encode, missing_docs, parsed_models
from denslice.vectors import Encoded


def denslice(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A joint model over the tiny collection's words."""
    folder = tmp_path_factory.mktemp("models")
    backbone = tiny.make_backbone(folder / "backbone")
    config = ModelConfig(lexical="splade", dense="cls", lam=2.0, max_length=32, query_length=32)
    BiEncoder.load(backbone, config).save(folder / "joint")
    return folder / "joint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.make_folder(tmp_path / "tiny")


def docs_of(made: Encodings) -> Encoded:
    return encoded_rows.read_all(made.docs_folder, made.facts.vocab)


# --- parts


def rows(count: int, width: int = 7) -> Encoded:
    rng = np.random.default_rng(0)
    lexical = sp.random_array((count, width), density=0.5, rng=rng, format="csr", dtype=np.float32)
    return Encoded(lexical, rng.standard_normal((count, 3)).astype(np.float32))


def test_rows_come_back_as_they_were_but_for_float16(tmp_path: Path) -> None:
    written = rows(10)
    encoded_rows.write_rows(tmp_path, 0, written, np.float16)
    read = encoded_rows.read_all(tmp_path, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000-00000010.npz"]
    assert read.dense is not None
    assert written.dense is not None
    np.testing.assert_array_equal(read.lexical.todense(), written.lexical.todense().astype(np.float16))
    np.testing.assert_array_equal(read.dense, written.dense.astype(np.float16))


def test_rows_are_cut_where_a_file_would_grow_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_rows, "PART_BYTES", 60)
    written = rows(10)
    encoded_rows.write_rows(tmp_path, 0, written, np.float32)
    assert 3 < len(list(tmp_path.iterdir())) < 10
    assert encoded_rows.gaps(tmp_path, 10) == []
    np.testing.assert_array_equal(encoded_rows.read_all(tmp_path, 7).lexical.todense(), written.lexical.todense())


def test_gaps_are_the_rows_no_file_holds(tmp_path: Path) -> None:
    encoded_rows.write_rows(tmp_path, 2, rows(3), np.float16)
    encoded_rows.write_rows(tmp_path, 7, rows(1), np.float16)
    assert encoded_rows.gaps(tmp_path, 10) == [(0, 2), (5, 7), (8, 10)]


def test_a_vocabulary_too_large_for_two_bytes_keeps_its_token_ids(tmp_path: Path) -> None:
    weights = sp.csr_array(([1.0], ([0], [80_000])), shape=(1, 80_001), dtype=np.float32)
    encoded_rows.write_rows(tmp_path, 0, Encoded(weights), np.float16)
    assert encoded_rows.read_all(tmp_path, 80_001).lexical.indices.tolist() == [80_000]


def test_weights_that_float16_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="above 65,504"):
        encoded_rows.write_rows(tmp_path, 0, Encoded(sp.csr_array(np.array([[70_000.0]], np.float32))), np.float16)


def test_a_damaged_part_is_named_and_its_gap_filled(data: Path, tmp_path: Path) -> None:
    collection = read_collection(str(data), "dev")
    made = encode(collection, NamedModel("bm25", "bm25"), tmp_path / "work")
    whole = docs_of(made).lexical.todense()
    part = next(made.docs_folder.glob("*.npz"))
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"00000000-00000006\.npz: damaged .*; remove it and encode again"):
        docs_of(made)
    part.unlink()
    again = encode(collection, NamedModel("bm25", "bm25"), tmp_path / "work")
    np.testing.assert_array_equal(docs_of(again).lexical.todense(), whole)


# --- the collection


def test_only_judged_queries_are_asked(data: Path) -> None:
    (data / "qrels" / "few.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td2\t1\n")
    collection = read_collection(str(data), "few")
    assert (collection.name, [query.id for query in collection.queries]) == ("tiny", ["q2"])
    assert collection.doc_ids == list(tiny.DOCS)


def test_a_judged_query_without_a_text_is_an_error(data: Path) -> None:
    (data / "qrels" / "test.tsv").write_text("q9\td2\t1\nq1\td1\t1\n")
    with pytest.raises(InputError, match="query 'q9' is judged, and is not among the queries"):
        read_collection(str(data))


def test_fingerprints_follow_the_texts_they_stand_for(data: Path) -> None:
    before = read_collection(str(data), "dev")
    corpus = (data / "corpus.jsonl").read_text()
    (data / "corpus.jsonl").write_text(corpus.replace("tree", "oak"))
    after = read_collection(str(data), "dev")
    assert before.docs_fingerprint != after.docs_fingerprint
    assert before.queries_fingerprint != after.queries_fingerprint


def test_a_named_dataset_gives_documents_queries_and_judgements(monkeypatch: pytest.MonkeyPatch) -> None:
    doc = namedtuple("doc", "doc_id text")
    query = namedtuple("query", "query_id text")
    judged = namedtuple("judged", "query_id doc_id relevance")
    dataset = SimpleNamespace(
        has_docs=lambda: True,
        has_queries=lambda: True,
        has_qrels=lambda: True,
        docs_iter=lambda: iter([doc("1", "cats"), doc("2", "dogs")]),
        queries_iter=lambda: iter([query("a", "cat"), query("b", "dog")]),
        qrels_iter=lambda: iter([judged("b", "2", 1)]),
    )
    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load={"pets/dev": dataset}.__getitem__))
    collection = read_collection("ir_datasets:pets/dev")
    assert (collection.name, collection.doc_ids) == ("pets/dev", ["1", "2"])
    assert [one.id for one in collection.queries] == ["b"]
    assert collection.qrels == {"b": {"2": 1}}


# --- models


def test_models_are_told_by_name_and_place() -> None:
    assert parsed_models(["bm25", "a=x/y,b=org/name", "runs/splade"]) == [
        NamedModel("bm25", "bm25"),
        NamedModel("a", "x/y"),
        NamedModel("b", "org/name"),
        NamedModel("splade", "runs/splade"),
    ]


@pytest.mark.parametrize(
    ("given", "problem"),
    [("a=", "expected NAME=FOLDER"), ("../a=x", "expected NAME=FOLDER"), ("a=x,a=y", "names 'a' twice")],
)
def test_models_told_badly_are_refused(given: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parsed_models([given])


def test_bm25_weighs_as_an_index_with_the_collections_average_length_does(data: Path, tmp_path: Path) -> None:
    made = encode(read_collection(str(data), "dev"), NamedModel("bm25", "bm25"), tmp_path / "work")
    scores = (made.queries().lexical @ docs_of(made).lexical.T).todense()  # (queries, docs)
    docs = list(read_docs([data]))
    options = {"average_length": sum(len(Analyzer().words(doc.contents)) for doc in docs) / len(docs)}
    index = Index.create(tmp_path / "bm25.idx", "bm25", slices=1000, slicing="stride", options=options)
    index.add(docs)
    for row, query in enumerate(read_queries(data)):
        found = index.search(query.text, k=10)
        expected = [scores[row, list(tiny.DOCS).index(id)] for id in found.ids]
        assert found.scores == pytest.approx(expected, rel=1e-3)
        assert len(found) == np.count_nonzero(scores[row])


def test_a_model_encodes_what_its_encoder_encodes(data: Path, tmp_path: Path, joint: Path) -> None:
    made = encode(read_collection(str(data), "dev"), NamedModel("joint", str(joint)), tmp_path / "work")
    encoder = TransformerEncoder.load(joint)
    docs, queries = encoder.encode_docs(list(tiny.DOCS.values())), encoder.encode_queries(list(tiny.QUERIES.values()))
    for read, expected, close in ((docs_of(made), docs, 1e-2), (made.queries(), queries, 1e-5)):
        assert read.dense is not None
        assert expected.dense is not None
        np.testing.assert_allclose(read.lexical.todense(), expected.lexical.todense(), atol=close)
        np.testing.assert_allclose(read.dense, expected.dense, atol=close)
    facts = made.facts
    assert (facts.lexical, facts.dense, facts.dimensions, facts.lam, facts.skip) == ("splade", "cls", 16, 2.0, 0)


# --- the work folder


def test_encoding_that_was_interrupted_goes_on_where_it_was(
    data: Path, tmp_path: Path, joint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, model = read_collection(str(data), "dev"), NamedModel("joint", str(joint))
    monkeypatch.setattr(encoding, "AT_ONCE", 2)
    done: list[int] = []

    def interrupt(count: int) -> None:
        done.append(count)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(collection, model, tmp_path / "work", progress=interrupt)
    assert missing_docs(collection, model, tmp_path / "work") == 2
    done.append(0)
    made = encode(collection, model, tmp_path / "work", progress=interrupt)
    assert done == [2, 2, 0, 2]
    unbroken = encode(collection, model, tmp_path / "other")
    difference = docs_of(made).lexical - docs_of(unbroken).lexical
    assert abs(difference).max() < 1e-2  # other batches, other rounding


def test_a_work_folder_that_travelled_needs_no_model(data: Path, tmp_path: Path, joint: Path) -> None:
    collection = read_collection(str(data), "dev")
    made = encode(collection, NamedModel("joint", str(joint)), tmp_path / "work")
    (tmp_path / "work").rename(tmp_path / "elsewhere")
    moved = encode(collection, NamedModel("joint", "not-here"), tmp_path / "elsewhere")
    assert moved.facts == made.facts
    assert moved.queries().lexical.nnz


def test_a_work_folder_that_lacks_a_part_asks_for_the_model(data: Path, tmp_path: Path, joint: Path) -> None:
    collection = read_collection(str(data), "dev")
    made = encode(collection, NamedModel("joint", str(joint)), tmp_path / "work")
    next(made.docs_folder.glob("*.npz")).unlink()
    with pytest.raises(InputError, match=r"no model folder \./not-here"):
        encode(collection, NamedModel("joint", "./not-here"), tmp_path / "work")


def test_vectors_of_another_model_are_never_taken(data: Path, tmp_path: Path, joint: Path) -> None:
    collection = read_collection(str(data), "dev")
    encode(collection, NamedModel("joint", str(joint)), tmp_path / "work")
    other = shutil.copytree(joint, tmp_path / "other")
    config = json.loads((other / "denslice.json").read_text())
    (other / "denslice.json").write_text(json.dumps(config | {"lam": 3.0}))
    assert fingerprint(other) != fingerprint(joint)
    with pytest.raises(InputError, match=r"was encoded by another model than .*other; remove it, or call the model"):
        encode(collection, NamedModel("joint", str(other)), tmp_path / "work")


def test_another_collection_is_kept_beside_the_first(data: Path, tmp_path: Path) -> None:
    first = encode(read_collection(str(data), "dev"), NamedModel("bm25", "bm25"), tmp_path / "work")
    (data / "corpus.jsonl").write_text('{"_id": "d1", "text": "one cat"}\n')
    second = encode(read_collection(str(data), "dev"), NamedModel("bm25", "bm25"), tmp_path / "work")
    assert (docs_of(first).lexical.shape[0], docs_of(second).lexical.shape[0]) == (6, 1)


def test_the_command_tells_what_it_encoded(data: Path, tmp_path: Path, joint: Path) -> None:
    options = ["--data", data, "--split", "dev", "--work", tmp_path / "work", "--models", "bm25"]
    result = denslice("reproduce", "encode", *options, "--models", f"joint={joint}", "--batch", 2)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        f"{name}: 6 documents and 5 queries in {tmp_path / 'work' / name}" for name in ("bm25", "joint")
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--split", "test"], "qrels/test.tsv: no such file; --data names a BEIR folder, and --split"),
        (["--split", "dev", "--models", "x=./nowhere"], "no model folder ./nowhere"),
    ],
)
def test_what_cannot_be_encoded_is_told_in_one_line(
    data: Path, tmp_path: Path, options: list[str], problem: str
) -> None:
    result = denslice("reproduce", "encode", "--data", data, "--models", "bm25", "--work", tmp_path / "work", *options)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert problem in result.stderr
