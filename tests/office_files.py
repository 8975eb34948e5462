"""Makes office files and PDFs for tests: with the libraries that write them, and byte by byte where none does."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import docx
import odfdo
import pptx
import xlsxwriter
from fpdf import FPDF

from denslice.corpus.formats.source_file import SourceFile

SECTOR = 512  # bytes, of an OLE container
END, FAT, FREE = 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF  # what its sectors are, if they are not followed by another


def source(folder: Path, name: str, raw: bytes) -> SourceFile:
    """Return a file with these contents."""
    path = folder / name
    path.write_bytes(raw)
    return SourceFile(path, name)


def pdf_bytes(pdf: FPDF) -> bytes:
    """Return a PDF that fpdf2 made."""
    return bytes(pdf.output())


def pdf_pages(*pages: str, size: int = 10) -> FPDF:
    """Return a PDF whose pages hold these lines."""
    pdf = FPDF()
    pdf.set_font("helvetica", size=size)
    for page in pages:
        pdf.add_page()
        for number, line in enumerate(page.split("\n")):
            pdf.text(20, 20 + 6 * number, line)
    return pdf


def raw_pdf(objects: Sequence[str]) -> bytes:
    """Return a PDF of these objects, numbered from 1, of which the first is the catalog."""
    bodies = "".join(f"{number} 0 obj\n{body}\nendobj\n" for number, body in enumerate(objects, 1))
    return f"%PDF-1.7\n{bodies}trailer\n<< /Root 1 0 R /Size {len(objects) + 1} >>\n%%EOF\n".encode("latin-1")


def word_file(*paragraphs: str, xml: str = "") -> bytes:
    """Return a Word document of these paragraphs, and of a piece of its XML, in which `w` is the usual prefix."""
    document = docx.Document()
    for text in paragraphs:
        document.add_paragraph(text)
    whole = io.BytesIO()
    document.save(whole)
    return rezipped(whole.getvalue(), "word/document.xml", "<w:sectPr", f"{xml}<w:sectPr") if xml else whole.getvalue()


def slides_file(*titles: str) -> bytes:
    """Return slides with these titles."""
    presentation = pptx.Presentation()
    for title in titles:
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = title
    whole = io.BytesIO()
    presentation.save(whole)
    return whole.getvalue()


def sheets_file(sheets: Mapping[str, Sequence[Sequence[str | float]]]) -> bytes:
    """Return a workbook of these sheets."""
    whole = io.BytesIO()
    workbook = xlsxwriter.Workbook(whole, {"in_memory": True})
    for name, rows in sheets.items():
        sheet = workbook.add_worksheet(name)
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
    workbook.close()
    return whole.getvalue()


def odf_file(kind: str, *elements: odfdo.Element) -> bytes:
    """Return an OpenDocument file of this kind, "text" or "spreadsheet"."""
    document = odfdo.Document(kind)
    document.body.clear()
    for element in elements:
        document.body.append(element)
    whole = io.BytesIO()
    document.save(whole)
    return whole.getvalue()


def ods_file(rows: Sequence[Sequence[str | float]]) -> bytes:
    """Return an OpenDocument spreadsheet with one sheet, A."""
    table = odfdo.Table("A")
    table.set_values([list(row) for row in rows])
    return odf_file("spreadsheet", table)


def odf_xml(body: str) -> bytes:
    """Return an OpenDocument file whose body is this XML, with the usual prefixes."""
    names = ("office", "text", "table", "draw", "presentation", "manifest")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    content = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    return zipped({"content.xml": content})


def zipped(entries: Mapping[str, bytes | str]) -> bytes:
    """Return a zip of these entries."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in entries.items():
            archive.writestr(name, contents)
    return whole.getvalue()


def unzipped(raw: bytes) -> dict[str, bytes]:
    """Return the entries of a zip."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezipped(raw: bytes, entry: str, old: str, new: str) -> bytes:
    """Return a zip in which the first `old` in one entry is `new`."""
    entries = unzipped(raw)
    assert old.encode() in entries[entry]
    return zipped(entries | {entry: entries[entry].replace(old.encode(), new.encode(), 1)})


def ole_file(name: str, stream: bytes) -> bytes:
    """Return an OLE container with one stream, as older Office files and encrypted newer ones are."""
    stream = stream.ljust(4096, b"\0")  # shorter ones would be stored in another way
    stream = stream.ljust(-(-len(stream) // SECTOR) * SECTOR, b"\0")
    count = len(stream) // SECTOR
    chain = [FAT, END, *range(3, 2 + count), END]
    header = struct.pack("<8s16xHHHHH6xIIIIIIIII", bytes.fromhex("d0cf11e0a1b11ae1"), 62, 3, 0xFFFE, 9, 6,
                         0, 1, 1, 0, 4096, END, 0, END, 0)  # fmt: skip
    first_fats = struct.pack("<109I", 0, *[FREE] * 108)
    fat = struct.pack("<128I", *chain, *[FREE] * (128 - len(chain)))
    directory = _ole_entry("Root Entry", 5, 1, END, 0) + _ole_entry(name, 2, FREE, 2, len(stream))
    return header + first_fats + fat + directory.ljust(SECTOR, b"\0") + stream


def _ole_entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    encoded = (name + "\0").encode("utf-16-le")
    return struct.pack("<64sHBBIII36xIQ", encoded, len(encoded), kind, 1, FREE, FREE, child, start, size)


def old_workbook(sheet: str, rows: Sequence[Sequence[str | float]]) -> bytes:
    """Return an .xls file with one sheet."""
    listed = struct.pack("<IBBBB", 0, 0, 0, len(sheet), 0) + sheet.encode("latin-1")
    opening = _record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0))
    size = len(opening) + len(_record(0x0085, listed)) + len(_record(0x000A, b""))
    listed = struct.pack("<I", size) + listed[4:]
    cells = b"".join(_cell(at, column, value) for at, row in enumerate(rows) for column, value in enumerate(row))
    inner = _record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0)) + cells + _record(0x000A, b"")
    return ole_file("Workbook", opening + _record(0x0085, listed) + _record(0x000A, b"") + inner)


def _cell(row: int, column: int, value: str | float) -> bytes:
    place = struct.pack("<HHH", row, column, 0)
    if isinstance(value, str):
        return _record(0x0204, place + struct.pack("<HB", len(value), 0) + value.encode("latin-1"))
    return _record(0x0203, place + struct.pack("<d", value))


def _record(kind: int, body: bytes) -> bytes:
    return struct.pack("<HH", kind, len(body)) + body
