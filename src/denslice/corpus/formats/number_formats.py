"""Numbers as spreadsheets show them: dates, times and percentages are numbers with a format.

Only what a number means is taken from its format, not how many digits it shows or the order of day and month.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import Enum

DIGITS = 15  # that a spreadsheet keeps of a number
PERCENT_DIGITS = 2  # behind the point
LARGEST_WHOLE = 10**DIGITS
LAST_DAY = 2_958_465  # 9999-12-31
FALSE_LEAP_DAY = 60  # 1900-02-29, which spreadsheets count although it never was
DAYS_TO_1904 = 1462  # between the first days of the two systems of dates
SECONDS = 86_400  # of a day
_literal = re.compile(r'"[^"]*"|\\.|[_*].|\[[^\]hms][^\]]*\]', re.IGNORECASE)
_noon = re.compile(r"am/pm|a/p", re.IGNORECASE)


class NumberKind(Enum):
    """What a number with some format means."""

    PLAIN = "plain"
    PERCENT = "percent"
    DATE = "date"
    DATE_TIME = "date and time"
    TIME = "time"


BUILT_IN = (
    dict.fromkeys((9, 10), NumberKind.PERCENT)
    | dict.fromkeys((14, 15, 16, 17, *range(27, 37), *range(50, 59)), NumberKind.DATE)
    | dict.fromkeys((18, 19, 20, 21, 45, 46, 47), NumberKind.TIME)
    | {22: NumberKind.DATE_TIME}
)  # formats that files name only by number


def kind_of_format(code: str) -> NumberKind:
    """Return what a number with this format means, such as `yyyy-mm-dd` or `0.0%`."""
    first = _literal.sub("", code).partition(";")[0].lower()
    if first in ("general", "standard"):
        return NumberKind.PLAIN
    letters = _noon.sub("h", first)
    has_time = "h" in letters or "s" in letters
    has_date = "y" in letters or "d" in letters or ("m" in letters and not has_time)
    if has_date:
        return NumberKind.DATE_TIME if has_time else NumberKind.DATE
    return NumberKind.TIME if has_time else NumberKind.PERCENT if "%" in letters else NumberKind.PLAIN


def shown_number(number: float, kind: NumberKind = NumberKind.PLAIN, from_1904: bool = False) -> str:
    """Return a number as people see it: whole ones without .0, and dates as in ISO 8601."""
    if kind is NumberKind.PERCENT:
        return f"{shown_number(round(100 * number, PERCENT_DIGITS))}%"
    days = number + DAYS_TO_1904 if from_1904 else number
    if kind is not NumberKind.PLAIN and 0 <= days < LAST_DAY + 1:
        return _time(number) if kind is NumberKind.TIME else _date(days, kind)
    is_whole = abs(number) < LARGEST_WHOLE and number == int(number)
    return str(int(number)) if is_whole else f"{number:.{DIGITS}g}"


def _date(days: float, kind: NumberKind) -> str:
    """Return the date of a number of days; the time only if the format has one and it is not midnight."""
    if days < 1:
        return _time(days)
    first = datetime(1899, 12, 31) if days < FALSE_LEAP_DAY else datetime(1899, 12, 30)
    date = first + timedelta(seconds=min(round(days * SECONDS), SECONDS * (LAST_DAY + 1) - 1))
    is_midnight = not (date.hour or date.minute or date.second)
    return date.date().isoformat() if kind is NumberKind.DATE or is_midnight else date.isoformat(" ")


def _time(days: float) -> str:
    """Return hours, minutes and seconds; there may be more than 24 hours."""
    minutes, seconds = divmod(round(days * SECONDS), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
