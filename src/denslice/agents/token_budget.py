"""How many tokens a text costs the model that reads it, and how much of something fits a budget.

Every model has its own tokenizer, so tokens are estimated from bytes of UTF-8. For English prose the estimate is on the
side of too many, as a token has four bytes or more. For other scripts it depends on the model, and can be too few.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

BYTES_PER_TOKEN = 3.5
USUAL_TOKENS = 4_000  # of an answer, if nobody says otherwise
FEWEST_TOKENS = 200  # with fewer, not even the place of a passage fits
MOST_TOKENS = 100_000


def tokens_of(text: str) -> int:
    """Return the estimate of a text's tokens."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def most(up_to: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 0 to `up_to` that fits. If a number fits, so do those below it; 0 always does."""
    return bisect_left(range(1, up_to + 1), True, key=lambda number: not fits(number))


def most_characters(tokens: int) -> int:
    """Return how many characters a text that fits may have at most."""
    return int(tokens * BYTES_PER_TOKEN)
