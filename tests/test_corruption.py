"""A damaged file is named by open or by verify, and nothing damaged makes denslice crash."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from damage import Damage, build, files, read
from denslice import Index, IndexFormatError

SCRIPT = Path(__file__).with_name("damage.py")
FLIPS: dict[str, Callable[[int], int]] = {
    "first": lambda size: 0,
    "in the header": lambda size: 40,
    "middle": lambda size: size // 2,
    "last": lambda size: size - 1,
}
SIZES: dict[str, Callable[[int], int | None]] = {
    "cut by a byte": lambda size: size - 1,
    "emptied": lambda size: 0,
    "removed": lambda size: None,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound index with every kind of file."""
    return build(tmp_path_factory.mktemp("sound") / "index")


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return shutil.copytree(sound, tmp_path / "index")


def test_the_index_has_every_kind_of_file(sound: Path) -> None:
    names = {Path(file).stem.split("-")[0] for file in files(sound)}
    assert names >= {"docs", "deleted", "removed", "slicing", "words", "row_keys", "lost_keys", "posting_values"}
    assert len(list((sound / "segments").iterdir())) == 3
    assert len(list((sound / "vocabulary").iterdir())) >= 2


@pytest.mark.parametrize("where", FLIPS)
def test_verify_names_the_file_with_a_flipped_byte(copy: Path, where: str) -> None:
    for file in files(copy):
        data = (copy / file).read_bytes()
        Damage(file, FLIPS[where](len(data)), 0xFF).apply(copy)
        index = Index.open(copy)
        with pytest.raises(IndexFormatError, match=file):
            index.verify()
        (copy / file).write_bytes(data)
    Index.open(copy).verify()


@pytest.mark.parametrize("how", SIZES)
def test_opening_names_the_file_that_is_cut_or_gone(copy: Path, how: str) -> None:
    for file in files(copy):
        data = (copy / file).read_bytes()
        Damage(file, size=SIZES[how](len(data))).apply(copy)
        with pytest.raises(IndexFormatError, match=file):
            Index.open(copy)
        (copy / file).write_bytes(data)
    Index.open(copy).verify()


@pytest.mark.parametrize(("use", "every"), [("read", "2"), ("add", "8"), ("merge", "8")])
def test_no_damage_crashes_a_process_or_passes_verify_with_wrong_answers(use: str, every: str) -> None:
    command = [sys.executable, SCRIPT, "--use", use, "--every", every]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


def test_a_flipped_byte_of_the_manifest_is_found_or_changes_nothing(copy: Path, sound: Path) -> None:
    truth = read(sound)
    manifest = copy / "manifest.json"
    data = manifest.read_bytes()
    found = 0
    for at in range(0, len(data), 7):
        Damage("manifest.json", at, 1 << at % 8).apply(copy)
        if not data[at : at + 1].isspace():  # one kind of white space for another is no damage
            with pytest.raises(IndexFormatError, match=r"manifest\.json"):
                Index.open(copy)
            found += 1
        manifest.write_bytes(data)
    assert found > len(data) / 7 / 2
    assert read(copy) == truth


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[1]", '"index"', "{}", '{"format": 1}', '{"format": 1, "index": []}']
)
def test_a_manifest_that_is_no_manifest_is_named(copy: Path, text: str) -> None:
    (copy / "manifest.json").write_text(text)
    with pytest.raises(IndexFormatError, match=r"manifest\.json"):
        Index.open(copy)


def test_a_manifest_cut_anywhere_is_named(copy: Path) -> None:
    data = (copy / "manifest.json").read_bytes()
    for size in range(0, len(data), 101):
        (copy / "manifest.json").write_bytes(data[:size])
        with pytest.raises(IndexFormatError, match=r"manifest\.json"):
            Index.open(copy)


def test_an_index_without_a_manifest_is_no_index(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    with pytest.raises(IndexFormatError, match=r"manifest\.json"):
        Index.open(copy)


def test_a_manifest_from_a_newer_version_asks_for_an_upgrade(copy: Path) -> None:
    told = json.loads((copy / "manifest.json").read_bytes())
    (copy / "manifest.json").write_text(json.dumps(told | {"format": 99}))
    with pytest.raises(IndexFormatError, match=r"manifest\.json: index format 99.*upgrade"):
        Index.open(copy)
