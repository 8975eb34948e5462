"""The words of a text as people write them, each in normal form and with its place.

Words follow UAX #29, with their marks, and differ from it where searchers expect it: identifiers, addresses, URLs and
versions are found whole and by their parts; C++, C# and #hashtags are words; an apostrophe ends a word. Scripts without
spaces are cut into n-grams. A word never contains white space, and the words around it do not change it: so a text can
be analysed by its chunks between white space.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import NamedTuple

import regex

from denslice.analysis.normal_forms import normal_form
from denslice.analysis.scripts import LETTERS, LONG_RUNS, SHORT_RUNS, ngram_size

_around = r".,;:!?()\[\]{}'’»"  # signs that end no address
_web = rf"(?:(?:https?|ftp)://|www\.)(?=[{_around}]*[^\s<>\"{_around}])[^\s<>\"]+"
_mail = rf"(?![\p{{M}}.+\-])[{LETTERS}_.+\-]+@[{LETTERS}\-]+(?:\.[{LETTERS}\-]+)+"
_outside = r"(?<![\p{L}\p{N}_]\p{M}*)"
_language = rf"{_outside}[A-Za-z]{{1,2}}(?:\+\+|\#)(?![{LETTERS}_])"
_tag = rf"{_outside}[\#@](?=\p{{L}})[{LETTERS}_]+"
_number = r"(?<![\p{L}\p{N}_])\p{Nd}{1,3}(?:,\p{Nd}{3})+(?![\p{L}\p{N}_]|,\p{N})"
_dotted = rf"_*(?=[\p{{L}}\p{{N}}])[{LETTERS}][{LETTERS}_]*(?:\.[{LETTERS}_]+)*"
_run = rf"(?:(?:[{SHORT_RUNS}]\p{{M}}*)+|(?:[{LONG_RUNS}]\p{{M}}*)+)"
_finds = regex.compile(
    rf"(?V1)(?P<address>{_web}|{_mail})|(?P<tag>{_language}|{_tag})|(?P<number>{_number})|(?P<run>{_run})"
    rf"|(?P<dotted>{_dotted})|\p{{Emoji_Presentation}}"
)
# Where capitals separate words: parse|Date, HTML5|Parser, HTTP|Response, but not ETFs.
_humps = regex.compile(r"(?V1)(?<=\p{Ll})(?=\p{Lu})|(?<=\p{N})(?=\p{Lu}\p{Ll})|(?<=\p{Lu})(?=\p{Lu}\p{Ll}{2})")
_pieces = regex.compile(rf"(?V1)(?=[\p{{L}}\p{{N}}])[{LETTERS}]+|{_run}")
# Two kinds of ASCII words, for which quicker patterns are enough: 0.25 and parseDate.
_is_decimal = re.compile(r"[0-9]+\.[0-9]+%?").fullmatch
_is_camel_case = re.compile(r"[A-Z]?[a-z]+(?:[A-Z][a-z]+)+").fullmatch
_ascii_humps = re.compile(r"[A-Z]?[a-z]+").finditer
_initials = regex.compile(r"(?V1)(?:\p{L}\p{M}*\.)+(?:\p{L}\p{M}*)?")
_has_letter = regex.compile(r"\p{L}").search
_clusters = regex.compile(r"\X")
_after_apostrophe = regex.compile(r"(?<=\p{L}\p{M}*['’ʼ＇])").match
_before_apostrophe = regex.compile(r"['’ʼ＇]\p{L}").match


class WrittenWord(NamedTuple):
    """A word in normal form, and where it is in the text."""

    form: str
    start: int
    end: int


def written_words(text: str) -> list[WrittenWord]:
    """Return the words of a text in order. A word that consists of others is followed by them."""
    if text.isascii() and (quick := _ascii_words(text)):
        return quick
    found: list[WrittenWord] = []
    for match in _finds.finditer(text):
        start, end = match.span()
        match match.lastgroup:
            case "run":
                found += _ngrams(match.group(), start)
            case "address":
                found += _with_parts(match.group().rstrip(".,;:!?()[]{}'’»"), start)
            case "number":
                found.append(WrittenWord(normal_form(match.group()).replace(",", ""), start, end))
            case "dotted":
                found += _dotted_words(text, start, end)
            case "tag":
                found += _with_parts(match.group(), start)
            case _:
                found.append(WrittenWord(match.group(), start, end))
    return found


def _ascii_words(text: str) -> list[WrittenWord]:
    """Return the words of a text of a kind that needs no large pattern, as most are, or none."""
    if text.isalnum():
        if text[1:].islower() or text.isupper() or text.isdigit():
            return [WrittenWord(text.lower(), 0, len(text))]
        if _is_camel_case(text) and not text[1].isupper():
            parts = (WrittenWord(hump.group().lower(), *hump.span()) for hump in _ascii_humps(text))
            return [WrittenWord(text.lower(), 0, len(text)), *parts]
    elif _is_decimal(text):
        form = text.removesuffix("%")
        return [WrittenWord(form, 0, len(form))]
    return []


def _dotted_words(text: str, start: int, end: int) -> list[WrittenWord]:
    """Return an identifier, version, abbreviation or plain word, with its parts."""
    written = text[start:end]
    if len(unicodedata.normalize("NFC", written)) == 1 and _is_elided(text, start, end):
        return []
    form = normal_form(written)
    if form.isalnum() and (written == form or written[1:] == form[1:]):  # a plain word, at most with a capital
        return [WrittenWord(form, start, end)]
    if _initials.fullmatch(written):
        return [WrittenWord(form.replace(".", ""), start, end)]
    return _with_parts(written, start)


def _is_elided(text: str, start: int, end: int) -> bool:
    """Return whether a letter is what an apostrophe leaves of a word, as in dog's and l'amour."""
    return bool(_after_apostrophe(text, start) or _before_apostrophe(text, end))


def _with_parts(written: str, start: int) -> list[WrittenWord]:
    """Return what was written as one word, followed by its parts of at least two characters."""
    whole = WrittenWord(normal_form(written), start, start + len(written))
    if not _has_letter(written):
        return [whole]
    parts = [part for match in _pieces.finditer(written) for part in _parts(match.group(), start + match.start())]
    return [whole, *(part for part in parts if part != whole and (len(part.form) > 1 or len(parts) == 1))]


def _parts(piece: str, start: int) -> list[WrittenWord]:
    """Return the words that capitals separate in a piece of an identifier, or else the piece."""
    if ngram_size(piece):
        return _ngrams(piece, start)
    composed = unicodedata.normalize("NFC", piece)
    spans = list(pairwise([0, *(match.start() for match in _humps.finditer(composed)), len(composed)]))
    if len(spans) == 1 or min(end - begin for begin, end in spans) < 2:
        return [WrittenWord(normal_form(piece), start, start + len(piece))]
    words = [WrittenWord(normal_form(piece), start, start + len(piece))]
    for begin, end in spans:
        place = (start + begin, start + end) if len(composed) == len(piece) else (start, start + len(piece))
        words.append(WrittenWord(normal_form(composed[begin:end]), *place))
    return words


def _ngrams(run: str, start: int) -> list[WrittenWord]:
    """Return the n-grams of a run of a script without spaces, or the run if it is no longer."""
    form, size = normal_form(run), ngram_size(run)
    if len(form) <= size:
        return [WrittenWord(form, start, start + len(run))]
    places = _places(run, form)
    spans = ((at, at + size) for at in range(len(form) - size + 1))
    return [WrittenWord(form[at:end], start + places[at][0], start + places[end - 1][1]) for at, end in spans]


def _places(run: str, form: str) -> list[tuple[int, int]]:
    """Return where each character of the normal form is in the run: by clusters, unless it is the run itself.

    A normal form may have another length, or the marks of a character in another order.
    """
    if run == form:
        return [(at, at + 1) for at in range(len(run))]
    clusters = [(normal_form(match.group()), match.span()) for match in _clusters.finditer(run)]
    places = [span for normal, span in clusters for _ in normal]
    return places if len(places) == len(form) else [(0, len(run))] * len(form)
