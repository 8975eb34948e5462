"""Checks of what a product answers, before anything is timed, and whether changes are seen at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from denslice.bench.product_process import ProductError, ProductProcess
from denslice.bench.product_texts import PARTS, PLANTED, DocText, TextFolder

K = 10
ASKED = 2 * (len(PLANTED) - 1)  # times that a planted document must come first: with and without a filter
MAY_MISS = ASKED // 2  # so often an approximate index may miss one; more is taken for a mistake


def check_answers(product: ProductProcess, texts: TextFolder) -> list[str]:
    """Return the questions about planted documents for which an approximate search found another document first.

    Raise ProductError unless every document is there once, filters are obeyed, and most planted documents are found.
    """
    check_ids(product, [doc["id"] for doc in texts.docs])
    missed = []
    for at, one in enumerate(PLANTED[:-1]):
        doc = texts.planted(at)
        other = f"part{(int(doc['part'].removeprefix('part')) + 1) % PARTS}"
        within, outside = (product.ask("search_in", part=part, text=one.question, k=K) for part in (doc["part"], other))
        _check_part(product, within, doc["part"])
        _check_part(product, outside, other)
        found = {one.question: first_for(product, one.question), f"{one.question} in {doc['part']}": first_of(within)}
        missed += [question for question, id in found.items() if id != doc["id"]]
    if len(missed) > MAY_MISS:
        raise ProductError(f"{product.name}: found other documents than those planted for {missed}")
    return missed


def check_ids(product: ProductProcess, expected: Sequence[str]) -> None:
    """Raise ProductError unless a product has exactly these documents."""
    found = Counter(product.ask("ids"))
    missing, more = Counter(expected) - found, found - Counter(expected)
    if missing or more:
        told = f"{missing.total():,} of {len(expected):,} documents are missing and {more.total():,} too many are there"
        raise ProductError(f"{product.name}: {told}, such as {[*missing, *more][:3]}")


def first_for(product: ProductProcess, question: str) -> str | None:
    """Return the best document."""
    return first_of(product.ask("search", text=question, k=K))


def first_of(found: Sequence[str]) -> str | None:
    """Return the first document found, if there is one."""
    return found[0] if found else None


def change_and_look(product: ProductProcess, texts: TextFolder) -> dict[str, Any]:
    """Return which changes the next search sees among its ten best, and the milliseconds of each change."""
    deleted, changed, added = (texts.planted(at) for at in range(3))
    of_deleted, of_changed, of_added = PLANTED
    times, seen = {}, {}
    times["add_ms"], _ = product.timed("add", docs=[added])
    seen["add"] = _is_found(product, added, of_added.question)
    times["delete_ms"], _ = product.timed("delete", ids=[deleted["id"]])
    seen["delete"] = not _is_found(product, deleted, of_deleted.question)
    times["update_ms"], _ = product.timed("add", docs=[changed | {"text": of_changed.changed}])
    seen["update"] = _is_found(product, changed, of_changed.changed_question)
    seen["update"] &= first_for(product, of_changed.question) != changed["id"]
    return {"seen": seen} | {name: round(1e3 * seconds, 2) for name, seconds in times.items()}


def after_changes(texts: TextFolder) -> list[str]:
    """Return the ids of the documents that are there after the changes."""
    gone = texts.planted(0)["id"]
    return [*(doc["id"] for doc in texts.docs if doc["id"] != gone), texts.planted(2)["id"]]


def _is_found(product: ProductProcess, doc: DocText, question: str) -> bool:
    return doc["id"] in product.ask("search", text=question, k=K)


def _check_part(product: ProductProcess, found: Sequence[str], part: str) -> None:
    if others := [id for id in found if not id.startswith(f"{part}/")]:
        raise ProductError(f"{product.name}: a search within {part} found {others}")
