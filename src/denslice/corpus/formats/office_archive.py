"""Office documents as zips of XML: their parts, the relations between them, and what they say about themselves.

Elements are found by their local names, because Office Open XML has two sets of namespaces for the same elements.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from denslice.corpus.formats.file_damage import damage_reported
from denslice.corpus.formats.own_metadata import own_metadata, own_title
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.xml_elements import Element, child, parsed_xml, streamed_xml, texts_of
from denslice.corpus.formats.zip_limits import checked_zip, read_entry
from denslice.corpus.lines import reading
from denslice.errors import UnreadableError

OLE = bytes.fromhex("d0cf11e0a1b11ae1")  # the container of older Office files, and of encrypted newer ones
ENCRYPTED_PART = "EncryptedPackage".encode("utf-16-le")


class Relation(NamedTuple):
    """A part that another one names: what it is for, such as "slide", and its name in the zip."""

    kind: str
    target: str


class Properties(NamedTuple):
    """What a document says about itself."""

    title: str
    meta: Mapping[str, str]


@dataclass(frozen=True)
class OfficeArchive:
    """An open office document, and its entries by the names of parts: capitals and backslashes make no difference."""

    archive: zipfile.ZipFile
    entries: Mapping[str, str]

    @classmethod
    def of(cls, archive: zipfile.ZipFile) -> OfficeArchive:
        """Return the office document in a zip."""
        return cls(archive, {_part_name(entry): entry for entry in archive.namelist()})

    def has(self, name: str) -> bool:
        """Return whether there is a part of this name."""
        return _part_name(name) in self.entries

    def xml(self, name: str) -> Element:
        """Return the root of a part; raise UnreadableError if there is none of this name, or it is no XML."""
        return parsed_xml(read_entry(self.archive, self.entries.get(_part_name(name), name)))

    def streamed(self, part: str, name: str) -> Iterator[Element]:
        """Yield the elements of this local name in a part, one after the other."""
        with self.archive.open(self.entries[_part_name(part)]) as stream:
            yield from streamed_xml(stream, name)

    def relations(self, name: str = "") -> dict[str, Relation]:
        """Return the parts that a part names, by the ids it uses for them; without a name, those of the document.

        What is outside of the zip is left out: it is never fetched.
        """
        folder, file = posixpath.split(name)
        listed = posixpath.join(folder, "_rels", f"{file}.rels")
        if not self.has(listed):
            return {}
        inner = (one for one in self.xml(listed) if one.get("Target") and one.get("TargetMode") != "External")
        found = {one.get("Id", ""): _relation(folder, one) for one in inner}
        return {id: relation for id, relation in found.items() if self.has(relation.target)}

    def related(self, kind: str, name: str = "") -> str | None:
        """Return the name of the first part of this kind that a part names, or that the document does."""
        return next((one.target for one in self.relations(name).values() if one.kind == kind), None)

    def texts(self, name: str | None, *path: str) -> dict[str, str]:
        """Return the texts of the elements at this path in a part by their names; none if it cannot be read."""
        try:
            return {} if name is None or not self.has(name) else texts_of(child(self.xml(name), *path))
        except UnreadableError:
            return {}

    def properties(self) -> Properties:
        """Return the core properties of Office Open XML. Damage to them is no reason not to read the document."""
        found = self.texts(self.related("core-properties"))
        date = found.get("created") or found.get("modified", "")
        meta = own_metadata(found.get("creator", ""), date, found.get("language", ""))
        return Properties(own_title(found.get("title", "")), meta)


@contextmanager
def office_archive(file: SourceFile) -> Iterator[OfficeArchive]:
    """Open an office document; errors of its XML in the block become UnreadableErrors."""
    if is_ole(file):
        check_ole(file)
        raise UnreadableError("damaged file", "a file of an old Office; save it again in the format that its name says")
    with damage_reported(), checked_zip(file) as archive:
        yield OfficeArchive.of(archive)


def check_ole(file: SourceFile) -> None:
    """Raise UnreadableError if an OLE container holds an encrypted document."""
    if ENCRYPTED_PART in file.data():
        raise UnreadableError("encrypted file", "encrypted with a password")


def is_ole(file: SourceFile) -> bool:
    """Return whether the file is a container of older Office files."""
    with reading(file.path), file.open() as stream:
        return stream.read(len(OLE)) == OLE


def relation_id(element: Element) -> str:
    """Return the id of the relation that an element names; it may have an id without a namespace besides."""
    return next((value for key, value in element.attrib.items() if key.endswith("}id")), "")


def _part_name(entry: str) -> str:
    return entry.replace("\\", "/").lower()


def _relation(folder: str, element: Element) -> Relation:
    target = element.get("Target")
    path = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
    return Relation(element.get("Type", "").rpartition("/")[2], path)
