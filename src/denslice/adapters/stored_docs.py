"""Documents as other libraries hold them: an id, a text and metadata, whose field `title` is the title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from denslice.rankings import Hit
from denslice.records import Doc


def stored_doc(id: str, text: str, metadata: Mapping[str, Any]) -> Doc:
    """Return the document to store. A field `title` that is a text is searched as the title."""
    title = metadata.get("title")
    if not title or not isinstance(title, str):
        return Doc(id, text, meta=metadata)
    return Doc(id, text, title, {name: value for name, value in metadata.items() if name != "title"})


def given_metadata(stored: Doc | Hit) -> dict[str, Any]:
    """Return the metadata as they were given to `stored_doc`, or of any document with its title."""
    return {**stored.meta, **({"title": stored.title} if stored.title else {})}
