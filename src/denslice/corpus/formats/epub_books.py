"""Books in EPUB: a zip of XHTML chapters, in the order that the book's package file gives them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zipfile import ZipFile

from denslice.corpus.formats.declared_charsets import decoded_as, page_charset
from denslice.corpus.formats.html_text import parsed_html, text_without_tree, tree_text
from denslice.corpus.formats.page_metadata import iso_day, iso_language, one_or_list
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.zip_limits import checked_zip, read_entry
from denslice.errors import MissingExtraError, UnreadableError
from denslice.records import Doc

if TYPE_CHECKING:
    from lxml.etree import _Element

CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_year = re.compile(r"\d{4}(?:-\d\d)?")  # or a year and a month


def read_epub(file: SourceFile) -> Iterator[Doc]:
    """Yield a book as one document: its chapters, title, author, date and language.

    A chapter that cannot be read is left out and reported.
    """
    with checked_zip(file) as archive:
        name = _package_name(archive)
        package = _parsed_xml(read_entry(archive, name))
        chapters = _chapter_names(package, posixpath.dirname(name))
        if not chapters:
            raise UnreadableError("damaged file", "the package file of the book lists no chapters")
        if not _encrypted_names(archive).isdisjoint(chapters):
            raise UnreadableError("encrypted file", "its chapters are encrypted (DRM)")
        text = "\n\n".join(filter(None, (_chapter(file, archive, chapter) for chapter in chapters)))
    if not text:
        raise UnreadableError("book without text", "no chapter has text; its pages may be pictures")
    yield Doc("", text, " ".join(_stated(package, "title")[:1]), _metadata(package))


def _package_name(archive: ZipFile) -> str:
    """Return the name of the package file: the one that the container names, else the first in the zip."""
    names = archive.namelist()
    if CONTAINER in names:
        roots = _parsed_xml(read_entry(archive, CONTAINER)).xpath("//*[local-name()='rootfile']/@full-path")
        if found := [str(root) for root in roots if root in names]:
            return found[0]
    if not (packages := [name for name in names if name.lower().endswith(".opf")]):
        raise UnreadableError("damaged file", "the book has no package file, which lists its chapters")
    return packages[0]


def _parsed_xml(raw: bytes) -> _Element:
    """Return the root of an XML file. Entities are not resolved, and nothing else is read."""
    try:
        from lxml import etree
    except ImportError:
        raise MissingExtraError("reading EPUB", "files") from None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(raw, parser)
    except (etree.LxmlError, ValueError) as error:
        raise UnreadableError("damaged file", f"broken XML ({error})") from None
    if root is None:
        raise UnreadableError("damaged file", "broken XML")
    return root


def _chapter_names(package: _Element, folder: str) -> list[str]:
    """Return the names of the chapters in the order of the book, each once, without its table of contents."""
    items = {item.get("id"): item for item in package.xpath("//*[local-name()='manifest']/*[@href]")}
    spine = package.xpath("//*[local-name()='spine']/*/@idref")
    chapters = (items[id] for id in spine if id in items and "nav" not in items[id].get("properties", "").split())
    return list(dict.fromkeys(_entry_name(folder, item.get("href")) for item in chapters))


def _entry_name(folder: str, address: str) -> str:
    """Return the name of the entry to which an address in a file of this folder points."""
    path = unquote(address.partition("#")[0])
    return posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def _encrypted_names(archive: ZipFile) -> set[str]:
    """Return the names of the encrypted entries; books that can be read often have encrypted fonts."""
    if ENCRYPTION not in archive.namelist():
        return set()
    root = _parsed_xml(read_entry(archive, ENCRYPTION))
    return {_entry_name("", str(address)) for address in root.xpath("//*[local-name()='CipherReference']/@URI")}


def _chapter(file: SourceFile, archive: ZipFile, name: str) -> str:
    """Return the text of a chapter, or nothing if it cannot be read."""
    try:
        raw = read_entry(archive, name)
        page = decoded_as(raw, page_charset(raw))
    except UnreadableError as error:
        file.skip("damaged chapter", f"{name}: {error}")
        return ""
    tree = parsed_html(page)
    return text_without_tree(page) if tree is None else tree_text(tree)


def _stated(package: _Element, name: str) -> list[str]:
    """Return the values of a field of Dublin Core, such as `creator`."""
    found = package.xpath("//*[local-name()='metadata']//*[local-name()=$name]", name=name)
    return list(filter(None, (" ".join("".join(element.itertext()).split()) for element in found)))


def _metadata(package: _Element) -> dict[str, Any]:
    date, language = "".join(_stated(package, "date")[:1]), "".join(_stated(package, "language")[:1])
    fields = {
        "author": one_or_list(_stated(package, "creator")),
        "date": iso_day(date) or (date if _year.fullmatch(date) else ""),
        "language": iso_language(language),
    }
    return {name: value for name, value in fields.items() if value}
