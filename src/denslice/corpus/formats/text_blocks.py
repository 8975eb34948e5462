"""Blocks of text in Markdown, as passages know them: headings, paragraphs, items of lists, rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

PARAGRAPH_BLOCK, HEADING_BLOCK, ITEM_BLOCK, ROW_BLOCK = range(4)
DEEPEST_HEADING = 6  # of Markdown


class TextBlock(NamedTuple):
    """A block and what it is. Items and rows are joined to those before them."""

    kind: int
    text: str


def heading(level: int, text: str) -> TextBlock:
    """Return a heading of this level from 1, on one line."""
    body = " ".join(text.split())
    return TextBlock(HEADING_BLOCK, body and f"{'#' * min(max(level, 1), DEEPEST_HEADING)} {body}")


def paragraph(text: str) -> TextBlock:
    """Return a paragraph, with the line ends that it has itself."""
    return TextBlock(PARAGRAPH_BLOCK, "\n".join(line for line in map(str.strip, text.split("\n")) if line))


def item(text: str) -> TextBlock:
    """Return an item of a list, on one line."""
    body = " ".join(text.split())
    return TextBlock(ITEM_BLOCK, body and f"- {body}")


def row(cells: Sequence[str]) -> TextBlock:
    """Return a row of a table, on one line; a row without any text is empty."""
    bodies = [" ".join(cell.split()) for cell in cells]
    while bodies and not bodies[-1]:
        bodies.pop()
    return TextBlock(ROW_BLOCK, " | ".join(bodies))


def joined(blocks: Iterable[TextBlock]) -> str:
    """Return the blocks as one text, with blank lines between them; empty blocks are left out."""
    filled = [block for block in blocks if block.text]
    between = ["", *(_between(last, block) for last, block in pairwise(filled))]
    return "".join(gap + block.text for gap, block in zip(between, filled, strict=False))


def _between(last: TextBlock, block: TextBlock) -> str:
    return "\n" if last.kind == block.kind and block.kind in (ITEM_BLOCK, ROW_BLOCK) else "\n\n"
