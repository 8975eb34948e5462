"""Slides (.pptx): a page for each, with its title as a heading, its text, and what the speaker notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from denslice.corpus.formats.office_archive import OfficeArchive, office_archive, relation_id
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_blocks import TextBlock, heading, joined, paragraph, row
from denslice.corpus.formats.xml_elements import Element, attribute, child, local
from denslice.errors import UnreadableError
from denslice.records import Doc

TITLES = ("title", "ctrTitle")  # types of placeholders
AROUND = ("dt", "ftr", "hdr", "sldNum", "sldImg")  # the same on every slide
SLIDE_HEADING = 2  # level


def read_pptx(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document with a form feed between slides."""
    with office_archive(file) as archive:
        text = "\f".join(joined(_slide(archive, name)) for name in _slide_names(archive))
        title, meta = archive.properties()
    yield Doc("", text, title, meta)


def _slide_names(archive: OfficeArchive) -> list[str]:
    """Return the names of the slides, in the order in which they are shown."""
    main = archive.related("officeDocument")
    if main is None:
        raise UnreadableError("damaged file", "a zip without a presentation in it")
    relations = archive.relations(main)
    listed = child(archive.xml(main), "sldIdLst")
    ids = [relation_id(one) for one in (() if listed is None else listed)]
    return [relations[id].target for id in ids if id in relations]


def _slide(archive: OfficeArchive, name: str) -> Iterator[TextBlock]:
    """Yield the blocks of a slide: title, shapes in their order, diagrams, and the notes of the speaker."""
    shapes = list(_shapes(archive.xml(name)))
    yield from (heading(SLIDE_HEADING, _lines(shape)) for shape in shapes if _placeholder(shape) in TITLES)
    yield from _texts(shape for shape in shapes if _placeholder(shape) not in (*TITLES, *AROUND))
    for relation in archive.relations(name).values():
        if relation.kind == "diagramData":
            yield paragraph(_lines(archive.xml(relation.target)))
        if relation.kind == "notesSlide":
            yield from _texts(one for one in _shapes(archive.xml(relation.target)) if _placeholder(one) not in AROUND)


def _shapes(parent: Element) -> Iterator[Element]:
    """Yield the shapes and tables of a slide in their order, those of groups among them."""
    for element in parent:
        if local(element) in ("sp", "graphicFrame", "cxnSp"):
            yield element
        elif local(element) != "Fallback":
            yield from _shapes(element)


def _placeholder(shape: Element) -> str | None:
    """Return the type of the placeholder that a shape fills, or None if it fills none."""
    for properties in shape:
        found = child(properties, "nvPr", "ph")
        if found is not None:
            return attribute(found, "type")
    return None


def _texts(shapes: Iterable[Element]) -> Iterator[TextBlock]:
    for shape in shapes:
        rows = list(shape.iter("{*}tr"))
        if rows:
            yield from (row([_lines(cell) for cell in line.iter("{*}tc")]) for line in rows)
        else:
            yield paragraph(_lines(shape))


def _lines(element: Element) -> str:
    """Return the paragraphs below an element, a line for each."""
    return "\n".join(_line(one) for one in element.iter("{*}p"))


def _line(element: Element) -> str:
    return "".join("\n" if local(one) == "br" else one.text or "" for one in element.iter("{*}t", "{*}br"))
