"""The language of a text, from its script, its function words, and py3langid.

py3langid takes most of a second to load, so it is asked last: a script that one language has decides, and so do
English function words. A text whose language is not clear counts as English, as before languages were recognised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import regex

from denslice.analysis.languages import CODES, ENGLISH, SCRIPTS, is_written_in

READ = 400  # characters
CLEAR = 0.7  # the probability from which on a language is taken for granted
FEWEST_WORDS = 8  # in which function words tell English
# Of function words, from which on a text is English: hardly any other one has so many. Fewer are enough if a part of
# them are words that other languages do not have.
ENGLISH_SHARE, SMALLER_SHARE, OWN_SHARE = 0.15, 0.1, 0.03
# fmt: off
_function_words = frozenset((
    "the", "of", "and", "to", "that", "which", "with", "from", "by", "this", "were", "been", "has", "their", "its",
    "are", "be", "as", "or", "not", "can", "these", "our", "you", "they", "between", "than", "such", "how", "what",
    "who", "where", "when", "why", "does", "is", "was", "for", "it", "have",
))
_own_words = frozenset((
    "the", "and", "that", "which", "with", "from", "this", "were", "been", "their", "these", "they", "between", "than",
    "such", "how", "what", "where", "when", "have",
))
# Languages that py3langid is asked about besides those of CODES, so that their texts are not taken for a relative's;
# zxx is no language. Croatian and Malay are left to Serbian and Indonesian, which it would take them for.
_also_asked = ("nn", "zxx", "is", "sq", "af", "la", "az", "kk", "cy", "tl", "sw")
_not_asked = ("yi", "hr", "ms", "km", "lo", "my", "st")
# fmt: on
_yiddish = re.compile("[\u05f0-\u05f2]|א[\u05b7\u05b8]| און ").search
# Scripts that tell the language, besides those of SCRIPTS.
_told = {
    "Thai": "thai",
    "Lao": "lao",
    "Khmer": "khmer",
    "Myanmar": "burmese",
    "Hangul": "korean",
    "Hiragana": "japanese",
    "Katakana": "japanese",
    "Han": "chinese",
}
_letters = regex.compile("|".join(rf"(?P<{name}>\p{{{name}}})" for name in (*SCRIPTS, *_told))).finditer
_no_letters = bytes(code for code in range(128) if not chr(code).isalpha())
FEWEST_KANA = 0.1  # of the Han characters and kana of a Japanese text
SMALLEST_SHARE = 0.001  # of the passages of a collection; fewer in a language are likely not in it


def recognised(text: str) -> str:
    """Return the language of a text, English if it is not clear."""
    beginning = text[:READ]
    if not beginning.isascii() and _is_of_another_script(beginning):
        return _by_script(beginning)
    return ENGLISH if _has_english_words(beginning) else _by_letters(beginning)


def recognised_among(text: str, counts: Mapping[str, int]) -> list[str]:
    """Return the languages that a query may be in, given how many passages of a collection have each of them.

    If none is clear, they are all that are written in a script of the query.
    """
    fewest = SMALLEST_SHARE * sum(counts.values())
    scripts = _scripts(text[:READ])
    enough = [language for language, count in counts.items() if count >= fewest]
    shared = [language for language in enough if any(is_written_in(language, script) for script in scripts)]
    if len(shared) <= 1:
        return shared or [_by_script(text[:READ]) if _is_of_another_script(text[:READ]) else ENGLISH]
    likely = {language: p for language, p in _probabilities(text[:READ]).items() if language in shared}
    clear = [language for language, p in likely.items() if p >= CLEAR * sum(likely.values())]
    return clear or shared


def _scripts(text: str) -> Counter[str]:
    """Return how many letters of a text are in each script."""
    if text.isascii():
        return Counter({"Latin": 1} if regex.search("[a-zA-Z]", text) else {})
    return Counter(found.lastgroup or "" for found in _letters(text))


def _is_of_another_script(text: str) -> bool:
    """Return whether more than a third of the letters are not Latin."""
    ascii_only = text.encode("ascii", "ignore")
    if 2 * (len(text) - len(ascii_only)) <= len(ascii_only.translate(None, _no_letters)):
        return False  # quick: signs such as dashes and quotes in English texts
    scripts = _scripts(text)
    return scripts.total() - scripts["Latin"] > scripts["Latin"] / 2


def _by_script(text: str) -> str:
    """Return the language of a text most of whose letters are not Latin."""
    scripts = _scripts(text)
    del scripts["Latin"]
    script = max(scripts, key=lambda name: scripts[name])
    if script == "Han" and scripts["Hiragana"] + scripts["Katakana"] >= FEWEST_KANA * scripts.total():
        return "japanese"
    if script in _told:
        return _told[script]
    usual, written = SCRIPTS[script]
    if script == "Hebrew":
        return "yiddish" if _yiddish(text) else usual
    if len(written) == 1:
        return usual
    likely = {language: p for language, p in _probabilities(text).items() if language in written}
    return max(likely, key=lambda language: likely[language], default=usual)


def _has_english_words(text: str) -> bool:
    words = text.lower().split()
    found = list(filter(_function_words.__contains__, words))
    if len(words) < FEWEST_WORDS or len(found) < SMALLER_SHARE * len(words):
        return False
    own = sum(map(_own_words.__contains__, found))
    return len(found) >= ENGLISH_SHARE * len(words) or own >= OWN_SHARE * len(words)


def _by_letters(text: str) -> str:
    """Return the language of a text in Latin letters, English if none is clear."""
    likely = _probabilities(text)
    best = max(likely, key=lambda language: likely[language], default=ENGLISH)
    return best if likely.get(best, 0) >= CLEAR and best in CODES.values() else ENGLISH


def _probabilities(text: str) -> dict[str, float]:
    """Return the probability of each language of a text; those that are not in CODES by their code."""
    if not text.strip():
        return {}
    found: dict[str, float] = {}
    for code, probability in _identifier().rank(text):
        name = "norwegian" if code == "nn" else CODES.get(code, code)
        found[name] = found.get(name, 0.0) + float(probability)
    return found


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([*(code for code in CODES if code not in _not_asked), *_also_asked])
    return identifier
