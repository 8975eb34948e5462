"""What a file says about itself: a title that is one, and metadata as other files have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

# What programs write if nobody gave a title: the name of a file, of a program, or of nothing.
_no_title = re.compile(
    r"(?:.*\.(?:docx?|dotx?|odt|rtf|pptx?|odp|xlsx?|ods|pdf|ps|eps|dvi|tex|indd|qxd|pages|key|pub|wpd|html?|txt|md)"
    r"|microsoft (?:word|powerpoint|excel|publisher)\b.*|powerpoint[- ]pr\w+|\W*untitled\W*\d*|unbenannt\W*\d*"
    r"|document\W*\d*|dokument\W*\d*|(?:slide|folie|sheet|book|presentation|präsentation)\W*\d+|\(?anonymous\)?)",
    re.IGNORECASE | re.DOTALL,
)
_pdf_date = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-]\d\d)'?(\d\d)?)?", re.ASCII)
_partial_date = re.compile(r"\d{4}(?:-\d\d){0,2}", re.ASCII)


def own_title(given: str) -> str:
    """Return the title in the properties of a file, or nothing if a program wrote it there."""
    title = " ".join(given.split())
    return "" if _no_title.fullmatch(title) else title


def own_metadata(author: str, date: str, language: str) -> Mapping[str, str]:
    """Return the metadata that are known; a date that is none is left out."""
    known = {"author": " ".join(author.split()), "date": iso_date(date), "language": language.strip()}
    return {name: value for name, value in known.items() if value}


def iso_date(given: str) -> str:
    """Return a date of ISO 8601: in UTC if its time zone is known, and as it is if it is only a year, month or day.

    Return nothing if it is not a date.
    """
    given = given.strip()
    if _partial_date.fullmatch(given) and _is_date(f"{given}-01-01"[:10]):
        return given
    try:
        date = datetime.fromisoformat(given)
    except ValueError:
        return ""
    if date.tzinfo is None:
        return date.strftime("%Y-%m-%dT%H:%M:%S")
    try:
        return date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:  # a zone that leads before year 1
        return ""


def date_of_pdf(given: str) -> str:
    """Return a date of PDF, such as D:20160713165736-07'00', as one of ISO 8601; nothing if it is none."""
    match = _pdf_date.match(given.strip())
    if not match:
        return ""
    year, month, day, hour, minute, second, utc, zone, zone_minutes = match.groups()
    if hour is None:
        return iso_date("-".join(part for part in (year, month, day) if part))
    offset = "Z" if utc else f"{zone}:{zone_minutes or '00'}" if zone else ""
    return iso_date(f"{year}-{month}-{day}T{hour}:{minute or '00'}:{second or '00'}{offset}")


def _is_date(given: str) -> bool:
    try:
        datetime.fromisoformat(given)
    except ValueError:
        return False
    return True
