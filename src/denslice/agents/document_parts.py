"""Parts of documents that fit a budget: from a character on, or around a passage."""

from __future__ import annotations

from collections.abc import Sequence

from denslice.agents.agent_answers import DocumentPart
from denslice.agents.agent_calls import on_a_line
from denslice.agents.token_budget import most, most_characters
from denslice.errors import InputError
from denslice.records import Doc, Place
from denslice.serve.hit_json import around

META_SHARE = 0.5  # of a budget; larger metadata are left out


def from_character(doc: Doc, passages: int, start: int, tokens: int, warnings: Sequence[str]) -> DocumentPart:
    """Return as much of a document as fits, from a character on."""
    if start and start >= len(doc.text):
        raise InputError(f"start is {start}, and the text of {doc.id!r} has {len(doc.text)} characters")
    empty = _empty(doc, passages, tokens, warnings)

    def part(length: int) -> DocumentPart:
        return _with_text(empty, doc.text, start, start + length)

    up_to = min(len(doc.text) - start, most_characters(tokens))
    return part(most(up_to, lambda length: part(length).cost() <= tokens))


def around_passage(
    doc: Doc, places: Sequence[Place], number: int, tokens: int, warnings: Sequence[str]
) -> DocumentPart:
    """Return a passage with as much of the text before and after it as fits, or its beginning if it is too long."""
    if not 0 <= number < len(places):
        raise InputError(f"document {doc.id!r} has no passage {number}; it has 0 to {len(places) - 1}")
    place, empty = places[number], _empty(doc, len(places), tokens, warnings)

    def part(width: int) -> DocumentPart:
        if width < place.end - place.start:
            return _with_text(empty, doc.text, place.start, place.start + width)
        return _with_text(empty, doc.text, *around(doc.text, place.start, place.end, width))

    up_to = min(len(doc.text), most_characters(tokens))
    return part(most(up_to, lambda width: part(width).cost() <= tokens))


def _empty(doc: Doc, passages: int, tokens: int, warnings: Sequence[str]) -> DocumentPart:
    """Return a document without text, and without metadata if these are large."""
    part = DocumentPart(
        id=doc.id,
        title=on_a_line(doc.title),
        meta=dict(doc.meta),
        text="",
        start=0,
        end=0,
        length=len(doc.text),
        passages=passages,
        warnings=[*warnings],
    )
    if part.cost() <= META_SHARE * tokens:
        return part
    return part.model_copy(update={"meta": {}, "warnings": [*warnings, "the metadata are too large and left out"]})


def _with_text(part: DocumentPart, text: str, start: int, end: int) -> DocumentPart:
    end = min(end, len(text))
    following = end if end < len(text) else None
    return part.model_copy(update={"text": text[start:end], "start": start, "end": end, "next": following})
