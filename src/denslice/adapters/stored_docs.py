"""Documents as other libraries hold them: an id, a text and metadata, whose field `title` is the title."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from denslice.index.search_verbs import SearchVerbs
from denslice.rankings import Hit
from denslice.records import Doc, filter_fields
from denslice.search.filter import matches, parse


def stored_doc(id: str, text: str, metadata: Mapping[str, Any]) -> Doc:
    """Return the document to store. A field `title` that is a text is searched as the title."""
    title = metadata.get("title")
    if not title or not isinstance(title, str):
        return Doc(id, text, meta=metadata)
    return Doc(id, text, title, {name: value for name, value in metadata.items() if name != "title"})


def given_metadata(stored: Doc | Hit) -> dict[str, Any]:
    """Return the metadata as they were given to `stored_doc`, or of any document with its title."""
    return {**stored.meta, **({"title": stored.title} if stored.title else {})}


def passing_docs(index: SearchVerbs, where: Mapping[str, Any], ids: Iterable[str] | None = None) -> Iterator[Doc]:
    """Yield every document, or those with these ids that there are, that passes the filter."""
    condition = parse(where)
    docs = index.docs() if ids is None else filter(None, map(index.get, ids))
    return (doc for doc in docs if matches(condition, filter_fields(doc.id, doc.title, doc.meta)))
