"""The text of HTML: the tree of a page, and its visible text with headings as in Markdown.

Nothing here runs scripts, resolves entities or reads other files. Trees are at most 256 elements deep, since the parser
refuses deeper ones; a page that has no tree still has its text.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

from denslice.corpus.formats.html_lines import HIDDEN_TAGS, INLINE_TAGS, HtmlLines
from denslice.errors import MissingExtraError

if TYPE_CHECKING:
    from lxml.html import HtmlElement

LONGEST_TAG = 8192  # characters; libxml2 compares each attribute of a tag with all others
SMALLEST_SHARE = 0.1  # of the visible text; what is less is not the main text, and the page a list or a form
# Tags within words and sentences. Of thousands in one paragraph, trafilatura keeps the text before each in memory.
WITHOUT_MEANING = ("ruby", "rp", "rt", "wbr", "b", "strong", "i", "em", "u", "kbd", "tt", "samp", "var")
FURNITURE = frozenset({"nav", "aside", "footer"})  # of a page around and between its main text
# No expression takes more than linear time: none scans past the next tag, or past an end that it then does not find.
_long_tag = re.compile(rf"<([a-zA-Z][\w:-]*+)[^<>]{{{LONGEST_TAG},}}+>")
_any_tag = re.compile(
    r"""</?([a-zA-Z][\w:-]*+)(?:[^<>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+(?:>|(?=<)|\Z)|<[!?][^<>]*+>"""
)
_unseen = re.compile(r"<!--(?:.*?-->|.*)|<(script|style|title)\b(?:.*?</\1\b[^>]*+>|.*)", re.DOTALL | re.IGNORECASE)
_ends = re.compile(r"</(?:html|body)\s*+>", re.IGNORECASE)  # the parser makes another tree of what follows
_controls = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\ufffe\uffff]")  # that a tree cannot hold
_spaces, _blank_lines = re.compile(r"[^\S\n]+"), re.compile(r"\s*\n\s*")


def parsed_html(text: str) -> HtmlElement | None:
    """Return the tree of a page, or None if it is empty or too large or too deep for the parser."""
    try:
        from lxml import etree, html
    except ImportError:
        raise MissingExtraError("reading HTML", "files") from None
    parser = html.HTMLParser(
        encoding="utf-8", huge_tree=False, no_network=True, remove_comments=True, remove_pis=True, collect_ids=False
    )
    raw = _long_tag.sub(r"<\1>", _ends.sub("<hr>", _controls.sub(" ", text))).encode("utf-8", "replace")
    try:
        tree = html.document_fromstring(raw, parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None
    if parser.error_log.filter_from_fatals():
        return None
    for element in tree.iter("rp", "rt"):  # how a word is pronounced, in the middle of it
        element.text = None
    etree.strip_tags(tree, *WITHOUT_MEANING)
    return tree


def tree_text(root: HtmlElement, without: frozenset[str] = frozenset()) -> str:
    """Return the visible text of an element, without that of elements with these tags."""
    from lxml import etree

    lines = HtmlLines()
    walk = etree.iterwalk(root, events=("start", "end"))
    hidden = None
    for event, element in walk:
        if event == "start" and (element.tag in without or _is_hidden(element)):
            hidden = element
            walk.skip_subtree()  # to the end of this element
        elif event == "start":
            lines.open(element)
        else:
            if element is not hidden:
                lines.close(element)
            lines.add("" if element is root else element.tail)
    return lines.text()


def visible_text(tree: HtmlElement) -> str:
    """Return the text of a page's main element, or of the page without navigation, or all there is."""
    main = main_element(tree)
    text = "" if main is None else tree_text(main, FURNITURE)
    whole = tree_text(tree, frozenset({"nav"})) or tree_text(tree)
    return text if text and len(text) >= SMALLEST_SHARE * len(whole) else whole


def main_element(tree: HtmlElement) -> HtmlElement | None:
    """Return the element that a page says is its main one, or its only article."""
    found = tree.xpath("(//main | //*[@role='main'])[1]") or tree.xpath("//article")
    return found[0] if len(found) == 1 else None


def text_without_tree(text: str) -> str:
    """Return the text between the tags of a page that has no tree, without its headings."""
    between = unescape(_any_tag.sub(_separator, _unseen.sub("\n", text)))
    return _blank_lines.sub("\n", _spaces.sub(" ", between)).strip()


def _separator(tag: re.Match[str]) -> str:
    return "" if (tag[1] or "").lower() in INLINE_TAGS else "\n"


def _is_hidden(element: HtmlElement) -> bool:
    if element.tag in HIDDEN_TAGS or not isinstance(element.tag, str):
        return True
    return "hidden" in element.attrib or "display:none" in element.get("style", "").replace(" ", "").lower()
