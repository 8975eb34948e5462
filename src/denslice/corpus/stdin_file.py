"""Stdin and pipes as files: a copy, whose extension is that of the format it seems to have, unless a name tells it."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

from denslice.corpus.compression import open_bytes
from denslice.corpus.lines import reading

SNIFFED = 1 << 14  # bytes
COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
BINARY = {b"%PDF-": ".pdf", b"PAR1": ".parquet", b"ARROW1": ".arrow", b"From ": ".mbox"}
ZIPPED = {"word/": ".docx", "ppt/": ".pptx", "xl/": ".xlsx", "META-INF/container.xml": ".epub", "content.xml": ".odt"}
_html = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|body)", re.IGNORECASE | re.DOTALL
)
_mail = re.compile(
    rb"(?:[A-Za-z-]+: [^\n]*\n(?:[ \t][^\n]*\n)*)*?(?:From|Subject|Received|Message-ID): ", re.IGNORECASE
)
_markdown = re.compile(rb"(?:---\n|\+\+\+\n|#{1,6} )")
_table = re.compile(rb"[^\n]*\b(?:id|title|text|body|content)\b[^\n]*\n", re.IGNORECASE)


def copied_stdin(folder: Path) -> Path:
    """Copy stdin to a file in the folder and return the file."""
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return _with_ending(path)


def copied_pipe(pipe: Path, folder: Path) -> Path:
    """Copy what a pipe gives to a file in the folder and return the file."""
    path = folder / pipe.name
    with reading(pipe), pipe.open("rb") as stream, path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    return path if pipe.suffix else _with_ending(path)


def _with_ending(path: Path) -> Path:
    """Rename a file so that its name tells its compression and its format."""
    with reading(path):
        with path.open("rb") as file:
            start = file.read(8)
        packed = next((suffix for magic, suffix in COMPRESSED.items() if start.startswith(magic)), "")
        path = path.rename(path.with_name(path.name + packed))
        with open_bytes(path) as stream:
            suffix = sniffed(stream.read(SNIFFED))
        if not packed and start.startswith(b"PK"):
            suffix = _zipped(path)
        return path.rename(path.with_name(f"{path.name.removesuffix(packed)}{suffix}{packed}"))


def sniffed(start: bytes) -> str:
    """Return the extension of the format that bytes seem to begin; plain text if they look like nothing else."""
    for magic, suffix in BINARY.items():
        if start.startswith(magic):
            return suffix
    text = start.removeprefix(b"\xef\xbb\xbf")
    if text.lstrip()[:1] in (b"{", b"["):
        return ".json"
    if _html.match(text):
        return ".html"
    if _mail.match(text):
        return ".eml"
    first = text.partition(b"\n")[0]
    if b"\t" in first:
        return ".tsv"
    if first.count(b",") + first.count(b";") and _table.match(text):
        return ".csv"
    return ".md" if _markdown.match(text) else ".txt"


def _zipped(path: Path) -> str:
    """Return the extension of a document that is a zip file, by the names in it."""
    try:
        with zipfile.ZipFile(path) as packed:
            names = packed.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return ".zip"
    return next((suffix for part, suffix in ZIPPED.items() if any(name.startswith(part) for name in names)), ".zip")
