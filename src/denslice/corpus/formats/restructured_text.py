"""reStructuredText. It is read as it is: directives are not run, and no file that it includes is opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from denslice.corpus.formats.markdown import TITLE_WITHIN
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import stated
from denslice.corpus.markup import markup_of
from denslice.corpus.text_lines import Heading, TextLine
from denslice.records import Doc

_field = re.compile(r":(?P<name>[^:`\s][^:`]{0,60}):(?:\s+(?P<value>.*))?$")
_meta = re.compile(r"^\.\. meta::[ \t]*$", re.MULTILINE)
_role = re.compile(r"(?::[\w.+:-]{1,40}:)?`+([^`]*)`+_*")
_authors = re.compile(r"\s*(?:[;,]|\n)\s*(?:-\s+)?")


def read_restructured_text(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document, titled by its first heading, with its docinfo and `.. meta::` as metadata."""
    text = file.text()
    lines, headings, _, _ = markup_of(text[:TITLE_WITHIN])
    end = _end_of_title(headings)
    fields = {**_meta_fields(text), **_field_list(lines), **_field_list(lines[end:])}
    title, meta = stated({name: _value(name, given) for name, given in fields.items()})
    yield Doc("", text, _plain(headings[0].text) if headings else title, meta)


def _end_of_title(headings: Iterable[Heading]) -> int:
    """Return the number of the line after the title and a subtitle that follows it at once."""
    end = 0
    for heading in headings:
        if end not in (0, heading.first):
            break
        end = heading.end
    return end


def _field_list(lines: Iterable[TextLine]) -> dict[str, str]:
    """Return the fields, by their names in lower case, with which these lines begin."""
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        found = _field.match(line.body) if not line.indent else None
        if found is None and (not line.indent or not name):
            break
        if found:
            name = found["name"].strip().lower()
        value = (found["value"] or "") if found else line.body
        fields[name] = f"{fields[name]}\n{value}".strip() if name in fields else value
    return fields


def _value(name: str, given: str) -> str | list[str]:
    """Return the value of a field, whose lines are those of a paragraph, or the names of several authors."""
    return _authors.split(given.removeprefix("- ")) if name == "authors" else " ".join(given.split())


def _meta_fields(text: str) -> dict[str, str]:
    """Return the fields of the first directive `.. meta::`; names may carry attributes, as `description lang=en`."""
    found = _meta.search(text)
    if not found:
        return {}
    lines = markup_of(text[found.end() : found.end() + TITLE_WITHIN]).lines[1:]
    inner = list(takewhile(lambda line: line.indent, lines))
    least = min((line.indent for line in inner), default=0)
    fields = _field_list(line._replace(indent=line.indent - least) for line in inner)
    return {name.split()[0]: value for name, value in fields.items() if "=" not in name.split()[0]}


def _plain(heading: str) -> str:
    """Return a heading with the texts of its roles and links, as `os` of :mod:`os`."""
    return " ".join(_role.sub(lambda role: _shown(role[1]), heading).replace("*", "").split())


def _shown(role: str) -> str:
    """Return what a reader sees of a role: `text` of `text <target>`, and `Name` of `~module.Name`."""
    if role.startswith("~"):
        return role.rpartition(".")[2].lstrip("~")
    return role.partition("<")[0].strip() or role
