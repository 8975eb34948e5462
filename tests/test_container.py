"""Containers and manifests: what is written is read, every flipped bit is found, and later versions may say more."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import Index, IndexFormatError, open_index
from denslice.store.container import Container, write_container
from denslice.store.files import StoredFile
from denslice.store.folder import Folder
from denslice.vectors import Array

SMALL: dict[str, Array] = {
    "words": np.frombuffer(b"wing", np.uint8),
    "none": np.zeros((0, 3), np.float16),
    "dense": np.arange(40, dtype=np.float16).reshape(20, 2),
    "starts": np.array([0, 4], np.int64),
}


def mapped(folder: Path, stored: StoredFile) -> Container:
    return Container.mapped(Folder(folder), "a.arrays", stored)


def held(folder: Path, stored: StoredFile) -> Container:
    return Container.loaded(Folder(folder), "a.arrays", stored)


@pytest.mark.parametrize("opened", [mapped, held])
def test_arrays_are_read_as_they_were_written(tmp_path: Path, opened: Any) -> None:
    container = opened(tmp_path, write_container(tmp_path / "a.arrays", SMALL, {"made": "here"}))
    assert (container.about, list(container.sections)) == ({"made": "here"}, sorted(SMALL))
    for name, array in SMALL.items():
        found = container.array(name, str(array.dtype), len(array), array.ndim)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
        with pytest.raises(ValueError, match="read-only"):
            found[...] = 0
    container.verify()


ANY = st.sampled_from(["uint8", "uint16", "uint32", "int64", "float16", "float32"])
ARRAYS = ANY.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0)))


@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=4))
def test_any_arrays_come_back_bit_for_bit_and_begin_at_multiples_of_64(
    tmp_path_factory: pytest.TempPathFactory, arrays: Mapping[str, Array]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    stored = write_container(folder / "a.arrays", arrays)
    container = mapped(folder, stored)
    container.verify()
    assert stored.bytes == (folder / "a.arrays").stat().st_size
    for name, array in arrays.items():
        found = container.array(name, str(array.dtype), len(array), array.ndim)
        assert (found.shape, found.tobytes()) == (array.shape, array.tobytes())
        assert found.ctypes.data % 64 == 0 or not found.size


def test_the_bytes_are_those_of_the_documentation(tmp_path: Path) -> None:
    stored = write_container(tmp_path / "a.arrays", SMALL, {"made": "here"})
    data = (tmp_path / "a.arrays").read_bytes()
    assert data[:8] == b"denslice"
    end = 16 + int.from_bytes(data[8:16], "little")
    assert end % 64 == 0
    told = json.loads(data[16:end])
    assert set(told) == {"about", "sections"}
    assert hashlib.sha256(data[:end]).hexdigest() == stored.sha256
    for name, section in told["sections"].items():
        body = data[end + section["at"] : end + section["at"] + section["bytes"]]
        used = SMALL[name].tobytes()
        assert body == used + bytes(-len(used) % 64)
        assert hashlib.sha256(body).hexdigest() == section["sha256"]
        assert (np.dtype(section["dtype"]), tuple(section["shape"])) == (SMALL[name].dtype, SMALL[name].shape)
    assert len(data) == end + sum(section["bytes"] for section in told["sections"].values())


@pytest.mark.parametrize("opened", [mapped, held])
@pytest.mark.parametrize("bit", [0, 5, 7])
def test_every_byte_that_is_flipped_is_found(tmp_path: Path, opened: Any, bit: int) -> None:
    stored = write_container(tmp_path / "a.arrays", SMALL)
    data = (tmp_path / "a.arrays").read_bytes()
    for at in range(len(data)):
        (tmp_path / "a.arrays").write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        with pytest.raises(IndexFormatError, match=r"a\.arrays: .*; the index is damaged"):
            opened(tmp_path, stored).verify()


@pytest.mark.parametrize("opened", [mapped, held])
def test_a_file_of_any_other_length_is_refused(tmp_path: Path, opened: Any) -> None:
    stored = write_container(tmp_path / "a.arrays", SMALL)
    data = (tmp_path / "a.arrays").read_bytes()
    for wrong in (b"", data[:5], data[:16], data[:-1], data + b"\0"):
        (tmp_path / "a.arrays").write_bytes(wrong)
        with pytest.raises(IndexFormatError, match=r"a\.arrays: .*the index is damaged"):
            opened(tmp_path, stored)


def test_a_section_of_another_type_or_shape_than_asked_for_is_an_error(tmp_path: Path) -> None:
    container = mapped(tmp_path, write_container(tmp_path / "a.arrays", SMALL))
    for asked in (("words", "uint16"), ("words", "uint8", 5), ("dense", "float16"), ("words", "uint8", None, 2)):
        with pytest.raises(IndexFormatError, match=f"its section {asked[0]} holds .*, expected a "):
            container.array(*asked)
    with pytest.raises(IndexFormatError, match="has no section levels"):
        container.array("levels", "uint8")


def test_a_container_is_never_written_over_another(tmp_path: Path) -> None:
    write_container(tmp_path / "a.arrays", SMALL)
    with pytest.raises(FileExistsError):
        write_container(tmp_path / "a.arrays", SMALL)


# What later versions may do


def rewritten(path: Path, change: Any) -> None:
    """Change what a manifest says, and give it the checksum of that."""
    told = json.loads(path.read_bytes())
    change(told["index"])
    canonical = json.dumps(told["index"], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    path.write_text(json.dumps(told | {"checksum": hashlib.sha256(canonical.encode()).hexdigest()}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index with a slicing, two pieces of vocabulary, and deletions."""
    index = Index.create(tmp_path / "index", "bm25", slices=2)
    index.add([{"id": "1", "text": "wings lift planes"}, {"id": "2", "text": "boats float"}])
    index.add([{"id": "3", "text": "boats"}])
    index.delete(["2"])
    return index.path


def test_what_a_later_version_says_beside_it_in_the_manifest_is_passed_over(path: Path) -> None:
    def more(body: dict[str, Any]) -> None:
        body["colour"] = body["slicing"]["colour"] = "blue"
        for entry in (*body["segments"], *body["vocabulary"], body["slicing"]["places"]):
            entry["colour"] = "blue"
        for segment in body["segments"]:
            for file in segment["files"].values():
                file["colour"] = "blue"

    rewritten(path / "manifest.json", more)
    index = open_index(path)
    index.verify()
    assert index.search("boats").ids == ("3",)
    assert index.add([{"id": "4", "text": "boats"}]) == 1


def test_what_a_later_version_says_beside_it_of_a_section_is_passed_over(tmp_path: Path) -> None:
    write_container(tmp_path / "a.arrays", SMALL)
    data = (tmp_path / "a.arrays").read_bytes()
    end = 16 + int.from_bytes(data[8:16], "little")
    told = json.loads(data[16:end])
    for section in told["sections"].values():
        section["colour"] = "blue"
    text = json.dumps(told).encode()
    text += b" " * (-(len(text) + 16) % 64)
    header = b"denslice" + len(text).to_bytes(8, "little") + text
    (tmp_path / "a.arrays").write_bytes(header + data[end:])
    stored = StoredFile(len(header) + len(data) - end, hashlib.sha256(header).hexdigest())
    container = mapped(tmp_path, stored)
    container.verify()
    assert container.array("words", "uint8").tobytes() == b"wing"


def test_an_index_that_needs_what_this_version_lacks_is_refused_by_name(path: Path) -> None:
    rewritten(path / "manifest.json", lambda body: body.update(needs=["holograms"]))
    with pytest.raises(IndexFormatError, match=r"manifest\.json: needs holograms, which this version lacks; upgrade"):
        open_index(path)
