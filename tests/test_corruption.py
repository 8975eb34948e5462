"""A damaged file is named by open or by verify, and nothing damaged makes denslice crash."""

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from damage import KINDS, Damage, files, read
from denslice import Index, IndexFormatError
from denslice.store.snapshot import Snapshot

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


@pytest.fixture(scope="module", params=KINDS)
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound indexes, which together have every kind of file."""
    return KINDS[request.param](tmp_path_factory.mktemp("sound") / "index")


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return shutil.copytree(sound, tmp_path / "index")


def test_the_index_has_every_kind_of_file(sound: Path) -> None:
    has_dense = Index.open(sound).info()["dimensions"] is not None
    counts = Counter(Path(file).parts[0] if "segments" not in file else Path(file).name for file in files(sound))
    assert counts["docs.sqlite"] == counts["words.arrays"] == 3
    assert counts["dense.arrays"] == (3 if has_dense else 0)
    assert counts["deletions"] == 2
    assert counts["vocabulary"] == (1 if has_dense else 4)  # the slicing, and the pieces


@pytest.mark.parametrize("where", FLIPS)
def test_verify_names_the_file_with_a_flipped_byte(copy: Path, where: str) -> None:
    for file in files(copy):
        data = (copy / file).read_bytes()
        Damage(file, FLIPS[where](len(data)), 0xFF).apply(copy)
        with pytest.raises(IndexFormatError, match=f"{file}.*the index is damaged"):
            Index.open(copy).verify()
        (copy / file).write_bytes(data)
    Index.open(copy).verify()


def test_verify_notices_a_flipped_bit_wherever_it_is(copy: Path) -> None:
    rng = random.Random(4)
    for file in files(copy):
        data = (copy / file).read_bytes()
        places = {len(data) - 1 - at for at in range(64)} | set(range(0, len(data), len(data) // 60))
        for at in places:
            Damage(file, at, 1 << rng.randrange(8)).apply(copy)
            with pytest.raises(IndexFormatError, match=f"{file}.*the index is damaged"):
                Snapshot(copy).verify()
            (copy / file).write_bytes(data)
    Snapshot(copy).verify()


def test_an_open_index_notices_every_byte_that_changes_under_it(copy: Path) -> None:
    index = Index.open(copy)
    for file in files(copy):
        data = (copy / file).read_bytes()
        for at in (*range(100), len(data) // 2, len(data) - 1):
            with (copy / file).open("r+b") as changed:  # in place, as a failing disk would
                changed.seek(at)
                changed.write(bytes([data[at] ^ 1]))
            with pytest.raises(IndexFormatError, match=f"{file}.*the index is damaged"):
                index.verify()
        (copy / file).write_bytes(data)
    index.verify()


@pytest.mark.parametrize("how", SIZES)
def test_opening_names_the_file_that_is_cut_or_gone(copy: Path, how: str) -> None:
    for file in files(copy):
        data = (copy / file).read_bytes()
        Damage(file, size=SIZES[how](len(data))).apply(copy)
        with pytest.raises(IndexFormatError, match=file):
            Index.open(copy)
        (copy / file).write_bytes(data)
    Index.open(copy).verify()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("use", "every"), [("read", "2"), ("add", "5"), ("merge", "5")])
def test_no_damage_crashes_a_process_or_passes_verify_with_wrong_answers(kind: str, use: str, every: str) -> None:
    command = [sys.executable, str(SCRIPT), "--kind", kind, "--use", use, "--every", every]
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
