"""The texts that a model is taught with: given ones, sentences of them, and crops of every length."""

from __future__ import annotations

import lzma
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np

PARAGRAPH = 20  # words: longer texts have sentences that are used alone
CROPPED = 12  # words: from longer texts windows are drawn
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(A-Z0-9])")


def read_lines(path: Path) -> list[str]:
    """Return the texts of a file, one on each line; it may be compressed (.xz)."""
    raw = path.read_bytes()
    text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def varied(texts: Sequence[str], crops: int, seed: int) -> list[str]:
    """Return the texts, two sentences of each long one, and crops of each; no text twice.

    What becomes of a text depends on it and on the seed alone.
    """
    found: dict[str, None] = {}
    for text in texts:
        rng = np.random.default_rng([seed, crc32(text.encode())])
        found[text] = None
        words = text.split()
        if len(words) > PARAGRAPH:
            sentences = [one for one in SENTENCE_END.split(text) if 4 <= len(one.split()) <= 120]
            found |= dict.fromkeys(sentences[at] for at in rng.permutation(len(sentences))[:2])
        found |= dict.fromkeys(cropped(words, crops, rng))
    return list(found)


def cropped(words: Sequence[str], count: int, rng: np.random.Generator) -> Iterator[str]:
    """Yield windows of a text, with lengths that are even in the logarithm; some lose words, some their capitals."""
    is_long = len(words) >= CROPPED
    for _ in range(count):
        kept = list(words)
        if is_long:
            size = round(math.exp(rng.uniform(math.log(4), math.log(0.8 * len(words)))))
            begin = int(rng.integers(0, len(words) - size + 1))
            kept = list(words[begin : begin + size])
        if len(kept) >= 4 and rng.random() < (0.3 if is_long else 0.5):
            stays = rng.random(len(kept)) > rng.uniform(0.1, 0.4)
            kept = [word for word, stay in zip(kept, stays, strict=True) if stay]
        if len(kept) >= 2 and (is_long or len(kept) < len(words)):
            text = " ".join(kept)
            yield text.lower().rstrip(".?!") if rng.random() < 0.3 else text
