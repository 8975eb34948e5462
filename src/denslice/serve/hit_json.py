"""A hit as JSON: excerpts of its texts, its passages, and where they have the words of the query."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from denslice.rankings import Explanation, Hit, Passage
from denslice.search.matches import MATCHED_CHARACTERS, Span, TextAnalyzer, excerpt, matches

HitJson = dict[str, Any]  # has the fields of api.FoundDocument
CONTEXT_SHARE = 0.25  # the fraction of an excerpt that precedes its best matches


@dataclass(frozen=True)
class Excerpt:
    """The part of a document's title or text that a response has."""

    text: str
    start: int
    length: int  # of the document's whole title or text

    @property
    def cut(self) -> dict[str, int] | None:
        """The JSON of api.Cut, or None if nothing is left out."""
        return None if len(self.text) == self.length else {"start": self.start, "length": self.length}


@dataclass(frozen=True)
class HitWriter:
    """Writes the hits of one query as JSON. Titles and texts have at most `max_text` characters."""

    words: TextAnalyzer
    max_text: int
    highlight: bool = False

    def hit_json(self, hit: Hit, why: Explanation | None = None) -> HitJson:
        """Return a hit as JSON, with its explanation if there is one."""
        tokens = {term.token for term in (*why.terms, *why.lost)} if why else set()
        title, text = self._title(hit, tokens), self._text(hit, tokens)
        cut = {field: one.cut for field, one in (("title", title), ("text", text)) if one.cut}
        return {
            "id": hit.id,
            "score": hit.score,
            "lexical": hit.lexical,
            "dense": hit.dense,
            "title": title.text,
            "text": text.text,
            "meta": dict(hit.meta),
            "cut": cut or None,
            "passages": [self._passage_json(passage, tokens) for passage in hit.passages],
            "highlights": [{**asdict(one), "html": one.html()} for one in hit.highlights] if self.highlight else [],
            "explanation": why and self._explanation_json(hit, why, title, text, tokens),
        }

    def _explanation_json(
        self, hit: Hit, why: Explanation, title: Excerpt, text: Excerpt, tokens: set[str]
    ) -> dict[str, Any]:
        best = hit.passages[0].start - text.start if hit.passages else 0
        spans = [("title", span) for span in matches(title.text, tokens, self.words)]
        spans += [("text", span) for span in self._matches_near(text.text, best, tokens)]
        explanation = asdict(why) | {"matches": [{"field": field, **span._asdict()} for field, span in spans]}
        del explanation["id"]
        return explanation

    def _passage_json(self, passage: Passage, tokens: set[str]) -> dict[str, Any]:
        start, end = self._shortened(passage.text, tokens)
        shown = passage.text[start:end]
        is_whole = len(shown) == len(passage.text)
        spans = matches(shown, tokens, self.words) if tokens else []
        return {
            "number": passage.number,
            "start": passage.start,
            "end": passage.end,
            "heading": passage.heading,
            "page": passage.page,
            "score": passage.score,
            "lexical": passage.lexical,
            "dense": passage.dense,
            "text": shown,
            "cut": None if is_whole else {"start": passage.start + start, "length": passage.document_length},
            "matches": [span._asdict() for span in spans],
        }

    def _title(self, hit: Hit, tokens: set[str]) -> Excerpt:
        start, end = self._shortened(hit.title, tokens)
        return Excerpt(hit.title[start:end], start, len(hit.title))

    def _text(self, hit: Hit, tokens: set[str]) -> Excerpt:
        """Return an excerpt around the best passage. A hit that is a passage is an excerpt of its document."""
        if not hit.passages:
            return Excerpt(hit.text[: self.max_text], 0, len(hit.text))
        best = hit.passages[0]
        first = best.start if len(hit.text) < best.document_length else 0  # where hit.text begins in the document
        if len(best.text) > self.max_text:
            start, end = (best.start - first + at for at in self._shortened(best.text, tokens))
        else:
            start, end = around(hit.text, best.start - first, best.end - first, self.max_text)
        return Excerpt(hit.text[start:end], first + start, best.document_length)

    def _shortened(self, text: str, tokens: set[str]) -> tuple[int, int]:
        """Return start and end of an excerpt with the most different tokens, or of the beginning without tokens."""
        if not tokens or len(text) <= self.max_text:
            return 0, min(len(text), self.max_text)
        return excerpt(text, tokens, self.words, self.max_text, int(CONTEXT_SHARE * self.max_text))

    def _matches_near(self, text: str, at: int, tokens: set[str]) -> list[Span]:
        """Return the places of the tokens in a text, in a long one those around a place."""
        first = max(0, at - MATCHED_CHARACTERS // 2) if len(text) > MATCHED_CHARACTERS else 0
        first = text.rfind(" ", 0, first) + 1  # a word is not matched by its end
        found = matches(text[first : first + MATCHED_CHARACTERS + 1], tokens, self.words)
        return [Span(first + span.start, first + span.end, span.token) for span in found]


def around(text: str, start: int, end: int, width: int) -> tuple[int, int]:
    """Return start and end of an excerpt of at most `width` characters around a part of a text, which is not longer.

    Both ends are between words if a space is near.
    """
    if len(text) <= width:
        return 0, len(text)
    first = min(max(0, start - (width - (end - start)) // 2), len(text) - width)
    last = first + width
    if first > 0:
        first = text.find(" ", first, start) + 1 or first
    if last < len(text) and (space := text.rfind(" ", end, last)) >= 0:
        last = space
    return first, last
