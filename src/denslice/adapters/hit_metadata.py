"""What the adapters say of a hit in the same way: an id that is unique in a ranking, and metadata."""

from __future__ import annotations

from typing import Any

from denslice.rankings import Hit


def unique_id(hit: Hit, group: bool) -> str:
    """Return the id of the document; for one of several passages, with the passage's number: `ID#NUMBER`."""
    if group or hit.passages[0].is_whole:
        return hit.id
    return f"{hit.id}#{hit.passages[0].number}"


def metadata(hit: Hit, group: bool) -> dict[str, Any]:
    """Return the document's metadata with its id, title and scores; for a passage, also its place in the document."""
    found = {**hit.meta, "document_id": hit.id, "title": hit.title, "lexical": hit.lexical, "dense": hit.dense}
    if group:
        return found
    passage = hit.passages[0]
    place = {"start": passage.start, "end": passage.end, "heading": passage.heading, "page": passage.page}
    return found | place
