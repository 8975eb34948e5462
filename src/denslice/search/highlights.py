"""Highlights: snippets of a hit in which the words of the query are marked."""

from __future__ import annotations

from collections.abc import Sequence

from denslice.marked_text import Highlight
from denslice.rankings import Hit
from denslice.search.matches import TextAnalyzer, excerpt, matches

SNIPPET_WIDTH, SNIPPET_LEAD = 240, 40  # characters of a snippet, and how many of them are before its first match


def highlights(hit: Hit, tokens: set[str], analyze: TextAnalyzer) -> tuple[Highlight, ...]:
    """Return a snippet of the title and of each passage of a hit that has a word of the query, best first."""
    first = hit.passages[0].start if hit.passages and len(hit.text) < hit.passages[0].document_length else 0
    texts = [("text", passage.text, passage.start - first) for passage in hit.passages] or [("text", hit.text, 0)]
    found = [_highlight(field, text, at, tokens, analyze) for field, text, at in [("title", hit.title, 0), *texts]]
    return tuple(one for one in found if one.marks)


def _highlight(field: str, text: str, at: int, tokens: set[str], analyze: TextAnalyzer) -> Highlight:
    start, end = excerpt(text, tokens, analyze, SNIPPET_WIDTH, SNIPPET_LEAD)
    shown = text[start:end]
    spans = [(span.start, span.end) for span in matches(shown, tokens, analyze)]
    return Highlight(field, shown, at + start, tuple(_joined(spans)))


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, with overlapping ones joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
