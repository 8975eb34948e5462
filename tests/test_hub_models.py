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

from huggingface_hub import constants

import denslice as ds
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch import loader
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.encoders.torch.loader import fingerprint
from denslice.reproduce.collection import read_collection
from denslice.reproduce.encoding import NamedModel, encode
from small_models import make_folder

NAME = "someone/some-model"
FIRST, SECOND = "1" * 40, "2" * 40
IN_A_NEW_PROCESS = """
import denslice as ds
index = ds.open_index("my.idx")
print(index.search("cat")[0].score, index.info()["encoder_options"]["revision"])
new = ds.Index.create("new.idx", "someone/some-model", slices=16)
new.add([{"id": "1", "text": "cat"}])
print(new.search("cat")[0].score, new.info()["encoder_options"]["revision"])
"""


@pytest.fixture(scope="module")
def revisions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub's cache with two revisions of one model, which differ in λ; the first is the newest that is known."""
    folder = tmp_path_factory.mktemp("hub")
    model = folder / "home" / "hub" / "models--someone--some-model"
    config = ModelConfig(lexical="splade", dense="cls", lam=2.0, max_length=32, query_length=16)
    BiEncoder.load(make_folder(folder / "backbone"), config).save(model / "snapshots" / FIRST)
    other = shutil.copytree(model / "snapshots" / FIRST, model / "snapshots" / SECOND) / "denslice.json"
    other.write_text(json.dumps(json.loads(other.read_text()) | {"lam": 5.0}))
    points_to(model, FIRST)
    return folder / "home"


@pytest.fixture
def cache(revisions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that cache, which this process works with, in the working folder and without a network."""
    shutil.copytree(revisions, tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    forget()
    return tmp_path / "home" / "hub" / "models--someone--some-model"


def forget() -> None:
    """Make this process know as much of models as a new one."""
    fingerprint.cache_clear()
    loader._loaded.cache_clear()


def points_to(model: Path, revision: str) -> None:
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(revision)


def make() -> None:
    ds.Index.create("my.idx", NAME, slices=16).add([{"id": "1", "text": "cat"}])
    forget()


def score() -> float:
    return ds.open_index("my.idx").search("cat")[0].score


def test_an_index_goes_on_with_the_revision_it_was_made_with(cache: Path, tmp_path: Path) -> None:
    make()
    before = score()
    points_to(cache, SECOND)
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS], capture_output=True, text=True, env=variables)
    assert done.stderr == ""
    same, same_revision, other, newest = done.stdout.split()
    assert float(same) == pytest.approx(before)
    assert same_revision == FIRST
    assert newest == SECOND
    assert float(other) != pytest.approx(before)


def test_other_contents_under_the_same_revision_are_refused(cache: Path) -> None:
    make()
    shutil.copy(cache / "snapshots" / SECOND / "denslice.json", cache / "snapshots" / FIRST / "denslice.json")
    with pytest.raises(ds.InputError, match=f"^{NAME} at revision {FIRST} in .*: is not the model this index was made"):
        score()


def test_a_revision_that_is_gone_from_the_cache_is_named(cache: Path) -> None:
    make()
    shutil.rmtree(cache / "snapshots" / FIRST)
    points_to(cache, SECOND)
    with pytest.raises(ds.InputError, match=f"^no model folder {NAME} at revision {FIRST}; as a name on the"):
        score()


def test_a_folder_with_the_name_of_the_hub_id_does_not_take_its_place(cache: Path, tmp_path: Path) -> None:
    make()
    before = score()
    shutil.copytree(cache / "snapshots" / SECOND, tmp_path / "someone" / "some-model")
    forget()
    assert score() == before


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
    encode(read_collection("data", "test"), NamedModel("hub", NAME), Path("work"))
    next((tmp_path / "work" / "hub").glob("docs-*/*.npz")).unlink()
    points_to(cache, SECOND)
    forget()
    with pytest.raises(ds.InputError, match=f"was encoded by another model than {NAME}; remove it"):
        encode(read_collection("data", "test"), NamedModel("hub", NAME), Path("work"))
