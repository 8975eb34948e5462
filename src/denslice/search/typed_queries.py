"""Queries as people type them: `"exact phrase"`, `-word`, `+word`, `field:word`, `word*`, `word~` and `a OR b`.

What is no operator is plain text. No text is an error, however odd its signs and quotes are.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from denslice.queries import Clause, Query

QUOTES = {
    '"': '"',
    "“": "”",
    "”": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "「": "」",
    "『": "』",
}  # the opening ones, with those that close them
TRAILING = ".,;:!?…)]}。、，！？）"  # signs behind a word that are no part of it
ENDINGS = {"*": "prefix", "~": "fuzzy"}
MOST_OPERATORS = 64  # of a query; what follows them is plain text
OR = "OR"
_field = re.compile(r"([^\W\d][\w.-]*):(?=\S)")
_chunk = re.compile(r"\S+")
_expandable = re.compile(r"\w[\w'’-]*")
_may_operate = re.compile(rf"(?<!\S)[+-]|[*~:{''.join(QUOTES)}]").search  # every operator has one of these signs


@dataclass(frozen=True)
class Item:
    """A part of a typed query, from `start` to `end`: plain text, or a clause with its sign."""

    start: int
    end: int
    text: str  # what is scored
    clause: Clause | None = None
    sign: str = ""

    @property
    def is_condition(self) -> bool:
        """Whether a document has to meet it."""
        return self.clause is not None and bool(self.sign or self.clause.field or self.clause.kind == "phrase")


def parsed(text: str, fields: Container[str] = ()) -> Query:
    """Return the query that a text means, in a collection with these fields.

    A text without operators is the text of the query, unchanged.
    """
    return read_by_items(text, fields) if _may_operate(text) else Query(text=text)


def read_by_items(text: str, fields: Container[str] = ()) -> Query:
    """Return the query that a text means, whatever signs it has: the definition of `parsed`."""
    items = list(_items(text, fields))
    if all(item.clause is None for item in items):
        return Query(text=text)
    groups = [group for group in _groups(items) if any(item.is_condition for item in group)]
    phrases = [one.clause for (one, *more) in groups if not more and one.clause and _is_phrase(one)]
    others = [group for group in groups if len(group) > 1 or not _is_phrase(group[0])]
    clauses = [item.clause for item in items if item.clause and item.sign != "-" and not item.clause.field]
    return Query(
        text=" ".join(item.text for item in items if item.text and not _joins(item, groups)),
        must=[_required(group) for group in others if group[0].sign != "-"],
        must_not=[_clause(group[0]) for group in others if group[0].sign == "-"],
        phrases=[phrase.text for phrase in phrases],
        should=[clause for clause in clauses if clause.kind in ENDINGS.values()],
    )


# --- items


def _items(text: str, fields: Container[str]) -> Iterator[Item]:
    """Yield the parts of a text in order."""
    at, operators, before = 0, 0, None
    while chunk := _chunk.search(text, at):
        start = chunk.start()
        item = _operator(text, start, fields, before) if operators < MOST_OPERATORS else None
        item = item or _plain(text, start, chunk.end(), operators < MOST_OPERATORS)
        yield item
        operators += item.clause is not None
        at, before = item.end, item


def _operator(text: str, start: int, fields: Container[str], before: Item | None) -> Item | None:
    """Return the operator that begins here, or None if none does."""
    if start and not text[start - 1].isspace():
        return _phrase(text, start, start, "", "")
    sign = text[start] if text[start] in "+-" and _may_sign(before) else ""
    named = _field.match(text, start + len(sign))
    field = named[1] if named and named[1] in fields else ""
    at = named.end() if named and field else start + len(sign)
    return _phrase(text, start, at, sign, field) or _word(text, start, at, sign, field)


def _may_sign(before: Item | None) -> bool:
    """Return whether a sign may follow: in `y = -x` it is a part of a formula."""
    return before is None or before.clause is not None or any(map(str.isalnum, before.text))


def _phrase(text: str, start: int, at: int, sign: str, field: str) -> Item | None:
    """Return the phrase in quotes that begins at a place, or None."""
    end = _quoted(text, at)
    if end is None:
        return None
    inner = text[at + 1 : end - 1].strip()
    return Item(start, end, _scored(inner, sign, field), Clause(inner, "phrase", field), sign)


def _quoted(text: str, at: int) -> int | None:
    """Return the place after the quote that closes the one at a place; None if there are no words in quotes."""
    closing = QUOTES.get(text[at]) if at < len(text) else None
    if closing is None or (text[at] in closing and at and text[at - 1].isalnum()):
        return None
    ends = [end for end in (text.find(quote, at + 1) for quote in closing) if end >= 0]
    return min(ends) + 1 if ends and any(map(str.isalnum, text[at + 1 : min(ends)])) else None


def _word(text: str, start: int, at: int, sign: str, field: str) -> Item | None:
    """Return the word with an operator that begins at a place, or None."""
    chunk = _chunk.match(text, at)
    word = chunk[0].rstrip(TRAILING) if chunk else ""
    kind = ENDINGS.get(word[-1:], "word")
    if kind != "word" and not (_expandable.fullmatch(word, 0, len(word) - 1) and _is_long(word[:-1])):
        return None
    if (kind == "word" and not sign and not field) or (sign and not field and not _is_signed(word)):
        return None
    if field and (kind == "fuzzy" or not any(map(str.isalnum, word))):
        return None
    word = word if kind == "word" else word[:-1]
    return Item(start, at + len(chunk[0]) if chunk else at, _scored(word, sign, field), Clause(word, kind, field), sign)


def _is_signed(word: str) -> bool:
    """Return whether a sign before a word is an operator: not before a number, or a letter as in `ls -l`."""
    return word[:1].isalpha() and _is_long(word)


def _is_long(word: str) -> bool:
    """Return whether a word is more than one letter or digit; a single sign of a script without cases is a word."""
    return len(word) > 1 or (word.isalpha() and word.lower() == word.upper())


def _scored(words: str, sign: str, field: str) -> str:
    return "" if sign == "-" or field not in ("", "title") else words


def _plain(text: str, start: int, end: int, may_quote: bool) -> Item:
    """Return the plain text from a place to the next space, or to a phrase in quotes before it."""
    for at in range(start + 1, end if may_quote else start + 1):
        if text[at] in QUOTES and _quoted(text, at) is not None:
            return Item(start, at, text[start:at])
    return Item(start, end, text[start:end])


# --- alternatives


def _groups(items: Sequence[Item]) -> list[list[Item]]:
    """Return the items, with those between which OR stands together."""
    groups: list[list[Item]] = []
    at = 0
    while at < len(items):
        group = [items[at]]
        while at + 2 < len(items) and _is_or(items[at + 1]) and all(map(_is_choice, (items[at], items[at + 2]))):
            at += 2
            group.append(items[at])
        groups.append(group)
        at += 1
    return groups


def _is_or(item: Item) -> bool:
    return item.clause is None and item.text == OR


def _is_choice(item: Item) -> bool:
    return item.sign != "-" and not _is_or(item) and any(map(str.isalnum, item.text or str(item.clause)))


def _joins(item: Item, groups: Sequence[Sequence[Item]]) -> bool:
    """Return whether this is the OR of alternatives that are a condition."""
    return _is_or(item) and any(group[0].start < item.start < group[-1].start for group in groups)


def _required(group: Sequence[Item]) -> Clause | tuple[Clause, ...]:
    return _clause(group[0]) if len(group) == 1 else tuple(map(_clause, group))


def _clause(item: Item) -> Clause:
    return item.clause or Clause(item.text.strip(TRAILING))


def _is_phrase(item: Item) -> bool:
    return item.clause is not None and item.clause.kind == "phrase" and not item.clause.field and item.sign != "-"
