"""OpenDocument texts (.odt) and slides (.odp): headings, paragraphs, items of lists, tables and notes, in their order.

What was deleted with tracking, comments, and the headers and footers of pages are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from denslice.corpus.formats.file_damage import damage_reported
from denslice.corpus.formats.office_archive import OfficeArchive, Properties, office_archive
from denslice.corpus.formats.own_metadata import own_metadata, own_title
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_blocks import TextBlock, heading, item, joined, paragraph, row
from denslice.corpus.formats.xml_elements import Element, attribute, child, local, parsed_xml, texts_of
from denslice.corpus.lines import reading
from denslice.errors import UnreadableError
from denslice.records import Doc

SPACES = {"tab": "\t", "line-break": "\n"}
NOT_TEXT = frozenset(("annotation", "tracked-changes", "ruby-text", "note-citation", "forms", "sequence-decls", "desc"))
BESIDE_TEXT = frozenset(("note-body", "text-box", "table"))  # follow the paragraph that they are in
SPACE_BEFORE = 64  # bytes before XML, at most
MOST_SPACES = 1_000  # that one element stands for
SLIDE_LEVEL = 2  # of the heading that a slide's title is


def read_odf(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document with Markdown headings; there is a form feed between slides.

    A flat file (.fodt) is one XML document in place of a zip.
    """
    if _is_xml(file):
        root = parsed_xml(file.data())
        with damage_reported():
            doc = _doc(child(root, "body"), _properties(texts_of(child(root, "meta"))))
    else:
        with office_archive(file) as archive:
            check_unencrypted(archive)
            doc = _doc(child(archive.xml("content.xml"), "body"), odf_properties(archive))
    yield doc


def _is_xml(file: SourceFile) -> bool:
    with reading(file.path), file.open() as stream:
        return stream.read(SPACE_BEFORE).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def _doc(body: Element | None, properties: Properties) -> Doc:
    slides = child(body, "presentation")
    text = joined(_blocks(body)) if slides is None else _slide_texts(slides)
    return Doc("", text, properties.title, properties.meta)


def check_unencrypted(archive: OfficeArchive) -> None:
    """Raise UnreadableError if the parts of an OpenDocument file are encrypted."""
    name = "META-INF/manifest.xml"
    is_listed = archive.has(name) and next(archive.xml(name).iter("{*}encryption-data"), None) is not None
    if is_listed or archive.has("encrypted-package"):
        raise UnreadableError("encrypted file", "encrypted with a password")


def odf_properties(archive: OfficeArchive) -> Properties:
    """Return what an OpenDocument file says about itself."""
    return _properties(archive.texts("meta.xml", "meta"))


def _properties(found: Mapping[str, str]) -> Properties:
    author = found.get("initial-creator") or found.get("creator", "")
    date = found.get("creation-date") or found.get("date", "")
    return Properties(own_title(found.get("title", "")), own_metadata(author, date, found.get("language", "")))


def _blocks(parent: Element | None, in_list: bool = False) -> Iterator[TextBlock]:
    """Yield the blocks below an element, whatever wraps them: sections, indexes, frames."""
    for element in () if parent is None else parent:
        name = local(element)
        if name in ("p", "h"):
            yield from _paragraph(element, in_list)
        elif name == "table":
            yield from _table(element)
        elif name not in NOT_TEXT:
            yield from _blocks(element, in_list or name == "list")


def _paragraph(element: Element, in_list: bool) -> Iterator[TextBlock]:
    """Yield a paragraph or heading, and after it the text boxes and notes that are anchored in it."""
    parts: list[str] = []
    anchored: list[Element] = []
    _collect(element, parts, anchored)
    text = "".join(parts)
    if local(element) == "h":
        level = attribute(element, "outline-level") or ""
        yield heading(int(level) if level.isdecimal() else 1, text)
    else:
        yield item(text) if in_list else paragraph(text)
    for one in anchored:
        yield from _table(one) if local(one) == "table" else _blocks(one)


def _collect(element: Element, parts: list[str], anchored: list[Element]) -> None:
    """Add the text of a paragraph to `parts`, and what is to follow it to `anchored`."""
    parts.append(element.text or "")
    for inner in element:
        name = local(inner)
        if name == "s":
            count = attribute(inner, "c") or ""
            parts.append(" " * min(int(count) if count.isdecimal() else 1, MOST_SPACES))
        elif name in SPACES:
            parts.append(SPACES[name])
        elif name in BESIDE_TEXT:
            anchored.append(inner)
        elif name and name not in NOT_TEXT:
            _collect(inner, parts, anchored)
        parts.append(inner.tail or "")


def _table(table: Element) -> Iterator[TextBlock]:
    """Yield the rows of a table. A row of one cell is layout: its blocks stay what they are."""
    for line in table_rows(table):
        cells = [one for one in line if local(one) in ("table-cell", "covered-table-cell")]
        if len(cells) == 1:
            yield from _blocks(cells[0])
        else:
            yield row([text_below(cell) for cell in cells])


def table_rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, whatever groups them, without those of tables in its cells."""
    for element in table:
        if local(element) == "table-row":
            yield element
        elif local(element) in ("table-header-rows", "table-rows", "table-row-group"):
            yield from table_rows(element)


def text_below(cell: Element) -> str:
    """Return the text of all blocks below an element, such as a cell of a table."""
    return " ".join(block.text for block in _blocks(cell))


def _slide_texts(slides: Element) -> str:
    return "\f".join(joined(_slide_blocks(page)) for page in slides if local(page) == "page")


def _slide_blocks(page: Element) -> Iterator[TextBlock]:
    """Yield the blocks of a slide: its title, its frames in their order, and the notes of the speaker."""
    titles = [one for one in page if attribute(one, "class") == "title"]
    for title in titles:
        yield heading(SLIDE_LEVEL, text_below(title))
    for frame in page:
        if frame not in titles and local(frame) not in NOT_TEXT:
            yield from _blocks([frame])
