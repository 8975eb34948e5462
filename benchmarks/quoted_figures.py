"""The figures that a page quotes, and whether each has a source: a made table of the page, or an entry of a ledger.

A figure is a number with a unit or a decimal of two or more digits, in prose or in a table that was typed: not in code,
addresses, and the tables between `<!-- table:NAME -->` marks, which are made from result lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "hundred": 100, "thousand": 1_000,
}  # fmt: skip
NUMBER = r"(?<![\w.,])(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d{2,})(?!\w|[.,]\d)"
SIGNED = rf"[-−+±]?{NUMBER}"
UNIT = (
    r"ms|milliseconds|µs|s|seconds?|minutes?|hours?|days|[kKMGT]B|bytes|%|×(?! ?\d)|times|points"
    r"|(?:[a-z]+ )?a second|[a-z]+/s|percent"
)
COMPARED = r"times(?=\s(?:as|the|that|faster|slower|longer|shorter|larger|smaller|more))"
JOINED = r"(?:,|,? and| to| or| against| instead of| of| →|–| ±)\s+"  # 3.7 to 7.2 ms
FIGURE = re.compile(
    rf"{SIGNED}(?:{JOINED}{SIGNED})*[\s-]*(?P<unit>{UNIT})(?!\w)"
    rf"|\b(?:{'|'.join(WORDS)})\s(?P<spelt>seconds?|minutes|hours|{COMPARED})"
    r"|[-−+±]?(?<![\w.,])\d*\.\d{2,}(?!\w|[.,]\d)"
)
MADE = re.compile(r"<!-- table:.*?<!-- /table -->", re.DOTALL)
HIDDEN = re.compile(  # code, made tables, comments, addresses, versions, and what every interval here is
    rf"^```.*?^```$|{MADE.pattern}|<!--.*?-->|`[^`\n]*(?:\n[^`\n]*)?`|\]\([^)]*\)|https?://\S+"
    r"|(?:Python|onnxruntime) \d\.\d+|95 %\sinterval|[Ii]ntervals\sare\sof\s95 %",
    re.DOTALL | re.MULTILINE,
)
Value = float | Sequence[float] | str  # of a phrase: its numbers, whether it is true, or a source in words


class Figure(NamedTuple):
    """A figure of a page: where it stands, its numbers as they are written, and their unit, empty if there is none."""

    start: int
    end: int
    numbers: Sequence[str]
    unit: str


def figures(page: str) -> Iterator[Figure]:
    """Yield the figures of a page in their order."""
    prose = HIDDEN.sub(lambda found: re.sub(r"\S", " ", found[0]), page)
    for found in FIGURE.finditer(prose):
        numbers = found[0].split()[:1] if found["spelt"] else _numbers(found[0])
        yield Figure(*found.span(), numbers, found["unit"] or found["spelt"] or "")


def is_quoted(figure: Figure, tables: Sequence[str]) -> bool:
    """Return whether a table has the numbers of a figure as they are written, of two digits or more, and its unit."""
    numbers = set(figure.numbers)
    has_digits = all(len(re.sub(r"\D", "", number).lstrip("0")) > 1 for number in numbers)
    return has_digits and any(_has_unit(one, figure.unit) and numbers <= set(_numbers(one)) for one in tables)


def problems(page: str, tables: Sequence[str], ledger: Mapping[str, Value]) -> list[str]:
    """Return what is wrong: figures that neither quote a table nor are in the ledger, and entries that do not hold."""
    places = {phrase: _places(page, phrase) for phrase in ledger}
    wrong = [
        f"{phrase!r} is in the ledger and {len(spans)} times in the page, not once"
        for phrase, spans in places.items()
        if len(spans) != 1
    ]
    told = {phrase: spans[0] for phrase, spans in places.items() if len(spans) == 1}
    found = list(figures(page))
    for phrase, span in told.items():
        shown = [number for one in found if _is_within(one, span) for number in one.numbers]
        if not agrees(shown, ledger[phrase]):
            wrong.append(f"{_line(page, span[0])}: {phrase!r} does not agree with its source, {ledger[phrase]}")
    for one in found:
        if not any(_is_within(one, span) for span in told.values()) and not is_quoted(one, tables):
            wrong.append(f"{_line(page, one.start)}: {page[one.start : one.end]!r} has no source")
    return wrong


def agrees(shown: Sequence[str], value: Value) -> bool:
    """Return whether numbers are what a value says, rounded to the digits that are shown."""
    if isinstance(value, bool | str):
        return bool(value)
    values: list[float] = [value] if isinstance(value, int | float) else list(value)
    return len(shown) == len(values) and all(map(_is_rounded, shown, values))


def _is_rounded(shown: str, value: float) -> bool:
    if shown in WORDS:
        return WORDS[shown] == value
    half = 0.5001 * 0.1 ** len(shown.partition(".")[2])
    return abs(float(shown.replace(",", "")) - value) <= half


def _places(page: str, phrase: str) -> list[tuple[int, int]]:
    """Return where a phrase stands; a space may be the end of a line."""
    return [found.span() for found in re.finditer(r"\s+".join(map(re.escape, phrase.split())), page)]


def _is_within(figure: Figure, span: tuple[int, int]) -> bool:
    return span[0] <= figure.start and figure.end <= span[1]


def _has_unit(table: str, unit: str) -> bool:
    units = ("s", "seconds") if unit in ("s", "second", "seconds") else (unit,)
    return not unit or any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", table) for one in units)


def _line(page: str, place: int) -> int:
    return page.count("\n", 0, place) + 1


def _numbers(text: str) -> list[str]:
    return re.findall(rf"-?{NUMBER}", text.replace("−", "-"))
