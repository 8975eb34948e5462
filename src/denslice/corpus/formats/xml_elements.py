"""Elements of XML: parsed without expanding entities or reading anything else, and found by their local names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from denslice.corpus.formats.file_damage import damage_reported
from denslice.errors import MissingExtraError

Element = Any  # of lxml, which has no types


def parsed_xml(raw: bytes) -> Element:
    """Return the root of an XML document; raise UnreadableError if it is none."""
    etree = _lxml()
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    with damage_reported():
        return etree.fromstring(raw, parser)


def streamed_xml(stream: IO[bytes], name: str) -> Iterator[Element]:
    """Yield the elements of this local name, each of which is emptied when the next one is asked for."""
    found = _lxml().iterparse(
        stream, tag=f"{{*}}{name}", resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    for _, element in found:
        yield element
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]


def local(element: Element) -> str:
    """Return the name of an element without its namespace; that of an entity is empty."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Element, name: str) -> str | None:
    """Return the attribute of this local name, in whatever namespace it is."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), None)


def child(element: Element | None, *path: str) -> Element | None:
    """Return the first child of this local name, or the first child of that one, and so on."""
    for name in path:
        element = None if element is None else next((one for one in element if local(one) == name), None)
    return element


def whole_text(element: Element) -> str:
    """Return all text in an element; entities have none."""
    own = [element.text or ""] if isinstance(element.tag, str) else []
    return "".join([*own, *(whole_text(inner) + (inner.tail or "") for inner in element)])


def texts_of(parent: Element | None) -> dict[str, str]:
    """Return the texts of the children of an element by their local names."""
    return {} if parent is None else {local(one): whole_text(one) for one in parent}


def _lxml() -> Any:
    try:
        from lxml import etree
    except ImportError:
        raise MissingExtraError("reading office documents", "files") from None
    return etree
