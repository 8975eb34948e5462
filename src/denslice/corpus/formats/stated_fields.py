"""What a file states about itself: its title, author, date and language, among fields of any names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

from denslice.scalars import is_whole, python_scalar

MOST_VALUES, MOST_CHARACTERS = 2_000, 100_000  # of all fields together; references may repeat a value without end
DEEPEST_FIELD = 16  # levels
_half_pairs = re.compile("[\ud800-\udfff]")
_year_first = re.compile(r"\b(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)(?!\d)")
_day_first = re.compile(r"\b(?P<day>\d\d?)(?:st|nd|rd|th)?\.? (?P<month>[A-Za-z]{3,9})\.?,? (?P<year>\d{4})\b")
_month_first = re.compile(r"\b(?P<month>[A-Za-z]{3,9})\.? (?P<day>\d\d?)(?:st|nd|rd|th)?,? (?P<year>\d{4})\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def stated(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the title and the metadata of JSON-able fields: `author`, `date`, `language`, and others by their names.

    Fields without a value are left out.
    """
    title, meta = "", {}
    for name, value in fields.items():
        known = _OTHER_NAMES.get(name.lower(), name.lower())
        if known == "title":
            title = title or _words(value)
        elif known in _READERS:
            meta[known] = _READERS[known](value)
        else:
            meta[name] = value
    return title, {name: value for name, value in meta.items() if value not in (None, "", [], {})}


def plain_fields(fields: Mapping[Any, object]) -> dict[str, Any]:
    """Return fields as JSON holds them, with dates in ISO 8601; raise ValueError if they are too many or too deep."""
    plain: dict[str, Any] = _Plain().value(fields, 0)
    return plain


class _Plain:
    """Turns values into those of JSON, and counts them, because a few lines of YAML can stand for billions."""

    def __init__(self) -> None:
        self.values = self.characters = 0

    def value(self, given: object, depth: int) -> Any:
        self.values += 1
        if self.values > MOST_VALUES or depth > DEEPEST_FIELD:
            raise ValueError("too many values" if depth <= DEEPEST_FIELD else "nested too deeply")
        if isinstance(given, Mapping):
            return {self.text(_name(name)): self.value(value, depth + 1) for name, value in given.items()}
        if isinstance(given, list | tuple | set):
            return [self.value(one, depth + 1) for one in given]
        scalar = given.isoformat() if isinstance(given, time) else python_scalar(given)
        if scalar is None or (isinstance(scalar, bool | int | float) and math.isfinite(scalar)):
            return scalar
        return self.text(scalar.decode("utf-8", "replace") if isinstance(scalar, bytes) else str(scalar))

    def text(self, given: str) -> str:
        self.characters += len(given)
        if self.characters > MOST_CHARACTERS:
            raise ValueError("too much text")
        return _half_pairs.sub("\ufffd", given)


def _name(name: object) -> str:
    return str(name).lower() if isinstance(name, bool) else str(python_scalar(name))


def iso_date(given: object) -> Any:
    """Return the date that a value names in ISO 8601, `2024-05-17` or with a time, or the value if it names none."""
    if not isinstance(given, str):
        return str(given) if is_whole(given) else given  # a year
    try:
        stamp = datetime.fromisoformat(given.strip())
        return stamp.date().isoformat() if len(given.strip()) <= len("2024-05-17") else python_scalar(stamp)
    except (ValueError, OverflowError):
        return _found_date(given) or given.strip()


def _found_date(given: str) -> str | None:
    """Return the first date within a text, or None. Of days and months in digits, only years in front are clear."""
    found = _year_first.search(given) or _day_first.search(given) or _month_first.search(given)
    try:
        month = found["month"][:3].lower() if found else ""
        number = int(month) if month.isdigit() else 1 + _MONTHS.index(month)
        return date(int(found["year"]), number, int(found["day"])).isoformat() if found else None
    except ValueError:
        return None


def _words(value: Any) -> str:
    """Return a value as text on one line: that of a list or an object is empty."""
    return "" if value is None or isinstance(value, list | dict) else " ".join(str(value).split())


def _people(value: Any) -> Any:
    """Return a name, or the names of several people, who may be objects with a field `name`."""
    people = value if isinstance(value, list) else [value]
    names = [_words(one.get("name") if isinstance(one, dict) else one) for one in people]
    names = [name for name in names if name]
    return names[0] if len(names) == 1 else names


def _language(value: Any) -> str:
    return "no" if value is False else _words(value)  # YAML reads Norwegian, `lang: no`, as false


_OTHER_NAMES = {"authors": "author", "lang": "language"}
_READERS: dict[str, Callable[[Any], Any]] = {"author": _people, "date": iso_date, "language": _language}
