"""Web pages: the main text of HTML files, without navigation, and what they state about themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from denslice.corpus.formats.declared_charsets import decoded_as, page_charset
from denslice.corpus.formats.html_text import (
    SMALLEST_SHARE,
    main_element,
    parsed_html,
    text_without_tree,
    tree_text,
    visible_text,
)
from denslice.corpus.formats.page_metadata import page_metadata, page_title
from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import MissingExtraError
from denslice.records import Doc

if TYPE_CHECKING:
    from lxml.html import HtmlElement

MOST_ELEMENTS = 50_000  # of a page whose main text is looked for; it takes about a second for 10,000
SHORTEST_MAIN = 250  # characters; of a page where it finds fewer, trafilatura returns all text, with the hidden
TAGS = {"row": "tr", "cell": "td", "item": "li", "quote": "blockquote", "lb": "br"}  # of trafilatura, in HTML
FAILURES = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def read_html(file: SourceFile) -> Iterator[Doc]:
    """Yield a page as one document: its main text, title, author, date, language and address."""
    raw = file.data()
    yield page_doc(decoded_as(raw, page_charset(raw)))


def page_doc(text: str) -> Doc:
    """Return the document of a page, without an id."""
    tree = parsed_html(text)
    if tree is None:
        return Doc("", text_without_tree(text))
    return Doc("", _page_text(tree), page_title(tree), page_metadata(tree))


def _page_text(tree: HtmlElement) -> str:
    """Return the main text of a page, or all visible text if there is no main text."""
    visible = visible_text(tree)
    if _is_manual(tree) or sum(1 for _ in tree.iter()) > MOST_ELEMENTS:
        return visible
    main = _main_text(tree)
    return main if len(main) >= max(SHORTEST_MAIN, SMALLEST_SHARE * len(visible)) else visible


def _is_manual(tree: HtmlElement) -> bool:
    """Return whether a page has code in what it says is its main part, where trafilatura leaves out much of it."""
    main = main_element(tree)
    return main is not None and next(main.iter("pre"), None) is not None


def _main_text(tree: HtmlElement) -> str:
    """Return the text that trafilatura takes for the main one, or nothing."""
    from lxml.etree import LxmlError

    try:
        found = _extraction()(tree, include_comments=False, include_formatting=True)
        return "" if found is None else tree_text(_as_html(found.body))
    except (*FAILURES, LxmlError):
        return ""


@cache
def _extraction() -> Any:
    """Return trafilatura's function that finds the main text of a tree."""
    try:
        from trafilatura import bare_extraction
    except ImportError:
        raise MissingExtraError("reading HTML", "files") from None
    logging.getLogger("trafilatura").addHandler(logging.NullHandler())  # or Python prints what it logs
    return bare_extraction


def _as_html(body: HtmlElement) -> HtmlElement:
    """Return the tree of trafilatura with the tags of HTML."""
    for element in body.iter("*"):
        if (tag := _html_tag(element)) != element.tag:  # a tag of the page may be one that lxml would not set
            element.tag = tag
        element.attrib.clear()  # it keeps styles, of which some hide what it found
        if element.tag == "pre":
            element.set("class", "code")
    return body


def _html_tag(element: HtmlElement) -> str:
    tag = str(element.tag)
    if tag in ("head", "list"):
        return str(element.get("rend", "p"))  # h1 to h6, ul, ol, dl
    if tag == "code" and "\n" in "".join(element.itertext()).strip():
        return "pre"
    return TAGS.get(tag, tag)
