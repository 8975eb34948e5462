"""What hostile and damaged office files cannot do: expand, reach out, fill the memory, or end in any other error."""

from __future__ import annotations

import gzip
import io
import random
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import odfdo
import pytest

from denslice.corpus.formats.odf_texts import read_odf
from denslice.corpus.formats.slides_pptx import read_pptx
from denslice.corpus.formats.source_file import LARGEST_FILE, SourceFile
from denslice.corpus.formats.spreadsheets import read_spreadsheet
from denslice.corpus.formats.word_docx import read_docx
from denslice.errors import InputError, MissingExtraError, UnreadableError
from denslice.records import Doc
from office_files import odf_file, ods_file, ole_file, sheets_file, slides_file, source, unzipped, word_file, zipped

Reader = Callable[[SourceFile], Iterator[Doc]]
WORD = "marker"  # in each of the files below, which shows that the rest is read
FORMATS: dict[str, tuple[Reader, Callable[[], bytes], str]] = {
    "docx": (read_docx, lambda: word_file(WORD), "word/document.xml"),
    "pptx": (read_pptx, lambda: slides_file(WORD), "ppt/slides/slide1.xml"),
    "xlsx": (read_spreadsheet, lambda: sheets_file({"A": [[WORD]]}), "xl/sharedStrings.xml"),
    "odt": (read_odf, lambda: odf_file("text", odfdo.Paragraph(WORD)), "content.xml"),
    "ods": (read_spreadsheet, lambda: ods_file([[WORD]]), "content.xml"),
}
every_format = pytest.mark.parametrize("ending", FORMATS)


def read(reader: Reader, file: SourceFile) -> Doc:
    (doc,) = reader(file)
    return doc


def unreadable(reader: Reader, file: SourceFile) -> UnreadableError:
    with pytest.raises(UnreadableError) as raised:
        list(reader(file))
    return raised.value


def text_or_damage(reader: Reader, file: SourceFile) -> str:
    try:
        return read(reader, file).text
    except UnreadableError as error:
        return error.kind


def with_doctype(raw: bytes, entry: str, declared: str, used: str) -> bytes:
    """Return the file with these declarations in one entry, and with what uses them after its word."""
    entries = unzipped(raw)
    head, end, body = entries[entry].partition(b"?>")
    head, body = (head + end, body) if end else (b"", head)
    doctype = f"<!DOCTYPE x [{declared}]>".encode()
    changed = head + doctype + body.replace(f"{WORD}<".encode(), f"{WORD} {used}<".encode(), 1)
    return zipped(entries | {entry: changed})


@every_format
def test_a_bomb_of_entities_does_not_expand(tmp_path: Path, ending: str) -> None:
    reader, make, entry = FORMATS[ending]
    bomb = '<!ENTITY e0 "boom">' + "".join(f'<!ENTITY e{at + 1} "{f"&e{at};" * 10}">' for at in range(9))
    for used in ("&e2;", "&e9;"):
        file = source(tmp_path, f"a.{ending}", with_doctype(make(), entry, bomb, used))
        assert text_or_damage(reader, file).count("boom") == 0


@every_format
def test_entities_of_other_files_and_servers_are_not_read(tmp_path: Path, ending: str) -> None:
    reader, make, entry = FORMATS[ending]
    (tmp_path / "secret.txt").write_text("classified")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        declared = f'<!ENTITY f SYSTEM "file://{tmp_path}/secret.txt"><!ENTITY h SYSTEM "{url}">'
        for more in ("", f'<!ENTITY % p SYSTEM "{url}">%p;'):
            file = source(tmp_path, f"a.{ending}", with_doctype(make(), entry, declared + more, "&f;&h;"))
            assert "classified" not in text_or_damage(reader, file)
        with pytest.raises(BlockingIOError):
            server.accept()


@every_format
def test_a_file_of_every_format_is_read(tmp_path: Path, ending: str) -> None:
    reader, make, _ = FORMATS[ending]
    assert WORD in read(reader, source(tmp_path, f"a.{ending}", make())).text


@every_format
def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, ending: str, bomb: bytes) -> None:
    assert unreadable(FORMATS[ending][0], source(tmp_path, f"a.{ending}", bomb)).kind == "large file"


@pytest.fixture(scope="module")
def bomb() -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("word/document.xml", "w") as stream:
            for _ in range(LARGEST_FILE >> 20):
                stream.write(bytes(1 << 20))
        archive.writestr("more", b"0")
    return whole.getvalue()


@every_format
def test_deeply_nested_xml_ends_in_an_error(tmp_path: Path, ending: str) -> None:
    reader, make, entry = FORMATS[ending]
    raw = zipped(unzipped(make()) | {entry: "<p>" * 100_000 + "</p>" * 100_000})
    assert unreadable(reader, source(tmp_path, f"a.{ending}", raw)).kind == "damaged file"


@every_format
def test_a_zip_of_something_else_is_damaged(tmp_path: Path, ending: str) -> None:
    error = unreadable(FORMATS[ending][0], source(tmp_path, f"a.{ending}", zipped({"a.txt": "words"})))
    assert error.kind == "damaged file"


@every_format
def test_an_encrypted_office_file_is_unreadable(tmp_path: Path, ending: str) -> None:
    file = source(tmp_path, f"a.{ending}", ole_file("EncryptedPackage", b"secret"))
    assert unreadable(FORMATS[ending][0], file).kind == "encrypted file"


@every_format
def test_a_file_of_an_old_office_with_a_new_name_is_damaged(tmp_path: Path, ending: str) -> None:
    file = source(tmp_path, f"a.{ending}", ole_file("WordDocument", b"text"))
    assert unreadable(FORMATS[ending][0], file).kind == "damaged file"


@every_format
def test_damage_anywhere_is_an_error_that_says_so_or_does_not_matter(tmp_path: Path, ending: str) -> None:
    reader, make, entry = FORMATS[ending]
    whole, chance = make(), random.Random(ending)
    for _ in range(40):
        entries = unzipped(whole)
        entries[entry] = damaged(entries[entry], chance)
        for raw in (damaged(whole, chance), zipped(entries)):
            text_or_damage(reader, source(tmp_path, f"a.{ending}", raw))


def damaged(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw[: chance.randrange(len(raw) // 2, 2 * len(raw))])
    for _ in range(chance.choice((1, 5, 50))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


@every_format
def test_a_damaged_compression_is_an_input_error(tmp_path: Path, ending: str) -> None:
    reader, make, _ = FORMATS[ending]
    with pytest.raises(InputError):
        read(reader, source(tmp_path, f"a.{ending}.gz", gzip.compress(make())[:-2000]))


@every_format
def test_a_missing_package_is_named_with_the_extra_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    reader, make, _ = FORMATS[ending]
    file = source(tmp_path, f"a.{ending}", make())
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(MissingExtraError, match=r"'denslice\[files\]'"):
        read(reader, file)
