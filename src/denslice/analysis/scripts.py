"""Scripts: which letters make words, and which scripts are written without spaces between words."""

from __future__ import annotations

import regex

# Runs of these are cut into n-grams: pairs of Han, kana and Hangul, triples of the scripts of South-East Asia.
# The extra ones are marks and signs that belong to no script alone.
SHORT_RUNS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\u3005-\u3007\u3099\u309a\u30fc\uff70\uff9e\uff9f"
LONG_RUNS = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
# Letters, marks and digits of all other scripts, and joiners within words; for use within [] in patterns of version 1.
LETTERS = rf"[[\p{{L}}\p{{M}}\p{{N}}\u00ad\u200c\u200d\u2060]--[{SHORT_RUNS}{LONG_RUNS}]]"

_short = regex.compile(rf"(?V1)[{SHORT_RUNS}]").match
_long = regex.compile(rf"(?V1)[{LONG_RUNS}]").match
PAIR, TRIPLE = 2, 3


def ngram_size(word: str) -> int:
    """Return the size of the n-grams into which words of this script are cut, or 0 if they are not."""
    if word.isascii():
        return 0
    return PAIR if _short(word) else TRIPLE if _long(word) else 0
