"""Pages, books and mail become documents: what is read, and what hostile files cannot do."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from denslice.corpus.formats import zip_limits
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.zip_limits import checked_zip, read_entry
from denslice.errors import UnreadableError


def source(folder: Path, name: str, raw: bytes | str) -> SourceFile:
    """A file with these contents."""
    path = folder / name
    path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return SourceFile(path, name)


def zipped(entries: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The bytes of a zip with these entries."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as archive:
        for name, contents in entries.items():
            archive.writestr(name, contents)
    return whole.getvalue()


# Zip files


def test_an_entry_of_a_zip_is_read(tmp_path: Path) -> None:
    with checked_zip(source(tmp_path, "a.epub", zipped({"a/b.txt": "words", "empty": ""}))) as archive:
        assert read_entry(archive, "a/b.txt") == b"words"
        assert read_entry(archive, "empty") == b""


@pytest.mark.parametrize("raw", [b"", b"PK", b"no zip at all", b"\x89PNG\r\n" + bytes(100)])
def test_what_is_no_zip_is_damaged(tmp_path: Path, raw: bytes) -> None:
    assert kind_of(tmp_path, raw) == "damaged file"


def test_a_zip_cut_anywhere_is_damaged(tmp_path: Path) -> None:
    whole = zipped({"a.txt": "words " * 100, "b.txt": "more"})
    assert {kind_of(tmp_path, whole[:end]) for end in range(0, len(whole), 7)} == {"damaged file"}


def test_a_zip_that_unpacks_to_too_much_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_limits, "LARGEST_FILE", 1000)
    assert kind_of(tmp_path, zipped({"a": bytes(600), "b": bytes(401)})) == "large file"
    checked_zip(source(tmp_path, "fits.epub", zipped({"a": bytes(600), "b": bytes(400)}))).close()


def test_an_entry_that_is_larger_than_it_declares_is_damage(tmp_path: Path) -> None:
    raw = zipped({"a": bytes(100_000)})
    assert kind_of(tmp_path, raw.replace(struct.pack("<L", 100_000), struct.pack("<L", 10))) == "damaged file"


def test_entries_that_overlap_are_damage(tmp_path: Path) -> None:
    raw = zipped({"a": bytes(range(256)) * 40}, zipfile.ZIP_STORED)
    start, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    entry, closing = raw[start:end], raw[end:]
    twice = closing[:8] + struct.pack("<HHL", 2, 2, 2 * len(entry)) + closing[16:]
    assert kind_of(tmp_path, raw[:start] + entry + entry + twice) == "damaged file"


def test_a_zip_of_too_many_entries_is_refused_before_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_limits, "MOST_ENTRIES", 10)
    assert kind_of(tmp_path, zipped({str(number): "" for number in range(11)})) == "damaged file"


def test_methods_whose_output_python_does_not_bound_are_refused(tmp_path: Path) -> None:
    assert kind_of(tmp_path, zipped({"a": bytes(1000)}, zipfile.ZIP_BZIP2)) == "damaged file"


def test_a_password_is_reported_as_encryption(tmp_path: Path) -> None:
    raw = bytearray(zipped({"a": "words"}))
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    assert kind_of(tmp_path, bytes(raw)) == "encrypted file"


def test_a_damaged_or_missing_entry_is_named(tmp_path: Path) -> None:
    raw = zipped({"a": "the words"}, zipfile.ZIP_STORED).replace(b"the words", b"the w0rds")
    with checked_zip(source(tmp_path, "a.epub", raw)) as archive:
        with pytest.raises(UnreadableError, match="entry 'a' of the zip is damaged"):
            read_entry(archive, "a")
        with pytest.raises(UnreadableError, match="no entry 'b'"):
            read_entry(archive, "b")


def kind_of(folder: Path, raw: bytes) -> str:
    """The kind of problem that a zip of these bytes is."""
    with pytest.raises(UnreadableError) as error:
        checked_zip(source(folder, "a.epub", raw))
    return error.value.kind
