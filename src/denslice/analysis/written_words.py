"""The words of a text as people write them, each in normal form and with its place.

Words follow UAX #29, with their marks, and differ from it where searchers expect it: identifiers, addresses, URLs and
versions are found whole and by their parts; C++, C# and #hashtags are words; an apostrophe ends a word. Scripts without
spaces are cut into n-grams. A word never contains white space, and the words around it do not change it: so a text can
be analysed by its chunks between white space.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import NamedTuple

import regex

from denslice.analysis.normal_forms import normal_form
from denslice.analysis.scripts import LETTERS, LONG_RUNS, SHORT_RUNS, ngram_size

_address = rf"(?:https?|ftp)://[^\s<>\"]+|www\.[^\s<>\"]+|(?![\p{{M}}.+\-])[{LETTERS}_.+\-]+@[{LETTERS}\-]+(?:\.[{LETTERS}\-]+)+"
_language = rf"(?<![{LETTERS}_])\p{{Latin}}{{1,2}}(?:\+\+|\#)(?![{LETTERS}_])"
_tag = rf"(?<![{LETTERS}_])[\#@](?=\p{{L}})[{LETTERS}_]+"
_number = r"(?<![\p{L}\p{N}_.,])\p{Nd}{1,3}(?:,\p{Nd}{3})+(?![\p{L}\p{N}_,])"
_dotted = rf"_*(?=[\p{{L}}\p{{N}}])[{LETTERS}][{LETTERS}_]*(?:\.[{LETTERS}_]+)*"
_run = rf"(?:[{SHORT_RUNS}]+|[{LONG_RUNS}]+)"
_finds = regex.compile(
    rf"(?V1)(?P<address>{_address})|(?P<tag>{_language}|{_tag})|(?P<number>{_number})|(?P<run>{_run})"
    rf"|(?P<dotted>{_dotted})|\p{{Emoji_Presentation}}"
)
_humps = regex.compile(r"(?V1)(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll}{2})")  # not in ETFs
_pieces = regex.compile(rf"(?V1)(?=[\p{{L}}\p{{N}}])[{LETTERS}]+|{_run}")
_initials = regex.compile(r"(?V1)(?:\p{L}\.)+\p{L}?")
_has_letter = regex.compile(r"\p{L}").search
_clusters = regex.compile(r"\X")
_after_apostrophe = regex.compile(r"[\p{L}\p{M}]['’ʼ＇]").fullmatch
_before_apostrophe = regex.compile(r"['’ʼ＇]\p{L}").fullmatch


class WrittenWord(NamedTuple):
    """A word in normal form, and where it is in the text."""

    form: str
    start: int
    end: int


def written_words(text: str) -> list[WrittenWord]:
    """Return the words of a text in order. A word that consists of others is followed by them."""
    found: list[WrittenWord] = []
    for match in _finds.finditer(text):
        start, end = match.span()
        match match.lastgroup:
            case "run":
                found += _ngrams(match.group(), start)
            case "address":
                found += _with_parts(match.group().rstrip(".,;:!?)]}'’»"), start)
            case "number":
                found.append(WrittenWord(normal_form(match.group()).replace(",", ""), start, end))
            case "dotted":
                found += _dotted_words(text, start, end)
            case "tag":
                found += _with_parts(match.group(), start)
            case _:
                found.append(WrittenWord(match.group(), start, end))
    return found


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
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    return bool(_after_apostrophe(before) or _before_apostrophe(after))


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
    """Return where each character of the normal form is in the run: by clusters, if they have other lengths."""
    if len(run) == len(form):
        return [(at, at + 1) for at in range(len(run))]
    clusters = [(normal_form(match.group()), match.span()) for match in _clusters.finditer(run)]
    places = [span for normal, span in clusters for _ in normal]
    return places if len(places) == len(form) else [(0, len(run))] * len(form)
