"""Word documents (.docx): headings, paragraphs, items of lists, tables and notes, in their order.

The XML is read as it is, so that text in content controls, text boxes and tracked insertions is not lost. What was
deleted with tracking, comments, and the headers and footers of pages are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from denslice.corpus.formats.office_archive import OfficeArchive, office_archive
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_blocks import TextBlock, heading, item, joined, paragraph, row
from denslice.corpus.formats.xml_elements import Element, attribute, child, local
from denslice.errors import UnreadableError
from denslice.records import Doc

SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
WITHOUT_TEXT = frozenset(("pPr", "rPr", "del", "moveFrom", "Fallback", "rt", "instrText", "delText", "tblPr", "sdtPr"))
NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}
BODY_LEVEL = 9  # the outline level of text that is no heading; headings have 0 to 8
MOST_STYLES_ABOVE = 20  # that a style is based on; a circle ends here
_heading_name = re.compile(r"heading ([1-9])", re.IGNORECASE)


class StyleShape(NamedTuple):
    """What a style makes of a paragraph: a heading of this level from 1, or an item of a list."""

    level: int = 0
    is_item: bool = False


def read_docx(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document with Markdown headings."""
    with office_archive(file) as archive:
        main = archive.related("officeDocument")
        if main is None:
            raise UnreadableError("damaged file", "a zip without a document in it")
        body = child(archive.xml(main), "body")
        text = joined(_WordText(_styles(archive, main), _notes(archive, main)).blocks(body))
        title, meta = archive.properties()
    yield Doc("", text, title, meta)


@dataclass(frozen=True)
class _WordText:
    """The blocks of a Word document, given its styles and notes."""

    styles: Mapping[str, StyleShape]
    notes: Mapping[tuple[str, str], Element]

    def blocks(self, parent: Element | None) -> Iterator[TextBlock]:
        """Yield the blocks below an element, whatever wraps them: content controls, insertions, custom XML."""
        for element in () if parent is None else parent:
            name = local(element)
            if name == "p":
                yield from self._paragraph(element)
            elif name == "tbl":
                yield from self._table(element)
            elif name not in WITHOUT_TEXT:
                yield from self.blocks(element)

    def _paragraph(self, element: Element) -> Iterator[TextBlock]:
        """Yield a paragraph, and after it the text boxes and notes that are anchored in it."""
        parts: list[str] = []
        anchored: list[Element] = []
        self._collect(element, parts, anchored)
        yield self._shaped(child(element, "pPr"), "".join(parts))
        for one in anchored:
            yield from self.blocks(one)

    def _collect(self, parent: Element, parts: list[str], anchored: list[Element]) -> None:
        """Add the text of a paragraph to `parts`, and what is to follow it to `anchored`."""
        for element in parent:
            name = local(element)
            if name == "t":
                parts.append(element.text or "")
            elif name in SIGNS:
                parts.append(SIGNS[name])
            elif name == "txbxContent":
                anchored.append(element)
            elif name in NOTES:
                anchored += self._note(NOTES[name], attribute(element, "id") or "")
            elif name not in WITHOUT_TEXT:
                self._collect(element, parts, anchored)

    def _note(self, kind: str, id: str) -> list[Element]:
        found = self.notes.get((kind, id))
        return [] if found is None else [found]

    def _shaped(self, properties: Element | None, text: str) -> TextBlock:
        """Return a paragraph as the block that its own properties and its style make of it."""
        style = child(properties, "pStyle")
        shape = self.styles.get(attribute(style, "val") or "", StyleShape()) if style is not None else StyleShape()
        level = _outline_level(properties)
        if level or (level is None and shape.level):
            return heading(level or shape.level, text)
        numbered = _is_numbered(properties)
        return item(text) if (shape.is_item if numbered is None else numbered) else paragraph(text)

    def _table(self, table: Element) -> Iterator[TextBlock]:
        """Yield the rows of a table. A row of one cell is layout: its blocks stay what they are."""
        for line in _inner(table, "tr"):
            cells = list(_inner(line, "tc"))
            if len(cells) == 1:
                yield from self.blocks(cells[0])
            else:
                yield row([" ".join(block.text for block in self.blocks(cell)) for cell in cells])


def _inner(parent: Element, name: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, whatever wraps them."""
    for element in parent:
        if local(element) == name:
            yield element
        elif local(element) not in WITHOUT_TEXT:
            yield from _inner(element, name)


def _outline_level(properties: Element | None) -> int | None:
    """Return the level of a heading from 1 that properties give, 0 for body text, or None if they do not say."""
    found = child(properties, "outlineLvl")
    value = "" if found is None else attribute(found, "val") or ""
    return None if not value.isdecimal() else 0 if int(value) >= BODY_LEVEL else int(value) + 1


def _is_numbered(properties: Element | None) -> bool | None:
    """Return whether properties make an item of a list, or None if they do not say."""
    found = child(properties, "numPr", "numId")
    return None if found is None else attribute(found, "val") != "0"


def _styles(archive: OfficeArchive, main: str) -> dict[str, StyleShape]:
    """Return what the styles make of paragraphs, by their ids."""
    name = archive.related("styles", main)
    if name is None:
        return {}
    elements = {attribute(one, "styleId") or "": one for one in archive.xml(name) if local(one) == "style"}
    return {id: _shape(id, elements) for id in elements}


def _shape(id: str, elements: Mapping[str, Element]) -> StyleShape:
    """Return what a style makes of a paragraph, by itself or by the styles that it is based on."""
    level: int | None = None
    is_item: bool | None = None
    for _ in range(MOST_STYLES_ABOVE):
        style = elements.get(id)
        if style is None:
            break
        properties = child(style, "pPr")
        level = _named_level(style) or _outline_level(properties) if level is None else level
        is_item = _is_numbered(properties) if is_item is None else is_item
        above = child(style, "basedOn")
        id = "" if above is None else attribute(above, "val") or ""
    return StyleShape(level or 0, bool(is_item))


def _named_level(style: Element) -> int | None:
    """Return the level of a heading that the name of a built-in style says; it is English in every language."""
    found = child(style, "name")
    name = "" if found is None else attribute(found, "val") or ""
    match = _heading_name.fullmatch(name)
    return int(match[1]) if match else 1 if name.lower() == "title" else None


def _notes(archive: OfficeArchive, main: str) -> dict[tuple[str, str], Element]:
    """Return the footnotes and endnotes by their kinds and ids."""
    found = ((kind, archive.related(kind, main)) for kind in NOTES.values())
    parts = ((kind, archive.xml(name)) for kind, name in found if name is not None)
    return {(kind, attribute(note, "id") or ""): note for kind, part in parts for note in part}
