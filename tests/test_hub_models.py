"""An index made with a hub's model keeps the revision, loads that one again, and refuses other contents. No network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [torch]")
pytest.importorskip("transformers", reason="needs the extra [torch]")

from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.encoders.torch.loader import fingerprint
from small_models import make_folder

FIRST, SECOND = "1" * 40, "2" * 40
MAKE = """import denslice as ds
ds.Index.create("my.idx", "someone/some-model", slices=16).add([{"id": "1", "text": "cat"}])"""
SEARCH = "import denslice as ds; print(ds.open_index('my.idx').search('cat')[0].score)"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A hub's cache with two revisions of one model, which differ in λ; the first is the newest that is known."""
    model = tmp_path / "home" / "hub" / "models--someone--some-model"
    config = ModelConfig(lexical="splade", dense="cls", lam=2.0, max_length=32, query_length=16)
    BiEncoder.load(make_folder(tmp_path / "backbone"), config).save(model / "snapshots" / FIRST)
    other = shutil.copytree(model / "snapshots" / FIRST, model / "snapshots" / SECOND) / "denslice.json"
    other.write_text(json.dumps(json.loads(other.read_text()) | {"lam": 5.0}))
    points_to(model, FIRST)
    return model


def points_to(model: Path, revision: str) -> None:
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(revision)


def python(code: str, folder: Path) -> str:
    """What a process of its own says, with this cache and no network."""
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, cwd=folder)
    return (done.stdout + done.stderr).strip()


def test_an_index_goes_on_with_the_revision_it_was_made_with(cache: Path, tmp_path: Path) -> None:
    assert python(MAKE, tmp_path) == ""
    before = python(SEARCH, tmp_path)
    points_to(cache, SECOND)
    assert python(SEARCH, tmp_path) == before
    told = python("import denslice as ds; print(ds.open_index('my.idx').info()['encoder_options'])", tmp_path)
    assert FIRST in told
    python(MAKE.replace("my.idx", "new.idx"), tmp_path)
    assert python(SEARCH.replace("my.idx", "new.idx"), tmp_path) != before


def test_other_contents_under_the_same_revision_are_refused(cache: Path, tmp_path: Path) -> None:
    python(MAKE, tmp_path)
    (cache / "snapshots" / FIRST / "denslice.json").write_bytes(
        (cache / "snapshots" / SECOND / "denslice.json").read_bytes()
    )
    said = python(SEARCH, tmp_path)
    assert f"InputError: someone/some-model at revision {FIRST} in " in said
    assert "is not the model this index was made with; put it back or make a new index" in said


def test_a_revision_that_is_gone_from_the_cache_is_named(cache: Path, tmp_path: Path) -> None:
    python(MAKE, tmp_path)
    shutil.rmtree(cache / "snapshots" / FIRST)
    points_to(cache, SECOND)
    said = python(SEARCH, tmp_path)
    assert f"InputError: no model folder someone/some-model at revision {FIRST}; as a name on the" in said


def test_a_folder_with_the_name_of_the_hub_id_does_not_take_its_place(cache: Path, tmp_path: Path) -> None:
    python(MAKE, tmp_path)
    before = python(SEARCH, tmp_path)
    shutil.copytree(cache / "snapshots" / SECOND, tmp_path / "someone" / "some-model")
    assert python(SEARCH, tmp_path) == before


@pytest.mark.parametrize(
    "name", ["onnx/config.json", "pytorch_model.bin", "checkpoint-10/model.safetensors", "notes.md"]
)
def test_files_a_model_is_not_loaded_from_make_no_other_model(cache: Path, name: str) -> None:
    folder = cache / "snapshots" / FIRST
    before = fingerprint(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("{}")
    fingerprint.cache_clear()
    assert fingerprint(folder) == before


@pytest.mark.parametrize("name", ["spiece.model", "vocab.txt", "1_Pooling/config.json", "more.safetensors"])
def test_files_a_model_is_loaded_from_make_another_model(cache: Path, name: str) -> None:
    folder = cache / "snapshots" / FIRST
    before = fingerprint(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("{}")
    fingerprint.cache_clear()
    assert fingerprint(folder) != before


def test_vectors_of_two_revisions_are_never_mixed(cache: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    (data / "corpus.jsonl").write_text('{"_id": "d", "text": "a cat"}\n')
    (data / "queries.jsonl").write_text('{"_id": "q", "text": "cat"}\n')
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    encode = """from pathlib import Path
from denslice.reproduce.collection import read_collection
from denslice.reproduce.encoding import NamedModel, encode
encode(read_collection("data", "test"), NamedModel("hub", "someone/some-model"), Path("work"))"""
    assert python(encode, tmp_path) == ""
    next((tmp_path / "work" / "hub").glob("docs-*/*.npz")).unlink()
    points_to(cache, SECOND)
    assert "was encoded by another model than someone/some-model; remove it" in python(encode, tmp_path)
