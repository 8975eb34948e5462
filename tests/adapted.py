"""The small indexes that every adapter is tested with, and what has to be found in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from denslice import Index

CATS: list[dict[str, Any]] = [
    {"id": "cats", "title": "On cats", "text": "Cats sleep all day.", "year": 2020, "lang": "en"},
    {"id": "dogs", "text": "Dogs chase cats.", "year": 2021, "lang": "de"},
    {"id": "owls", "text": "Owls and cats see at night.", "lang": "en"},
]
WILD = "# Wild\n\n" + "Foxes run through the wood. " * 30
TAME = "# Tame\n\n" + "The old cat sleeps on a warm sofa. " * 30
BOOK: dict[str, Any] = {"id": "book", "title": "Animals", "text": f"{WILD}\n\n{TAME}", "year": 2020}
NOTE: dict[str, Any] = {"id": "note", "text": "A sofa."}
NOT_A_K = [True, 0, 1.5, "2", float("nan")]


def index_of(docs: list[dict[str, Any]], folder: Path) -> Index:
    """A lexical index of the documents in a new folder."""
    made = Index.create(folder, "bm25")
    made.add(docs)
    return made


def check_passages(found: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Check ids, texts and metadata of what was found for "cat sofa" in BOOK and NOTE."""
    assert found.keys() == {"book#1", "note"}  # a document of one passage has its own id
    text, meta = found["book#1"]
    assert (meta["document_id"], meta["title"], meta["year"], meta["heading"]) == ("book", "Animals", 2020, "Tame")
    assert (meta["page"], meta["lexical"] > 0, meta["dense"]) == (None, True, 0.0)
    assert text == BOOK["text"][meta["start"] : meta["end"]]
