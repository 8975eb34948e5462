"""What a page states about itself in its head: title, author, date, language and address. Nothing is guessed."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lxml.html import HtmlElement

TITLES = ("citation_title", "og:title", "dc.title", "dcterms.title", "twitter:title")
AUTHORS = ("citation_author", "author", "dc.creator", "dcterms.creator", "parsely-author", "article:author", "byl")
DATES = (
    *("article:published_time", "og:published_time", "datepublished", "citation_publication_date", "citation_date"),
    *("dc.date.issued", "dcterms.issued", "dcterms.created", "dc.date", "dcterms.date", "pubdate", "parsely-pub-date"),
    *("sailthru.date", "publish-date", "publication_date", "date"),
)
LANGUAGES = ("content-language", "dc.language", "dcterms.language", "og:locale")
MOST_VALUES = 10_000  # of JSON-LD that are looked at
LONGEST, MOST_AUTHORS = 1000, 100  # characters of a value
_day = re.compile(r"\s*(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_language = re.compile(r"\s*([A-Za-z]{2,3})(?![A-Za-z])")


def page_title(tree: HtmlElement) -> str:
    """Return the title that a page gives itself, else its first heading, else nothing."""
    named = _first(_meta(tree), TITLES)
    return named or next((text for tag in ("title", "h1") for text in _texts(tree, tag)), "")


def page_metadata(tree: HtmlElement) -> dict[str, Any]:
    """Return the fields that a page states: `author`, a name or a list of names, `date`, `language` and `url`."""
    meta, linked = _meta(tree), _linked_data(tree)
    link = tree.xpath("string(//link[@rel='canonical']/@href)").strip() or _first(meta, ("og:url",))
    fields = {
        "author": one_or_list(_authors(meta) or _names(linked.get("author"))),
        "date": iso_day(_first(meta, DATES)) or iso_day(linked.get("datePublished")) or iso_day(_marked_time(tree)),
        "language": iso_language(tree.get("lang") or tree.get("xml:lang") or _first(meta, LANGUAGES)),
        "url": link if link.startswith(("http://", "https://")) else "",
    }
    return {name: value for name, value in fields.items() if value}


def one_or_list(names: Sequence[str]) -> str | list[str]:
    """Return a single name as it is, and several as a list, each once."""
    several = list(dict.fromkeys(names))
    return several[0] if len(several) == 1 else several


def iso_day(text: object) -> str:
    """Return the day at the beginning of a text as ISO 8601, or nothing if there is none."""
    found = _day.match(text) if isinstance(text, str) else None
    try:
        return date(*map(int, found.groups())).isoformat() if found else ""
    except ValueError:
        return ""


def iso_language(text: str) -> str:
    """Return the language of a tag such as `en-GB`, without the region."""
    found = _language.match(text)
    return found[1].lower() if found else ""


def _meta(tree: HtmlElement) -> dict[str, list[str]]:
    """Return the values of the meta elements of a page by name, in lower case."""
    found: dict[str, list[str]] = {}
    for element in tree.iter("meta"):
        name = next(
            (element.get(key) for key in ("name", "property", "itemprop", "http-equiv") if element.get(key)), ""
        )
        value = " ".join(element.get("content", "").split())[:LONGEST]
        if value:
            found.setdefault(name.lower(), []).append(value)
    return found


def _first(meta: dict[str, list[str]], names: tuple[str, ...]) -> str:
    return next((meta[name][0] for name in names if name in meta), "")


def _authors(meta: dict[str, list[str]]) -> list[str]:
    """Return the names of the authors; some pages give the address of a page about them instead."""
    found = ([name for name in meta.get(key, ()) if not name.startswith("http")] for key in AUTHORS)
    return next(filter(None, found), [])[:MOST_AUTHORS]


def _texts(tree: HtmlElement, tag: str) -> Iterator[str]:
    return filter(None, (" ".join("".join(element.itertext()).split())[:LONGEST] for element in tree.iter(tag)))


def _marked_time(tree: HtmlElement) -> str:
    times = "//time[@pubdate or @itemprop='datePublished']/@datetime"
    return str(tree.xpath(f"string({times})"))


def _linked_data(tree: HtmlElement) -> dict[str, Any]:
    """Return the first object of the page's JSON-LD that has a date of publication, or nothing."""
    for script in tree.iterfind(".//script[@type='application/ld+json']"):
        try:
            outer = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        for value in islice(_inner_values(outer), MOST_VALUES):
            if isinstance(value, dict) and "datePublished" in value:
                return value
    return {}


def _inner_values(outer: Any) -> Iterator[Any]:
    """Yield a value and what it holds, level by level."""
    values = deque([outer])
    while values:
        value = values.popleft()
        yield value
        values += value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _names(author: object) -> list[str]:
    """Return the names in the author of JSON-LD: a name, an object that has one, or a list of these."""
    found = author if isinstance(author, list) else [author]
    names = (one.get("name") if isinstance(one, dict) else one for one in found[:MOST_AUTHORS])
    return [_clean(name) for name in names if isinstance(name, str) and not name.startswith("http")]


def _clean(name: str) -> str:
    """Return a name on one line, without halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return " ".join(name[:LONGEST].encode("utf-8", "replace").decode("utf-8").split())
