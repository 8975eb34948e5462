"""Jupyter notebooks: their text, their code as code blocks, and what the code printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from denslice.corpus.formats.fenced_code import fenced_code
from denslice.corpus.formats.markdown import markdown_doc
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import plain_fields, stated
from denslice.errors import UnreadableError
from denslice.records import Doc

LARGEST_OUTPUT = 4_000  # characters of what one cell printed; more is left out
_colours = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_overwritten = re.compile(r"^.*\r(?=[^\r\n])", re.MULTILINE)  # by a progress bar
_half_pairs = re.compile("[\ud800-\udfff]")
_is_language = re.compile(r"[\w.+#-]{1,30}").fullmatch


def read_notebook(file: SourceFile) -> Iterator[Doc]:
    """Yield the notebook as one document in Markdown; `kernel` of its metadata is the programming language."""
    notebook = _parsed(file.text())
    kernel = _kernel(notebook)
    parts = (_cell(file, number, cell, kernel) for number, cell in enumerate(_cells(notebook), 1))
    doc = markdown_doc(file, _clean("\n\n".join(part for part in parts if part)))
    title, meta = _stated(notebook)
    yield replace(doc, title=title or doc.title, meta={**meta, **doc.meta, **({"kernel": kernel} if kernel else {})})


def _parsed(text: str) -> dict[str, Any]:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError("damaged file", f"not the JSON of a notebook: {error}") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells", notebook.get("worksheets")), list):
        raise UnreadableError("damaged file", "JSON without the cells of a notebook")
    return notebook


def _cells(notebook: dict[str, Any]) -> Iterator[Any]:
    """Yield the cells; up to version 3 of the format they are on worksheets."""
    if "cells" in notebook:
        yield from notebook["cells"]
        return
    for sheet in notebook["worksheets"]:
        yield from _list(_object(sheet).get("cells"))


def _kernel(notebook: dict[str, Any]) -> str:
    """Return the programming language of the notebook in lower case, or nothing."""
    meta = _object(notebook.get("metadata"))
    named = [_object(meta.get("kernelspec")).get("language"), _object(meta.get("language_info")).get("name")]
    named += [_object(cell).get("language") for cell in _cells(notebook)]  # up to version 3
    return next((name.lower() for name in named if isinstance(name, str) and _is_language(name)), "")


def _stated(notebook: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the title and the authors that the notebook states; most state none."""
    meta = _object(notebook.get("metadata"))
    try:
        return stated(plain_fields({name: meta[name] for name in ("title", "authors") if name in meta}))
    except ValueError:
        return "", {}


def _cell(file: SourceFile, number: int, cell: Any, kernel: str) -> str:
    """Return a cell as Markdown."""
    if not isinstance(cell, dict):
        file.skip("bad cell", f"cell {number} is {type(cell).__name__}, expected an object")
        return ""
    source = _text(cell.get("source", cell.get("input"))).strip("\n")
    kind = cell.get("cell_type")
    if kind == "heading":  # up to version 3
        level = cell.get("level")
        signs = "#" * (level if isinstance(level, int) and 1 <= level <= 6 else 1)
        return f"{signs} {' '.join(source.split())}"
    if kind != "code":
        return source
    printed = _printed(cell)
    parts = [fenced_code(source, kernel)] * bool(source) + [fenced_code(printed)] * bool(printed)
    return "\n\n".join(parts)


def _printed(cell: dict[str, Any]) -> str:
    """Return what a cell printed, within a limit and without colours and overwritten lines."""
    texts = (_output(output)[: 4 * LARGEST_OUTPUT] for output in _list(cell.get("outputs")) if isinstance(output, dict))
    printed, used = [], 0
    for text in texts:
        printed.append(_overwritten.sub("", _colours.sub("", text)).strip("\n"))
        used += len(text)
        if used > LARGEST_OUTPUT:
            break
    return _cut_off("\n".join(text for text in printed if text.strip()))


def _cut_off(printed: str) -> str:
    """Return what was printed up to the limit, which ends with a line if that is possible."""
    if len(printed) <= LARGEST_OUTPUT:
        return printed
    return printed[: printed.rfind("\n", 0, LARGEST_OUTPUT) if "\n" in printed[:LARGEST_OUTPUT] else LARGEST_OUTPUT]


def _output(output: dict[str, Any]) -> str:
    """Return the text of an output; that of an image only names an object of Python."""
    data = _object(output.get("data", output))
    if any(str(name).startswith("image/") or name in ("png", "jpeg", "svg") for name in data):
        return ""
    if output.get("output_type") == "stream":
        return _text(output.get("text"))
    return _text(data.get("text/plain", output.get("text")))


def _text(given: Any) -> str:
    """Return a text that the format stores as one string or as a list of lines."""
    if isinstance(given, list):
        return "".join(line for line in given if isinstance(line, str))
    return given if isinstance(given, str) else ""


def _clean(text: str) -> str:
    """Return a text from JSON as one from a file: with LF line ends, and without what UTF-8 cannot hold."""
    return _half_pairs.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " "))


def _object(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []
