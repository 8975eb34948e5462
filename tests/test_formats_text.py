"""Markdown, reStructuredText, Org, notebooks, LaTeX and source code become documents with titles and metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from denslice.corpus.formats.front_matter import LARGEST_FRONT_MATTER
from denslice.corpus.formats.latex import read_latex
from denslice.corpus.formats.markdown import read_markdown
from denslice.corpus.formats.notebooks import LARGEST_OUTPUT, read_notebook
from denslice.corpus.formats.org_mode import read_org
from denslice.corpus.formats.plain_text import read_plain_text
from denslice.corpus.formats.restructured_text import read_restructured_text
from denslice.corpus.formats.source_code import read_source_code
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import iso_date
from denslice.corpus.passages import cut
from denslice.errors import UnreadableError
from denslice.records import Doc

Reader = Callable[[SourceFile], Iterable[Doc]]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Doc, SourceFile]]:
    """What reads a text as a file: its one document, and the file with its problems and remarks."""

    def read_one(reader: Reader, text: str, name: str = "file.txt") -> tuple[Doc, SourceFile]:
        path = tmp_path / name
        path.write_bytes(text.encode())
        file = SourceFile(path, name)
        (doc,) = reader(file)
        doc.meta_json()  # that JSON can hold the metadata
        return doc, file

    return read_one


Read = Callable[..., tuple[Doc, SourceFile]]


# --- Markdown


def test_yaml_front_matter_becomes_metadata_and_leaves_the_text(read: Read) -> None:
    doc, _ = read(read_markdown, "---\ntitle: A B\ntags: [x, y]\ndraft: true\nnested: {n: 1}\n---\n\n# C\n\ntext\n")
    assert doc == Doc("", "# C\n\ntext\n", "A B", {"tags": ["x", "y"], "draft": True, "nested": {"n": 1}})


def test_toml_front_matter_becomes_metadata(read: Read) -> None:
    doc, _ = read(read_markdown, '+++\ntitle = "A"\ndate = 2024-05-17\nat = 10:30:00\n+++\ntext')
    assert doc == Doc("", "text", "A", {"date": "2024-05-17", "at": "10:30:00"})


@pytest.mark.parametrize(
    ("line", "meta"),
    [
        ("author: Ada", {"author": "Ada"}),
        ("authors: [Ada, Alan]", {"author": ["Ada", "Alan"]}),
        ("author: [{name: Ada, email: x}]", {"author": "Ada"}),
        ("lang: de", {"language": "de"}),
        ("language: no", {"language": "no"}),  # which YAML reads as false
        ("Date: 2024-05-17 10:00:00 +02:00", {"date": "2024-05-17T08:00:00+00:00"}),
        ("date: May 3, 2024", {"date": "2024-05-03"}),
        ("date: 2024", {"date": "2024"}),
        ("date: soon", {"date": "soon"}),
        ("2024-05-17: a", {"2024-05-17": "a"}),
        ("yes: .inf", {"true": "inf"}),
        ("binary: !!binary aGk=", {"binary": "hi"}),
        ("made: !r Sys.Date()", {"made": "Sys.Date()"}),
        ("run: !!python/object/apply:os.system [exit]", {}),
        ("empty:", {}),
    ],
)
def test_fields_of_front_matter_become_plain_metadata(read: Read, line: str, meta: dict[str, Any]) -> None:
    assert read(read_markdown, f"---\n{line}\n---\ntext")[0].meta == meta


def bomb(start: str, open: str, close: str) -> str:
    names = "".join(f"a{n}: &a{n} {open}{', '.join([f'*a{n - 1}'] * 10)}{close}\n" for n in range(1, 12))
    return f"a0: &a0 {start}\n{names}"


@pytest.mark.parametrize(
    "block",
    [
        "title: [a",
        "a: b: c",
        "\ttitle: x",
        "date: 2024-13-45",
        f"number: {'1' * 5_000}",
        "int: !!int ''",
        "stamp: !!timestamp x",
        "a: &a [*a]",
        bomb("[x]", "[", "]"),
        bomb("{x: 1}", "{<<: [", "]}"),
        f"a: {'[' * 10_000}",
        f"a: {'{b: ' * 10_000}",
        f"a:\n  {'- ' * 10_000}",
        f"a: {'x' * LARGEST_FRONT_MATTER}",
        "".join(f"k{n}: v\n" for n in range(3_000)),
    ],
    ids=lambda block: block[:20],
)
def test_broken_front_matter_stays_in_the_text_with_a_remark(read: Read, block: str) -> None:
    text = f"---\n{block}\n---\n# A\n"
    doc, file = read(read_markdown, text)
    assert (doc.text, doc.meta) == (text, {})
    assert file.remarks[0].startswith("file.txt: the front matter is read as text: ")
    assert not file.problems


def test_a_remark_names_the_line_of_the_file(read: Read) -> None:
    _, file = read(read_markdown, "---\ntitle: a\nb: [c\n---\n")
    assert file.remarks[0].endswith("in line 4")


@pytest.mark.parametrize(
    "text", ["---\n\nprose\n\n---\nmore", "---\n# A\n", "----\na: b\n----\n", "a\n---\nb: c\n---\n"]
)
def test_text_between_rules_is_no_front_matter(read: Read, text: str) -> None:
    doc, file = read(read_markdown, text)
    assert (doc.text, doc.meta, file.remarks) == (text, {}, [])


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## Later\n\n# First *one*\n\n# Second\n", "First one"),
        ("intro\n\n## `Only` [this](url) {#id}\n", "Only this"),
        ("Title\n=====\n\ntext", "Title"),
        ("# ![logo](x.png)\n\n## Name\n", "Name"),
        ('<h1 align="center">\n<b>Name</b></h1>\n\n## Install\n', "Name"),
        ("# The class __init__\n", "The class __init__"),
        ("```sh\n# no title\n```\n", ""),
        ("no heading", ""),
        ("text\n\n# At the end", "At the end"),
        ("x\n" * 5_000 + "# Far down\n", ""),
    ],
)
def test_markdown_is_titled_by_its_first_heading(read: Read, text: str, title: str) -> None:
    assert read(read_markdown, text)[0].title == title


@pytest.mark.parametrize(
    ("given", "iso"),
    [
        ("2024-05-17", "2024-05-17"),
        ("2024-05-17T10:00:00Z", "2024-05-17T10:00:00+00:00"),
        ("<2024-05-17 Fri>", "2024-05-17"),
        ("$Date: 2002/10/04 $", "2002-10-04"),
        ("17 May 2024", "2024-05-17"),
        ("1st of May", "1st of May"),
        ("May 40, 2024", "May 40, 2024"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01"),
        (None, None),
    ],
)
def test_dates_become_iso_dates_if_they_name_one(given: object, iso: object) -> None:
    assert iso_date(given) == iso


# --- reStructuredText


def test_docinfo_and_meta_become_metadata_and_the_text_stays(read: Read) -> None:
    text = (
        ".. _label:\n\n"
        "=================\nUsing :mod:`os`\n=================\n\n"
        "Subtitle\n--------\n\n"
        ":Authors: Ada Lovelace; Alan Turing\n:Date: 2024-05-17\n:Abstract: Two\n   lines.\n\n"
        "Text, and :ref:`more`.\n\n:not: a field of the document\n\n"
        ".. meta::\n   :description lang=en: Of the\n      page\n   :keywords: a, b\n   :http-equiv=x: y\n\nEnd.\n"
    )
    doc, _ = read(read_restructured_text, text)
    assert (doc.text, doc.title) == (text, "Using os")
    assert doc.meta == {
        "author": ["Ada Lovelace", "Alan Turing"],
        "date": "2024-05-17",
        "abstract": "Two lines.",
        "description": "Of the page",
        "keywords": "a, b",
    }


@pytest.mark.parametrize(
    ("heading", "title"),
    [(":class:`~a.b.Index`", "Index"), ("`Text <url>`_ and ``code``", "Text and code"), ("*A* B", "A B")],
)
def test_roles_in_a_title_are_read_as_they_are_shown(read: Read, heading: str, title: str) -> None:
    assert read(read_restructured_text, f"{heading}\n{'=' * 60}\n\ntext\n")[0].title == title


def test_no_file_is_included(read: Read, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    assert "secret\n" not in read(read_restructured_text, ".. include:: secret.txt\n")[0].text
    assert "secret\n" not in read(read_org, '#+INCLUDE: "secret.txt"\ntext\n')[0].text


# --- Org


ORG = """\
#+TITLE: My notes
#+author: Ada
#+DATE: <2024-05-17 Fri>
#+LANGUAGE: de
#+FILETAGS: :work:home:
#+OPTIONS: toc:nil
# a comment
Intro.
* First
:PROPERTIES:
:Effort: soon
:END:
Body with *bold*.
* Second
** Inner
#+begin_src python :results none
# a comment of Python
,* a star
#+end_src
#+CAPTION: A table
| a | b |
"""


def test_org_becomes_markdown_with_metadata(read: Read) -> None:
    doc, _ = read(read_org, ORG)
    assert doc.title == "My notes"
    assert doc.meta == {"author": "Ada", "date": "2024-05-17", "language": "de", "tags": ["work", "home"]}
    assert doc.text == (
        "Intro.\n\n# First\n\nBody with *bold*.\n\n# Second\n\n\n## Inner\n\n"
        "```python\n# a comment of Python\n* a star\n```\nA table\n| a | b |"
    )


def test_headings_of_org_are_those_of_passages(read: Read) -> None:
    body = "Some words of a sentence that is long enough. " * 18
    text = read(read_org, f"* A\n{body}\n** B\n{body}\n* C\n* D\n{body}\n")[0].text
    assert [place.heading for place in cut(text)] == ["A", "A › B", "C"]


def test_org_without_a_title_is_titled_by_its_first_heading(read: Read) -> None:
    assert read(read_org, "* TODO [#A] Buy milk  :home:\n")[0].title == "Buy milk"


@pytest.mark.parametrize(
    "text",
    ["* A\n:PROPERTIES:\n:X: y\nkept\n* B\n", "* A\n#+begin_src\nkept\n* B\n", "* A <2024-02-30 Fri>\nkept\n* B\n"],
)
def test_what_org_never_closes_loses_no_text(read: Read, text: str) -> None:
    found = read(read_org, text)[0].text
    assert "kept" in found
    assert found.endswith("# B")


# --- notebooks


def notebook(*cells: Any, **fields: Any) -> str:
    return json.dumps({"nbformat": 4, "metadata": {"kernelspec": {"language": "Python"}}, "cells": cells, **fields})


def code(source: str, *outputs: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": outputs}


def test_a_notebook_is_its_text_its_code_and_what_it_printed(read: Read) -> None:
    printed = {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n", " 5%\r100%\n"]}
    table = {"output_type": "execute_result", "data": {"text/html": "<b>1</b>", "text/plain": ["   a\n", "0  1"]}}
    figure = {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": "<Figure>"}}
    cells = ({"cell_type": "markdown", "source": "# Title\ntext"}, code("print(1)\n", printed, table, figure))
    doc, _ = read(read_notebook, notebook(*cells))
    assert (doc.title, doc.meta) == ("Title", {"kernel": "python"})
    assert doc.text == "# Title\ntext\n\n```python\nprint(1)\n```\n\n```\nred\n100%\n   a\n0  1\n```"


def test_a_notebook_of_version_3_has_worksheets(read: Read) -> None:
    output = {"output_type": "pyout", "text": ["2"]}
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Sums"},
        {"cell_type": "code", "language": "python", "input": ["1 + 1"], "outputs": [output]},
    ]
    doc, _ = read(read_notebook, json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}))
    assert (doc.title, doc.meta) == ("Sums", {"kernel": "python"})
    assert doc.text == "## Sums\n\n```python\n1 + 1\n```\n\n```\n2\n```"


def test_front_matter_in_the_first_cell_of_a_notebook_is_metadata(read: Read) -> None:
    doc, _ = read(read_notebook, notebook({"cell_type": "raw", "source": "---\ntitle: A\nauthor: Ada\n---"}, code("1")))
    assert (doc.title, doc.meta) == ("A", {"author": "Ada", "kernel": "python"})
    assert doc.text == "```python\n1\n```"


def test_a_fence_is_longer_than_those_within_the_code(read: Read) -> None:
    assert read(read_notebook, notebook(code("'''\n```\n'''")))[0].text == "````python\n'''\n```\n'''\n````"


def test_what_a_cell_printed_is_limited(read: Read) -> None:
    text = read(read_notebook, notebook(code("1", {"output_type": "stream", "text": "a line\n" * 10_000})))[0].text
    assert LARGEST_OUTPUT - 100 < len(text) < LARGEST_OUTPUT + 100
    assert text.endswith("a line\n```")


def test_a_cell_that_is_no_object_is_skipped(read: Read) -> None:
    doc, file = read(read_notebook, notebook(code("1"), "text"))
    assert doc.text == "```python\n1\n```"
    assert file.problems == [("file.txt", "bad cell", "cell 2 is str, expected an object")]


def test_half_a_surrogate_pair_in_a_notebook_is_replaced(read: Read) -> None:
    text = notebook({"cell_type": "markdown", "source": "a\ud800b\r\nc"})
    assert read(read_notebook, text)[0].text == "a\ufffdb\nc"


@pytest.mark.parametrize("text", ["", '{"cells": [', "[]", "{}", '{"cells": 1}', "[" * 100_000, "1" * 5_000])
def test_a_damaged_notebook_is_unreadable(read: Read, text: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(read_notebook, text)
    assert caught.value.kind == "damaged file"


# --- LaTeX, source code and plain text


def test_latex_states_title_authors_and_date(read: Read) -> None:
    text = (
        "\\documentclass{article}\n\\title[short]{A \\emph{Great} Thing\\\\ of {\\bf words}\\thanks{x}} % comment\n"
        "\\author{J\\\"urgen K\\'{e}d \\and Ada}\n\\date{17 May 2024}\n\\begin{document}\n"
    )
    doc, _ = read(read_latex, text)
    assert (doc.text, doc.title) == (text, "A Great Thing of words")
    assert doc.meta == {"author": ["Jürgen Kéd", "Ada"], "date": "2024-05-17"}


@pytest.mark.parametrize("text", ["\\title{never closed", "\\title", "\\title{\\today}", "text"])
def test_latex_without_a_title_has_none(read: Read, text: str) -> None:
    assert read(read_latex, text)[0] == Doc("", text)


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.py", '#!/usr/bin/python\n# a comment\n\n"""Find things.\n\nMore."""\n', "Find things"),
        ("a.py", "r'''\nFind things'''\n", "Find things"),
        ("a.py", 'x = """no"""\n', ""),
        ("a.py", "", ""),
        ("a.js", '"use strict";\n', ""),
    ],
)
def test_a_module_of_python_is_titled_by_its_docstring(read: Read, name: str, text: str, title: str) -> None:
    assert read(read_source_code, text, name)[0] == Doc("", text, title)


def test_form_feeds_of_plain_text_stay(read: Read) -> None:
    assert read(read_plain_text, "page 1\fpage 2\n")[0] == Doc("", "page 1\fpage 2\n")


@pytest.mark.parametrize(
    ("reader", "unit"),
    [
        (read_markdown, "<h1 "),
        (read_markdown, "# [a](\n\n"),
        (read_markdown, "---\na: b\n"),
        (read_org, ":PROPERTIES:\n"),
        (read_org, "#+begin_src\n"),
        (read_org, "* :a:a\n"),
        (read_org, "#+end_src\n#+begin_src\n"),
        (read_latex, "\\title{\n"),
        (read_restructured_text, ":a: b\n"),
        (read_restructured_text, ".. meta::\n"),
        (read_source_code, "#\n"),
    ],
)
def test_a_hostile_text_is_read(read: Read, reader: Reader, unit: str) -> None:
    text = unit * (200_000 // len(unit))
    assert len(read(reader, text)[0].text) <= 2 * len(text)
