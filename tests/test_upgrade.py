"""Indexes of every format since 2: those of this version's open, older ones are upgraded, and nothing is lost."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import golden
from denslice import Index, IndexFormatError, InputError, LockedError, open_index
from denslice.__main__ import app
from denslice.analysis.analyzer import ANALYSIS
from denslice.encoders import checked_options
from denslice.index.create import new_manifest
from denslice.index.upgrade import upgrade
from denslice.options import IndexOptions
from denslice.store import manifest as manifests
from denslice.store import snapshot
from denslice.store.folder import Folder
from denslice.store.manifest import INDEX_FORMAT
from forked import Child
from kill_upgrade import kill, state
from kill_writer import FAULTS, with_fault

KINDS = ("bm25", "mini", "vectors")
# Long documents, before and since they are cut into passages; and what the second analysis of words made.
LATER = ["format-3-long", "format-3-passages", "format-3-words", "format-3-words-mini"]
NAMES = sorted(path.stem for path in golden.FOLDER.glob("*.zip"))


def query_of(name: str) -> Any:
    """The query of ready vectors, for those."""
    weights, dense = golden.vectors()
    return (weights[8:9], dense[8]) if name.endswith("vectors") else None


def encoded_as_now(name: str) -> bool:
    """Whether a golden index has the words and the vectors that this version makes of its texts."""
    if name.endswith("vectors"):
        return True
    with zipfile.ZipFile(golden.FOLDER / f"{name}.zip") as packed:
        options = json.loads(packed.read("manifest.json"))["index"]["encoder_options"]
    model = checked_options("mini", {})["fingerprint"]
    return bool(options.get("fingerprint", model) == model and options.get("analysis") == ANALYSIS)


def made_anew(index: Index, path: Path) -> Index:
    """A new index with the settings and documents of another one."""
    told = index.reader.snapshot.manifest
    options = {name: value for name, value in told.encoder_options.items() if name != "fingerprint"}
    slices, slicing = told.slicing.slices, told.slicing.kind
    new = Index.create(path, told.encoder, slices=slices, slicing=slicing, query=told.query, options=options)
    new.add(index.docs())
    return new


def close(answers: list[Any]) -> list[Any]:
    """Answers to compare: scores as close as sums of floats in another order are."""
    return [
        [text, [[id, *(pytest.approx(s, rel=1e-5, abs=1e-6) for s in scores)] for id, *scores in hits]]
        for text, hits in answers
    ]


def test_there_is_a_golden_index_of_every_format_since_2() -> None:
    names = [f"format-{number}-{kind}" for number in range(2, INDEX_FORMAT + 1) for kind in KINDS]
    assert sorted(names + LATER) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_index_of_any_format_has_its_documents_and_answers_after_an_upgrade(tmp_path: Path, name: str) -> None:
    expected = golden.unpacked(name, tmp_path / "my.idx")
    upgrade(tmp_path / "my.idx")
    with open_index(tmp_path / "my.idx") as index:
        index.verify()
        found = golden.told(index, query_of(name))
        assert sorted(found["docs"]) == sorted(expected["docs"])
        if encoded_as_now(name):
            assert close(found["answers"]) == expected["answers"]
        else:
            anew = golden.told(made_anew(index, tmp_path / "new.idx"), query_of(name))
            assert close(found["answers"]) == anew["answers"]
        index.merge()
        assert golden.told(index, query_of(name))["answers"] == found["answers"]


def test_an_index_of_an_earlier_analysis_opens_and_finds_every_word_once_upgraded(tmp_path: Path) -> None:
    golden.unpacked("format-3-long", tmp_path / "my.idx")
    with open_index(tmp_path / "my.idx") as index:
        assert index.info().passages is None
        assert len(list(index.docs())) == 4
        with pytest.raises(InputError, match="earlier analysis of words; run `denslice upgrade`"):
            index.search("kelp0")
    reason = upgrade(tmp_path / "my.idx").reason
    assert reason == "encoded again with the words and the embedded model as they are now"
    with open_index(tmp_path / "my.idx") as index:
        for word in [f"kelp{n}" for n in range(0, 900, 37)]:
            (hit,) = index.search(word)
            assert word in hit.passages[0].text
        assert (index.info().slices, len(index)) == (None, 4)
        assert index.search("foxes sleep").ids[0] == "d0"
    assert upgrade(tmp_path / "my.idx").reason == ""


def test_an_upgrade_to_passages_keeps_a_slicing_that_was_asked_for(tmp_path: Path) -> None:
    manifest = replace(new_manifest(IndexOptions("bm25", slices=16, filterable=["year"])), passages=False)
    snapshot.create(tmp_path / "my.idx", manifest)
    with open_index(tmp_path / "my.idx") as index:
        index.add([*golden.long_docs(), *golden.docs(2, 7)])
        index.delete(["d3"])
        short = index.explain("heat pump", "d1").terms
    assert "passages" in upgrade(tmp_path / "my.idx").reason
    with open_index(tmp_path / "my.idx") as index:
        assert (index.info().slices, index.info().filterable, len(index)) == (16, ("year",), 8)
        assert index.get("d3") is None
        again = index.explain("heat pump", "d1").terms  # idf counts passages now, and the weights are as they were
        assert {term.token: term.doc_weight for term in again} == {term.token: term.doc_weight for term in short}
        index.verify()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(f"format-{INDEX_FORMAT}-")])
def test_opening_an_older_format_says_to_upgrade(tmp_path: Path, name: str) -> None:
    golden.unpacked(name, tmp_path / "my.idx")
    with pytest.raises(IndexFormatError, match=r"run `denslice upgrade .*my\.idx`"):
        open_index(tmp_path / "my.idx")


def test_an_upgraded_index_goes_on_living(tmp_path: Path) -> None:
    golden.unpacked("format-2-bm25", tmp_path / "my.idx")
    upgrade(tmp_path / "my.idx")
    index = open_index(tmp_path / "my.idx")
    assert index.info()["filterable"] == ["year"]
    index.add([{"id": "new", "text": "A heat pump for foxes", "year": 2040}])
    index.delete(["d0"])
    assert index.search("foxes").ids == ("new",)
    assert index.search("heat pump", where={"year": {"gte": 2025}}).ids == ("new", "d1")
    assert sorted(path.name for path in (tmp_path / "my.idx").iterdir()) == sorted(
        ["deletions", "followed", "lock", "lock.next", "manifest.json", "segments", "vocabulary", "writing"]
    )


def test_an_upgrade_of_what_is_up_to_date_changes_nothing(tmp_path: Path) -> None:
    index = golden.write_bm25(tmp_path / "my.idx")
    before = manifests.read(Folder(index.path))
    assert upgrade(index.path).reason == ""
    assert manifests.read(Folder(index.path)) == before


def of_another_model(path: Path) -> Index:
    """An index that says it was made with other weights of the embedded model."""
    index = Index.create(path, "mini", slices=32, filterable=["year"], options={"k1": 1.1})
    index.add(golden.docs(0, 3))
    index.add(golden.docs(3, 7))
    manifest = manifests.read(Folder(path))
    options = {**manifest.encoder_options, "fingerprint": "of other weights"}
    manifests.write(path, manifest.next_generation(encoder_options=options))
    return index


def test_an_index_of_another_embedded_model_is_encoded_again_from_its_own_texts(tmp_path: Path) -> None:
    path = tmp_path / "my.idx"
    before = golden.told(of_another_model(path))
    assert open_index(path).search("foxes")[0].dense == 0.0
    assert "encoded again" in upgrade(path).reason
    with open_index(path) as index:
        assert golden.told(index)["docs"] == before["docs"]
        assert close(golden.told(index)["answers"]) == before["answers"]
        told = index.info()
        assert (told["filterable"], told["encoder_options"]["k1"], told["slices"]) == (["year"], 1.1, 32)
    assert upgrade(path).reason == ""


MAKE: dict[str, Callable[[Path], object]] = {
    "format-2-bm25": lambda path: golden.unpacked("format-2-bm25", path),
    "format-3-long": lambda path: golden.unpacked("format-3-long", path),
    "format-2-vectors": lambda path: golden.unpacked("format-2-vectors", path),
    "another-model": of_another_model,
}


@pytest.mark.parametrize("fault", ["kill", "fail"])
@pytest.mark.parametrize("what", MAKE)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_an_upgrade_that_ends_at_any_step_loses_nothing_and_can_be_done_again(
    tmp_path: Path, what: str, fault: str
) -> None:
    MAKE[what](tmp_path / "old")
    expected = state(tmp_path / "old")
    path, step, every = tmp_path / "copy", 0, 9 if what == "format-2-vectors" else 23
    while True:
        shutil.copytree(tmp_path / "old", path)
        ended = with_fault(lambda: upgrade(path), step, FAULTS[fault])
        assert state(path) == expected, f"step {step}: {ended}"
        upgrade(path)
        assert state(path) == expected
        with open_index(path) as index:
            index.verify()
            assert upgrade(path).reason == ""
        assert not (path / "upgrade").exists()
        shutil.rmtree(path)
        if not ended:
            break
        step += every
    assert step > 20


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_an_upgrade_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    assert kill(tmp_path, 5, seed=1)["kills"] == 5


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_an_upgrade_that_was_killed_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("denslice.index.upgrade.AT_ONCE", 2)  # seven documents in four commits
    path = tmp_path / "my.idx"
    of_another_model(path)
    told: list[int] = []

    def dies() -> str:
        def progress(count: int) -> None:
            told.append(count)
            if len(told) == 3:
                FAULTS["kill"]()

        upgrade(path, progress)
        return "came through"

    assert "SIGKILL" in Child(dies).result()
    encoded: list[int] = []
    upgrade(path, encoded.append)
    assert sum(encoded) == 3
    assert len(open_index(path)) == 7


def test_an_upgrade_begun_before_the_index_changed_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my.idx"
    of_another_model(path)
    with monkeypatch.context() as patch:
        patch.setattr(
            "denslice.index.upgrade._take_place", lambda path, changes: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            upgrade(path)
    assert open_index(path).delete(["d1"]) == 1
    upgrade(path)
    assert open_index(path).get("d1") is None
    assert len(open_index(path)) == 6


def test_a_damaged_index_is_not_upgraded_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "my.idx"
    golden.unpacked("format-2-bm25", path)
    hurt = next(path.glob("segments/*/row_weights.npy"))
    data = bytearray(hurt.read_bytes())
    data[-1] ^= 1
    hurt.write_bytes(data)
    with pytest.raises(IndexFormatError, match=r"row_weights\.npy: its contents differ"):
        upgrade(path)
    assert manifests.format_of(Folder(path)) == 2


def test_an_index_that_an_older_version_reads_is_not_pulled_from_under_it(tmp_path: Path) -> None:
    import fcntl

    golden.unpacked("format-2-bm25", tmp_path / "my.idx")
    with (tmp_path / "my.idx" / "manifest.json").open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)  # as readers of format 2 do
        with pytest.raises(LockedError, match="a process is reading this index"):
            upgrade(tmp_path / "my.idx")
    assert upgrade(tmp_path / "my.idx").docs == 6


def test_a_newer_format_is_refused_by_what_to_do(tmp_path: Path) -> None:
    index = golden.write_bm25(tmp_path / "my.idx")
    path = index.path / manifests.MANIFEST_FILE
    path.write_bytes(path.read_bytes().replace(b'"format": 3', b'"format": 99'))
    for read in (lambda: open_index(index.path), lambda: upgrade(index.path)):
        with pytest.raises(IndexFormatError, match=r"index format 99.*upgrade denslice"):
            read()


def test_an_index_that_needs_what_this_version_lacks_is_refused(tmp_path: Path) -> None:
    index = golden.write_bm25(tmp_path / "my.idx")
    manifest = manifests.read(Folder(index.path))
    manifests.write(index.path, replace(manifest, needs=("telepathy",)))
    with pytest.raises(IndexFormatError, match="needs telepathy, which this version lacks"):
        open_index(index.path)


def test_a_manifest_that_says_more_than_this_version_knows_is_read(tmp_path: Path) -> None:
    index = golden.write_bm25(tmp_path / "my.idx")
    path = index.path / manifests.MANIFEST_FILE
    told = json.loads(path.read_bytes())
    told["index"]["later"] = {"a": 1}
    told["checksum"] = manifests._digest(told["index"])
    path.write_bytes(json.dumps(told).encode())
    assert len(open_index(index.path)) == len(index)


def test_the_command_upgrades_and_says_so(tmp_path: Path) -> None:
    golden.unpacked("format-2-bm25", tmp_path / "my.idx")
    shown = CliRunner().invoke(app, ["upgrade", str(tmp_path / "my.idx")])
    assert shown.exit_code == 0
    assert shown.stdout.endswith(
        "upgraded 6 documents (format 2 to 3, encoded again with the words and the embedded model as they are now)\n"
    )
    assert "nothing to upgrade" in CliRunner().invoke(app, ["upgrade", str(tmp_path / "my.idx")]).stdout
