"""The encoding of a text that is not Unicode: the one in which it looks most like a language that is written in it.

The letters of a language beyond ASCII are few, and those in a text are mostly the frequent ones. In a wrong encoding
they become letters of other languages, marks within words, capitals after small letters, or rare characters.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

SAMPLE_BYTES = 4096
LAST_LATIN = "\u024f"
REPLACEMENT = "\ufffd"
MARKS = frozenset("“”‘’„‚–—…«»‹›€£§°©®™·•¿¡ºª×\u00a0、。，：「」（）")
WITHIN_WORDS = frozenset("’·")
FREQUENT = 10  # letters of an alphabet
USUAL = "cp1252"  # also Latin-1, which has control characters in place of quotes
ENOUGH, LONG = 3, 1000  # fewer bytes beyond ASCII in a text of more bytes are taken for the usual ones or mistakes

_beyond_ascii = re.compile(r"[^\0-\x7f]")


class Script(NamedTuple):
    """The letters of a language beyond ASCII, most frequent first, and the encodings it is written in, likewise.

    Of Chinese and Korean, only very frequent characters are listed. `level` are the first bytes of all that are in the
    first level of a standard, which has the frequent ones.
    """

    encodings: tuple[str, ...]
    letters: str
    level: range | None = None


WESTERN = ("cp1252", "mac_roman", "cp850")
CENTRAL = ("cp1250", "iso8859_2")
CYRILLIC = ("cp1251", "koi8_r", "cp866", "iso8859_5")
KANA = "".join(map(chr, range(0x3041, 0x30FF)))
SCRIPTS = (
    Script(WESTERN, "éèàçêùôîâûëïœæü"),  # French
    Script(WESTERN, "äöüß"),
    Script(WESTERN, "óáéíñúü"),  # Spanish
    Script(WESTERN, "àèéìòù"),  # Italian
    Script(WESTERN, "ãçáéíóõâêúàô"),  # Portuguese
    Script(WESTERN, "åäöé"),  # Swedish, Finnish
    Script(WESTERN, "øåæé"),  # Danish, Norwegian
    Script(WESTERN, "ëéïöü"),  # Dutch
    Script(WESTERN, "àéèóíçòúïü·"),  # Catalan
    Script(WESTERN, "íáðþéóöúæý"),  # Icelandic
    Script(CENTRAL, "óąęłśżćńź"),  # Polish
    Script(CENTRAL, "íáéěřčžýšůúťďňó"),  # Czech
    Script(CENTRAL, "áíéčúýžšľťňôóäďŕĺ"),  # Slovak
    Script(CENTRAL, "áéöőóíüúű"),  # Hungarian
    Script(CENTRAL, "čšžćđ"),  # Slovene, Croatian
    Script(CENTRAL, "ăîşţâ"),  # Romanian
    Script(("cp1254",), "ışüöçğİ"),  # Turkish
    Script(("cp1257",), "äõüöšž"),  # Estonian
    Script(("cp1257",), "ėšųįžąčęū"),  # Lithuanian
    Script(("cp1257",), "āīšēģņļūžčķ"),  # Latvian
    Script(CYRILLIC, "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"),  # Russian, Bulgarian
    Script(("cp1251", "koi8_u"), "оаниіврвтеслкдмупязьбгчйюжхцїєшщфґ"),  # Ukrainian
    Script(("cp1251",), "аоиенртсквдупмљзгбњшјчћжцђхџф"),  # Serbian
    Script(("cp1253",), "αοιετσνηυρπκλμςωίάόδέγήύχώθφβξζψϊϋΐ"),
    Script(("cp1255",), "יוהלאמתרבשנדקעחטפכםצןגזסךץף"),
    Script(("cp1256",), "اليمنترعبدسهةفحكقجأشوطصخىضغزإذثءظئآؤ،"),
    Script(("cp874",), "นารก่อเง้มยลวดทสตะีปัิบคหจ็พใชแไขุูื์ผโึซศถฟษธญภณฉำฐๆฎ"),
    Script(("cp932",), KANA, range(0x88, 0x98)),
    Script(("euc_jp",), KANA, range(0xB0, 0xD0)),
    Script(
        ("gb18030",),
        "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会可用文",
        range(0xB0, 0xD8),
    ),
    Script(
        ("big5",),
        "的一是不了在人有我他這中大來上國個到說們為子和你地出道也時年得就那要下以生會可用文",
        range(0xA4, 0xC7),
    ),
    Script(
        ("cp949",), "이다의는에을를가은로고하지한서기도니습사자시인일정어스리그나대수해보있아부제", range(0xB0, 0xC9)
    ),
)
WRITTEN = [(script, encoding) for script in SCRIPTS for encoding in script.encodings]


class SeenCharacter(NamedTuple):
    """A character beyond ASCII, and what is beside it."""

    character: str
    is_after_small: bool
    is_within_word: bool
    is_beside_ascii: bool  # letters


def legacy_encoding(raw: bytes) -> str | None:
    """Return the most likely encoding of a text with bytes beyond ASCII, or None if it looks like no language."""
    sample = b"\n".join(line for line in raw.split(b"\n") if not line.isascii())[:SAMPLE_BYTES]
    seen = {encoding: _seen(sample.decode(encoding, errors="replace")) for encoding in {one for _, one in WRITTEN}}
    is_stray = seen[USUAL].total() < ENOUGH and len(raw) > LONG
    possible = [(script, encoding) for script, encoding in WRITTEN if encoding == USUAL or not is_stray]
    found = ((_likeness(seen[encoding], script, encoding), encoding) for script, encoding in possible)
    likeness, encoding = max(found, key=lambda one: one[0])  # the first of the best
    return encoding if likeness > 0 else None


def _seen(text: str) -> Counter[SeenCharacter]:
    """Count the characters beyond ASCII of a text."""
    places = (found.start() for found in _beyond_ascii.finditer(text))
    return Counter(_seen_at(text[at], text[at - 1 : at], text[at + 1 : at + 2]) for at in places)


def _seen_at(character: str, before: str, after: str) -> SeenCharacter:
    is_beside_ascii = any(one.isascii() and one.isalpha() for one in (before, after))
    return SeenCharacter(character, before.islower(), before.isalpha() and after.isalpha(), is_beside_ascii)


def _likeness(seen: Counter[SeenCharacter], script: Script, encoding: str) -> float:
    """Return how much a text looks like a language, from -2 to 1; the shorter it is, the more counts what is usual."""
    usual = 0.6 if encoding == USUAL else 0.3 if encoding == script.encodings[0] else 0.0
    fit = sum(count * _fit(one, script, encoding) for one, count in seen.items())
    return (fit + usual) / (seen.total() + 1)


def _fit(seen: SeenCharacter, script: Script, encoding: str) -> float:
    character = seen.character
    at = script.letters.find(character)
    if character == REPLACEMENT:
        return -2
    if script.level:
        return 1 if at >= 0 else 0.4 if character in MARKS or _is_in_level(character, script.level, encoding) else -0.5
    if character > LAST_LATIN and character not in MARKS and seen.is_beside_ascii:
        return -1
    if at >= 0:
        return 1 if at < FREQUENT else 0.5
    if character in MARKS:
        return -1 if seen.is_within_word and character not in WITHIN_WORDS else 0.4
    return 0.6 if character.lower() in script.letters and not seen.is_after_small else -1


def _is_in_level(character: str, level: range, encoding: str) -> bool:
    first, *others = character.encode(encoding)
    return first in level and len(others) == 1 and (encoding in ("cp932", "big5") or others[0] > 0xA0)
