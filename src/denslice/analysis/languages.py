"""Languages: their names, ISO codes, scripts and stemmers.

A language is called by its English name, as Snowball does, and may be given by its ISO 639-1 code too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import regex
import Stemmer

from denslice.errors import InputError

STEMMERS: dict[str, Callable[[str], str]] = {"none": str}  # by language, beside those of Snowball
ENGLISH = "english"

# fmt: off
CODES = {
    "ar": "arabic", "be": "belarusian", "bg": "bulgarian", "ca": "catalan", "cs": "czech", "da": "danish",
    "de": "german", "el": "greek", "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian",
    "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "he": "hebrew", "hi": "hindi",
    "hr": "croatian", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "ja": "japanese",
    "km": "khmer", "ko": "korean", "lo": "lao", "lt": "lithuanian", "lv": "latvian", "mk": "macedonian",
    "mr": "marathi", "ms": "malay", "my": "burmese", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sk": "slovak", "sl": "slovenian",
    "sr": "serbian", "st": "sesotho", "sv": "swedish", "ta": "tamil", "th": "thai", "tr": "turkish",
    "uk": "ukrainian", "ur": "urdu", "vi": "vietnamese", "yi": "yiddish", "zh": "chinese",
}
# fmt: on

# For each script that a stemmer is for: the language that its words have in texts of other scripts, and all languages.
SCRIPTS = {
    "Latin": (ENGLISH, frozenset[str]()),  # every language that no other script has, and Serbian
    "Cyrillic": ("russian", frozenset({"belarusian", "bulgarian", "macedonian", "russian", "serbian", "ukrainian"})),
    "Arabic": ("arabic", frozenset({"arabic", "persian", "urdu"})),
    "Devanagari": ("hindi", frozenset({"hindi", "marathi", "nepali"})),
    "Greek": ("greek", frozenset({"greek"})),
    "Armenian": ("armenian", frozenset({"armenian"})),
    "Hebrew": ("hebrew", frozenset({"hebrew", "yiddish"})),
    "Tamil": ("tamil", frozenset({"tamil"})),
}
_OTHER_SCRIPTS = frozenset({"burmese", "chinese", "japanese", "khmer", "korean", "lao", "thai"})
_script = regex.compile("|".join(rf"(?P<{name}>\p{{{name}}})" for name in SCRIPTS)).search


def known_languages() -> list[str]:
    """Return the names of all languages that an index can be told."""
    return sorted({*CODES.values(), *Stemmer.algorithms(), *STEMMERS})


def language_named(given: str) -> str:
    """Return the language with this name or ISO code; raise InputError if it is not known."""
    name = CODES.get(given.lower(), given.lower()) if isinstance(given, str) else given
    if name not in known_languages():
        codes = ", ".join(f"{code} ({name})" for code, name in sorted(CODES.items()))
        raise InputError(f"language {given!r} is not known; give a code or a name of these: {codes}, or none")
    return name


def script_of(word: str) -> str | None:
    """Return the script of the first letter of a word whose script has a stemmer."""
    if word.isascii():
        return "Latin"
    found = _script(word)
    return found.lastgroup if found else None


def language_of_word(word: str, language: str) -> str | None:
    """Return the language whose stemmer a word takes in a text of some language: one that has the word's script."""
    script = script_of(word)
    if script is None or language in STEMMERS:
        return None if script is None else language
    usual, _ = SCRIPTS[script]
    return language if is_written_in(language, script) else usual


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """Return the stemmer of a language, which returns words unchanged if there is none."""
    if language in STEMMERS:
        return STEMMERS[language]
    if language not in Stemmer.algorithms():
        return str
    snowball: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord  # 0: without its own cache
    return snowball


@cache
def is_written_in(language: str, script: str) -> bool:
    """Return whether a language is written in a script that stemmers are for."""
    others = _OTHER_SCRIPTS.union(*(written for name, (_, written) in SCRIPTS.items() if name != "Latin"))
    if script == "Latin":
        return language == "serbian" or language not in others
    return script in SCRIPTS and language in SCRIPTS[script][1]
