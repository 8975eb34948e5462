"""Quick queries: a table of words reads them instead of the model, in Python, on the command line and over HTTP."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from command_line import denslice
from denslice import Index, InputError, open_index
from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.mini import QuickMini, _model
from denslice.encoders.word_table import TABLE_FILE, WordTable
from serve_process import process
from small_tables import MINI, model_with_table

DOCS = [
    {"id": "fox", "text": "Foxes sleep by day and hunt at night."},
    {"id": "pump", "text": "A heat pump moves heat from a cold place to a warm one."},
    {"id": "bread", "text": "Bake the bread in a hot oven."},
    {"id": "german", "text": "Der Fuchs schläft am Tag und jagt in der Nacht nach Mäusen und Vögeln."},
]
QUERIES = ["when do foxes sleep", "heat heat bread", "?!", "zebra", "", "der Fuchs schläft in der Nacht"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The embedded model with a table of words."""
    return model_with_table(tmp_path_factory.mktemp("model") / "mini")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    path = tmp_path_factory.mktemp("index") / "my.idx"
    with Index.create(path, model) as index:
        index.add(DOCS)
    return path


def test_a_quick_query_has_the_words_of_bm25_and_the_vector_of_the_table(folder: Path, model: str) -> None:
    reader = open_index(folder, queries="quick").reader
    options = {
        name: value for name, value in reader.info().encoder_options.items() if name not in ("model", "fingerprint")
    }
    words, table = reader.snapshot.words, WordTable.load(Path(model))
    plain = Bm25(Bm25Config.from_json(options), words, reader.languages).encode_queries(QUERIES)
    found = reader.query_encoder.encode_queries(QUERIES)
    assert (found.lexical != plain.lexical).nnz == 0
    every = np.array([table.row_of(words.word(id)) for id in range(len(words))])
    expected = table.vectors(plain.lexical, every)
    expected[-1] = 0  # the model knows English
    assert found.dense is not None
    np.testing.assert_array_equal(found.dense, expected)
    assert found.dense.any(axis=1).tolist() == [True, True, False, False, False, False]


def test_the_model_reads_no_quick_query(folder: Path, model: str) -> None:
    before = _model(Path(model))._read_query.cache_info()
    with open_index(folder, queries="quick") as index:
        assert {"fox", "pump", "bread"} == set(index.search("never asked, foxes").ids)
        assert len(index.search_batch(["foxes never asked", "bread never asked"], mode="dense")[1]) == 3
    assert _model(Path(model))._read_query.cache_info() == before


def test_commits_refreshes_and_pickles_stay_quick(tmp_path: Path, model: str) -> None:
    Index.create(tmp_path / "my.idx", model).add(DOCS)
    index, other = open_index(tmp_path / "my.idx", queries="quick"), open_index(tmp_path / "my.idx")
    index.add([{"id": "new", "text": "The wing of a bread."}])
    other.add([{"id": "newer", "text": "Another wing."}])
    index.refresh()
    for one in (index, pickle.loads(pickle.dumps(index))):
        assert isinstance(one.reader.query_encoder, QuickMini)
        assert len(one.search("wing", mode="lexical")) == 2
    index.search("wing").explain("new")
    assert not isinstance(other.reader.query_encoder, QuickMini)


def test_the_command_and_the_server_take_quick_queries(folder: Path) -> None:
    with open_index(folder) as full, open_index(folder, queries="quick") as quick:
        expected = [(hit.id, hit.score) for hit in quick.search("when do foxes sleep")]
        assert expected != [(hit.id, hit.score) for hit in full.search("when do foxes sleep")]
    told = denslice("search", folder, "when do foxes sleep", "--queries", "quick", "--json").stdout
    assert [(hit["id"], hit["score"]) for hit in map(json.loads, told.splitlines())] == expected
    with process(folder, "--queries", "quick") as (_, served):
        [result] = served.search("when do foxes sleep").json()["results"]
        assert [(hit["id"], hit["score"]) for hit in result["hits"]] == expected


def test_what_cannot_be_quick_says_so(tmp_path: Path) -> None:
    shutil.copytree(MINI, tmp_path / "bare")
    (tmp_path / "bare" / TABLE_FILE).unlink(missing_ok=True)
    Index.create(tmp_path / "my.idx", str(tmp_path / "bare")).add(DOCS)
    with pytest.raises(InputError, match=r"the model bare has no words\.npz, so it cannot read texts quickly"):
        open_index(tmp_path / "my.idx", queries="quick").search("foxes")
    failed = denslice("serve", tmp_path / "my.idx", "--port", "0", "--queries", "quick")
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert "cannot read texts quickly" in failed.stderr
    with pytest.raises(InputError, match="queries must be one of full, quick, not 'fast'"):
        open_index(tmp_path / "my.idx", queries="fast")
    Index.create(tmp_path / "words.idx", "bm25").add(DOCS)
    assert open_index(tmp_path / "words.idx", queries="quick").search("foxes").ids == ("fox",)
