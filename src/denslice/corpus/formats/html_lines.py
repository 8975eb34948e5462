"""The lines that the elements of a page form, as they are opened and closed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.html import HtmlElement

NEW_LINE, BLANK_LINE = 1, 2  # line feeds before a line
HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = {
    **dict.fromkeys(("div", "dt", "dd", "tr", "td", "th", "caption", "summary", "legend", "option"), NEW_LINE),
    **dict.fromkeys(("p", "blockquote", "table", "pre", "hr", "dl", "figure", "figcaption", "details"), BLANK_LINE),
    **dict.fromkeys(("article", "section", "main", "header", "footer", "aside", "nav", "form", "body"), BLANK_LINE),
    **dict.fromkeys(("address", "center", "fieldset", "title", "xmp", "plaintext", *HEADINGS), BLANK_LINE),
}
HIDDEN_TAGS = {
    *(
        "head",
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "iframe",
        "object",
        "embed",
        "canvas",
        "audio",
        "video",
    ),
    *("map", "select", "textarea", "button", "dialog"),
}
INLINE_TAGS = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img"),
    *("ins", "kbd", "label", "mark", "q", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup"),
    *("time", "tt", "u", "var", "wbr"),
}
IN_LAYOUT = ("table", "ul", "ol", "dl", "pre", "blockquote", *HEADINGS)  # no cell of a table of data holds these
_spaces = re.compile(r"\s+")
_of_code = re.compile(r"\b(?:code|highlight|language|lang|src|prettyprint|brush)\b", re.IGNORECASE)


class HtmlLines:
    """Lines of text, to which elements and the text in and between them are added in their order."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._inline: list[str] = []  # the text of the line that is not finished
        self._gap = 0  # line feeds before it
        self._prefix = ""  # that makes it a heading or an item
        self._lists: list[int | None] = []  # that are open: the number of the last item, or None if they have none
        self._tables: list[bool] = []  # that are open, and whether they hold data
        self._cells: list[str] | None = None  # of the row that is open
        self._whole: HtmlElement | None = None  # a cell, a heading or preformatted text, in which no line ends

    def text(self) -> str:
        """Return all lines."""
        self._end_line(0)
        return "".join(self._lines).strip("\n")

    def add(self, text: str | None) -> None:
        """Add text to the line."""
        if text:
            self._inline.append(text)

    def open(self, element: HtmlElement) -> None:
        """Start an element and add the text before its first child."""
        tag = element.tag
        if self._whole is not None:
            self.add("\n" if tag == "br" else " " if tag in BLOCKS else "")
        elif tag in BLOCKS:
            self._open_block(element)
        elif tag in ("ul", "ol"):
            self._end_line(NEW_LINE if self._lists else BLANK_LINE)
            self._lists.append(_first_number(element) - 1 if tag == "ol" else None)
        elif tag == "li":
            self._open_item()
        elif tag == "br":
            self._end_line(NEW_LINE if self._has_text() else min(self._gap + 1, BLANK_LINE))
        self.add(element.text)

    def close(self, element: HtmlElement) -> None:
        """End an element."""
        tag = element.tag
        if self._whole is not None:
            if element is self._whole:
                self._close_whole(element)
        elif tag in ("ul", "ol"):
            self._end_line(NEW_LINE if len(self._lists) > 1 else BLANK_LINE)
            self._lists.pop()
        elif tag == "li":
            self._end_line(NEW_LINE)
            self._prefix = ""
        elif tag in BLOCKS:
            self._close_block(tag)
        elif tag == "a" and not element.tail and _is_link(element.getnext()):
            self.add(" ")  # links of a menu, which only their style sets apart

    def _open_block(self, element: HtmlElement) -> None:
        tag = element.tag
        self._end_line(BLOCKS[tag])
        if tag == "table":
            self._tables.append(_holds_data(element))
        elif tag in HEADINGS or tag == "pre":
            self._whole = element
        elif self._tables and self._tables[-1] and tag == "tr":
            self._cells = []
        elif self._cells is not None and tag in ("td", "th"):
            self._whole = element

    def _open_item(self) -> None:
        self._end_line(NEW_LINE)
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        self._prefix = "  " * (len(self._lists) > 1) + ("- " if number is None else f"{number + 1}. ")

    def _close_block(self, tag: str) -> None:
        self._end_line(BLOCKS[tag])
        if tag == "table":
            self._tables.pop()
        elif tag == "tr" and self._cells is not None:
            if any(self._cells):
                self.add(f"| {' | '.join(self._cells)} |")
            self._cells = None
            self._end_line(NEW_LINE)

    def _close_whole(self, element: HtmlElement) -> None:
        """End a cell, a heading or preformatted text."""
        self._whole = None
        if element.tag == "pre":
            self._add_preformatted("".join(self._inline), _is_code(element))
        elif self._cells is not None:
            self._cells.append(_one_line(self._inline))
            self._inline.clear()
        else:
            self._prefix = "#" * HEADINGS[element.tag] + " "
            self._end_line(BLANK_LINE)
            self._prefix = ""

    def _add_preformatted(self, text: str, is_code: bool) -> None:
        """Add text as it is, with fences if it is code."""
        self._inline.clear()
        body = text.replace("\r\n", "\n").rstrip().lstrip("\n")
        if body.strip():
            fence = "~~~" if "```" in body else "```"
            self._lines.append("\n" * self._gap + (f"{fence}\n{body}\n{fence}" if is_code else body))
        self._gap, self._prefix = BLANK_LINE, ""

    def _has_text(self) -> bool:
        return any(not part.isspace() for part in self._inline)

    def _end_line(self, gap: int) -> None:
        """End the line, if it has text, so that as many line feeds follow."""
        text = _one_line(self._inline)
        self._inline.clear()
        if text:
            self._lines.append("\n" * self._gap + self._prefix + text)
            self._gap, self._prefix = gap, ""
        elif not self._prefix:  # a paragraph that opens an item is on the line of its mark
            self._gap = max(self._gap, gap)


def _one_line(parts: list[str]) -> str:
    """Return text on one line, without soft hyphens, which would break its words."""
    return _spaces.sub(" ", "".join(parts)).strip().replace("\u00ad", "")


def _first_number(element: HtmlElement) -> int:
    start = element.get("start", "1").strip()
    return int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1


def _holds_data(table: HtmlElement) -> bool:
    """Return whether each row of a table is one line, and it does not only arrange the parts of a page."""
    return next(table.iterdescendants(*IN_LAYOUT), None) is None and not table.xpath(".//td[p[2]] | .//th[p[2]]")


def _is_code(element: HtmlElement) -> bool:
    """Return whether preformatted text is code, by its own or its parent's class, or an element in it."""
    parent = element.getparent()
    classes = element.get("class", "") + " " + (parent.get("class", "") if parent is not None else "")
    return element.find(".//code") is not None or bool(_of_code.search(classes))


def _is_link(element: HtmlElement | None) -> bool:
    return element is not None and element.tag == "a"
