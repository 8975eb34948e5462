"""Which fields of records hold the id, the title and the text: by their names, else by what they hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import UnreadableError
from denslice.records import ID_FIELDS, META_FIELDS, TEXT_FIELDS, Doc

TEXT_NAMES = (
    *TEXT_FIELDS,
    *("body", "full_text", "fulltext", "passage", "article", "abstract", "transcript"),
    *("description", "summary", "overview", "document", "context", "message", "review", "comment", "post", "tweet"),
    *("note", "notes", "answer", "question", "sentence", "caption"),
)
LONE_NAMES = TEXT_NAMES[: TEXT_NAMES.index("description")]  # a package.json has a description, and is no record
TITLE_NAMES = ("title", "name", "subject", "headline", "question")
KNOWN_NAMES = frozenset((*ID_FIELDS, *TITLE_NAMES, *TEXT_NAMES))
SHORTEST_TEXT = 20  # characters of a text on average, if nothing but its length says that it is one
NO_TEXT = "table without text"

Record = Mapping[str, Any]
# Two words, or a script that has no spaces between them
_has_words = re.compile(r"[^\W\d_]\S*\s+\S*[^\W\d_]|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u9fff]{2}").search


@dataclass(frozen=True)
class TextFields:
    """The names that the records of a file have for id, title and text; None for what they do not have."""

    id: str | None
    title: str | None
    text: str | None
    is_asked: bool = False  # for this text, also in a record that has one of another name

    def doc(self, record: Record) -> Doc:
        """Return the document of a record, with an empty id if it has none. Any other field is metadata."""
        rest = dict(record)
        aside = {name: rest.pop(name) for name in META_FIELDS if not isinstance(rest.get(name), dict | None)}
        name = self._text_of(rest)
        text = None if name is None else rest.pop(name, None)
        aside |= {name: rest.pop(name) for name in TEXT_FIELDS if name in rest}
        if aside:  # metadata, whatever their names are
            rest["meta"] = {**(rest.get("meta") or {}), **aside}
        rest["text"] = _joined(text)
        self._rename(rest)
        if any(rest.get(name) is not None for name in ID_FIELDS):
            return Doc.from_dict(rest)
        return replace(Doc.from_dict({**rest, "id": "none"}), id="")

    def _text_of(self, record: Record) -> str | None:
        """Return the name of the field that holds the text of this record."""
        if self.is_asked:
            return self.text
        present = [name for name in TEXT_FIELDS if name in record]
        texts = [name for name in present if isinstance(record[name], str | list)]
        guessed = [self.text] if self.text in record else []
        return next(iter([*texts, *guessed, *present]), None)

    def _rename(self, rest: dict[str, Any]) -> None:
        """Call id and title what documents call them, unless the record has fields of these names."""
        if self.id in rest and not any(name in rest for name in ID_FIELDS):
            rest["id"] = rest.pop(self.id)
        if self.title in rest and "title" not in rest and isinstance(rest[self.title], str):
            rest["title"] = rest.pop(self.title)
        if isinstance(number := rest.get("title"), int | float):
            rest["title"] = str(number)


def text_fields(file: SourceFile, sample: Sequence[Record]) -> TextFields:
    """Return the fields of a file's records, and remark what was guessed.

    Raise UnreadableError if no field holds text, or none has the name that was asked for.
    """
    names = list(dict.fromkeys(name for record in sample for name in record))
    id = next((name for name in ID_FIELDS if name in names), None) or named(names, ID_FIELDS)
    others = [name for name in names if name != id]
    text = guessed_text(sample, others) if file.text_field is None else _asked(file.text_field, names)
    title = _first_that(_has_strings, sample, [name for name in others if name != text], TITLE_NAMES)
    if text is None and title is None and not any("vector" in record for record in sample):
        raise UnreadableError(NO_TEXT, "no column holds text; name one with --text-field")
    _tell(file, title, text)
    return TextFields(id, title, text, file.text_field is not None)


def named(names: Iterable[str], wanted: Iterable[str]) -> str | None:
    """Return the first of the wanted names as records spell it; capitals and outer spaces do not matter."""
    given = list(names)
    spelled = {name.strip().casefold(): name for name in reversed(given)}
    return next((name if name in given else spelled[name] for name in wanted if name in spelled), None)


def guessed_text(sample: Sequence[Record], names: Sequence[str]) -> str | None:
    """Return the field that most likely holds the text, or None.

    It has a usual name and holds words; else it is the one with the longest strings. A field that is called text and
    holds nothing is better than none.
    """
    certain = _first_that(_has_strings, sample, names, TEXT_FIELDS)
    likely = certain or _first_that(_holds_words, sample, names, TEXT_NAMES) or _longest(sample, names)
    return likely or named(names, TEXT_FIELDS)


def kept_if_empty(file: SourceFile, names: Iterable[str]) -> list[str]:
    """Return the columns that a record of a table has also if their cells are empty: those of texts."""
    texts = {*TEXT_FIELDS, (file.text_field or "text").strip().casefold()}
    return [name for name in names if name.strip().casefold() in texts]


def _asked(field: str, names: Sequence[str]) -> str:
    found = field if field in names else named(names, [field.strip().casefold()])
    if found is None:
        listed = ", ".join(f"`{name}`" for name in names[:20])
        raise UnreadableError(NO_TEXT, f"no column is named `{field}`; found {listed}")
    return found


def _tell(file: SourceFile, title: str | None, text: str | None) -> None:
    if text is None and title is not None:
        file.remark(f"no column holds text; only titles are read, from the column `{title}`")
    elif text is not None and text not in TEXT_FIELDS and file.text_field is None:
        file.remark(f"text is taken from the column `{text}`")
    if text is not None and title not in (None, "title"):
        file.remark(f"titles are taken from the column `{title}`")


def _first_that(
    holds: Callable[[Sequence[Record], str], bool],
    sample: Sequence[Record],
    names: Sequence[str],
    wanted: Sequence[str],
) -> str | None:
    spelled = (named(names, [name]) for name in wanted)
    return next((name for name in spelled if name is not None and holds(sample, name)), None)


def _longest(sample: Sequence[Record], names: Sequence[str]) -> str | None:
    """Return the field with the longest strings, but for the title, if they are long enough and most have words."""
    lengths: dict[str, int] = {}
    for name in names:
        values = [value for record in sample if isinstance(value := record.get(name), str) and value.strip()]
        total, with_words = sum(map(len, values)), sum(1 for value in values if _has_words(value))
        if name.strip().casefold() != "title" and values and 2 * with_words > len(values):
            lengths |= {name: total} if total >= SHORTEST_TEXT * len(values) else {}
    return max(lengths, key=lambda name: lengths[name], default=None)


def _holds_words(sample: Sequence[Record], name: str) -> bool:
    return any(_has_words(value) for value in _strings(sample, name))


def _has_strings(sample: Sequence[Record], name: str) -> bool:
    return any(value.strip() for value in _strings(sample, name))


def _strings(sample: Sequence[Record], name: str) -> Iterator[str]:
    values = (_joined(record.get(name)) for record in sample)
    return (value for value in values if isinstance(value, str))


def _joined(value: object) -> object:
    """Return a text that comes as a list of sentences or paragraphs as one; anything else unchanged."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return value
