"""A folder with a file of every format, and bad files of each kind. Every good file has two words of its own.

The word from its middle is `middle` and the file's number in letters, that of its title `title` and the same letters.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import mailbox
import os
import socket
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

FILLER = "The harvest was late this year and the mill stood still until the rain came back to the valley. "


class Words:
    """The words of one file, which no other file has."""

    def __init__(self, number: int) -> None:
        letters = "".join("bdfgklmnprstvz"[digit] for digit in divmod(number, 14))
        self.middle, self.title = f"middle{letters}ax", f"title{letters}ox"

    @property
    def text(self) -> str:
        """A text long enough to be cut, with the word in its middle."""
        return f"{FILLER * 20}In the middle of it stands {self.middle}, once. {FILLER * 20}"


Writer = Callable[[Path, Words], None]


def markdown(path: Path, words: Words) -> None:
    path.write_text(f"---\ntitle: {words.title}\nauthor: Ada\ndate: 2021-03-04\n---\n\n{words.text}\n")


def markdown_heading(path: Path, words: Words) -> None:
    path.write_text(f"# {words.title}\n\n{words.text}\n")


def plain(path: Path, words: Words) -> None:
    path.write_text(words.text)


def latin(path: Path, words: Words) -> None:
    path.write_bytes(f"Der Käse schmeckt den Gästen überall sehr gut. {words.text}".encode("latin-1"))


def utf16(path: Path, words: Words) -> None:
    path.write_bytes(words.text.encode("utf-16"))


def rst(path: Path, words: Words) -> None:
    path.write_text(f"{words.title}\n{'=' * len(words.title)}\n\n:author: Ada\n\n{words.text}\n")


def org(path: Path, words: Words) -> None:
    path.write_text(f"#+TITLE: {words.title}\n#+AUTHOR: Ada\n\n* A heading\n{words.text}\n")


def html(path: Path, words: Words) -> None:
    paragraphs = "".join(f"<p>{part}.</p>" for part in words.text.split(". "))
    menu = "<nav><ul><li><a href='/'>navigationword</a></li></ul></nav>"
    head = f"<html lang='en'><head><title>{words.title}</title></head>"
    path.write_text(f"{head}<body>{menu}<article><h1>{words.title}</h1>{paragraphs}</article></body></html>")


def pdf(path: Path, words: Words) -> None:
    from fpdf import FPDF

    made = FPDF()
    made.set_title(words.title)
    made.set_font("Helvetica", size=12)
    for part in (FILLER * 20, f"Here is {words.middle}.", FILLER * 20):
        made.add_page()
        made.multi_cell(0, text=part)
    made.output(str(path))


def scanned_pdf(path: Path, words: Words) -> None:
    from fpdf import FPDF

    made = FPDF()
    made.add_page()
    made.rect(10, 10, 100, 100, style="F")
    made.output(str(path))


def encrypted_pdf(path: Path, words: Words) -> None:
    from fpdf import FPDF

    made = FPDF()
    made.set_encryption(owner_password="owner", user_password="user")
    made.add_page()
    made.set_font("Helvetica", size=12)
    made.multi_cell(0, text="secret")
    made.output(str(path))


def docx(path: Path, words: Words) -> None:
    from docx import Document

    made = Document()
    made.core_properties.title = words.title
    made.add_heading("A heading", 1)
    for part in words.text.split(". "):
        made.add_paragraph(part)
    made.save(str(path))


def pptx(path: Path, words: Words) -> None:
    from pptx import Presentation

    made = Presentation()
    made.core_properties.title = words.title
    for text in ("first", words.middle, "last"):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = "A slide"
        slide.placeholders[1].text = text
    made.save(str(path))


def xlsx(path: Path, words: Words) -> None:
    import xlsxwriter

    with xlsxwriter.Workbook(str(path)) as book:
        sheet = book.add_worksheet(words.title)
        for row, cells in enumerate([("Name", "Remark"), ("Ada", "first"), ("Bob", words.middle), ("Eve", "last")]):
            sheet.write_row(row, 0, cells)


def odt(path: Path, words: Words) -> None:
    from odfdo import Document, Header, Paragraph

    made = Document("text")
    made.meta.title = words.title
    made.body.append(Header(1, "A heading"))
    for part in words.text.split(". "):
        made.body.append(Paragraph(part))
    made.save(str(path))


def epub(path: Path, words: Words) -> None:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf"/></rootfiles></container>'
    )
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{words.title}</dc:title><dc:creator>Ada</dc:creator></metadata>"
        '<manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    body = "".join(f"<p>{part}.</p>" for part in words.text.split(". "))
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr("META-INF/container.xml", container)
        book.writestr("book.opf", opf)
        book.writestr("a.xhtml", f"<html><body><h1>One</h1>{body}</body></html>")


def message(words: Words) -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["Date"] = words.title, "ada@example.org", "Thu, 04 Mar 2021 10:00:00 +0000"
    made.set_content(words.text)
    return made


def eml(path: Path, words: Words) -> None:
    path.write_bytes(message(words).as_bytes())


def mbox(path: Path, words: Words) -> None:
    box = mailbox.mbox(path)
    for one in (message(words), message(Words(195))):
        box.add(one)
    box.close()


def notebook(path: Path, words: Words) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": [f"# {words.title}\n"]},
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "execution_count": 1,
            "source": f"print('{words.middle}')",
        },
    ]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))


def python(path: Path, words: Words) -> None:
    path.write_text(f'"""{words.title} is a module."""\n\n\ndef {words.middle}(x: int) -> int:\n    return x\n')


def records(words: Words) -> list[dict[str, str]]:
    return [{"key": words.title, "title": words.title, "body": words.text, "year": "2021"}]


def table(path: Path, words: Words) -> None:
    sign = "," if path.suffix == ".csv" else "\t"
    (one,) = records(words)
    path.write_text("\n".join([sign.join(one), sign.join(f'"{cell}"' for cell in one.values())]) + "\n")


def json_array(path: Path, words: Words) -> None:
    path.write_text(json.dumps(records(words)))


def json_lines(path: Path, words: Words) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in records(words)))


def parquet(path: Path, words: Words) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(records(words)), path)


def arrow(path: Path, words: Words) -> None:
    import pyarrow as pa

    made = pa.Table.from_pylist(records(words))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, made.schema) as writer:
        writer.write_table(made)


def compressed(write: Writer) -> Writer:
    """Return a writer of the same file compressed, as the extension says."""

    def pack(path: Path, words: Words) -> None:
        inner = path.with_suffix("")
        write(inner, words)
        raw = inner.read_bytes()
        inner.unlink()
        if path.suffix == ".zst":
            import zstandard

            path.write_bytes(zstandard.compress(raw))
        else:
            path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else bz2.compress(raw))

    return pack


GOOD: dict[str, Writer] = {
    "front.md": markdown,
    "heading.markdown": markdown_heading,
    "log {}.log": plain,
    "plain {}.txt": plain,
    "no extension {}": plain,
    "latin {}.txt": latin,
    "utf16 {}.txt": utf16,
    "emoji 🦊 {}.txt": plain,
    "deep/er/{}.txt": plain,
    "guide.rst": rst,
    "notes.org": org,
    "page.html": html,
    "paper.pdf": pdf,
    "letter.docx": docx,
    "slides.pptx": pptx,
    "sheet.xlsx": xlsx,
    "text.odt": odt,
    "book.epub": epub,
    "mail.eml": eml,
    "box.mbox": mbox,
    "work.ipynb": notebook,
    "module.py": python,
    "table.csv": table,
    "table.tsv": table,
    "array.json": json_array,
    "lines.jsonl": json_lines,
    "columns.parquet": parquet,
    "columns.arrow": arrow,
    "packed.md.gz": compressed(markdown),
    "packed.html.bz2": compressed(html),
    "packed.csv.zst": compressed(table),
}


def write_good(folder: Path) -> dict[str, Words]:
    """Write a file of every format and return the words of each, by its relative path."""
    made = {}
    for number, (name, write) in enumerate(GOOD.items()):
        words = Words(number)
        path = folder / name.format(words.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, words)
        made[path.relative_to(folder).as_posix()] = words
    return made


def write_bad(folder: Path) -> dict[str, str]:
    """Write files that cannot be read, and return the kind of problem that each has, by its relative path."""
    folder.mkdir(parents=True, exist_ok=True)
    words = Words(190)
    scanned_pdf(folder / "scan.pdf", words)
    encrypted_pdf(folder / "locked.pdf", words)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 20)
    (folder / "broken.docx").write_bytes(b"PK\x03\x04" + bytes(200))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(5_000) + bytes(100))
    (folder / "program").write_bytes(b"\x7fELF" + bytes(range(256)) * 40)
    (folder / "bomb.json.gz").write_bytes(gzip.compress(b"[" + b" " * (300 << 20), compresslevel=1))
    (folder / "numbers.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "bomb.docx").write_bytes(_docx_bomb())
    (folder / "dangling.md").symlink_to(folder / "nowhere.md")
    os.mkfifo(folder / "pipe.txt")
    (folder / "loop").symlink_to(folder)
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(folder)  # the path of a socket must be short
    server.bind("socket.txt")
    os.chdir(here)
    server.close()
    return {
        "scan.pdf": "scanned PDF",
        "locked.pdf": "encrypted file",
        "broken.pdf": "damaged file",
        "broken.docx": "damaged file",
        "picture.png": "binary",
        "program": "binary",
        "bomb.json.gz": "large file",
        "numbers.csv": "table without text",
        "bomb.docx": "large file",
        "dangling.md": "broken link",
        "pipe.txt": "special file",
        "socket.txt": "special file",
    }


def _docx_bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bomb:
        bomb.writestr("[Content_Types].xml", "<Types/>")
        with bomb.open("word/document.xml", "w", force_zip64=True) as entry:
            for _ in range(300):
                entry.write(bytes(1 << 20))
    return packed.getvalue()
