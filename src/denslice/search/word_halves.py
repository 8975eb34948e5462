"""Words by their halves: one edit leaves the first half of a word as it is, or the second one.

So the words that are one edit away from another are among those of about its length that share a half with it, which
are few, however large the vocabulary is. Only a swap of the two letters in the middle changes both halves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from denslice.search.letter_signatures import BUCKETS, LONG, LetterSignatures
from denslice.store.vocabulary import Piece

WORDS_PER_BUCKET = 128  # on average over all lengths; those of one length are a tenth or less
MOST_BITS = 12  # of the number of a bucket: the tables of where buckets start have at most 1 MiB each

# Words by length and by a hash of one half: 64 bits for each, of which the lower 32 are its position in the piece and
# the upper 32 say which letters it has, as its signature does; and where the words start. Those with n code points and
# the hash h are between starts[n << bits | h] and the next start. Words of LONG or more are left out.
HalfTable = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]
# The tables of first and second halves, 16 bytes a word and those of the starts, and the bits of hashes. Numba takes
# longer to call with named tuples.
WordHalves = tuple[HalfTable, HalfTable, int]


def word_halves(piece: Piece, made: LetterSignatures) -> WordHalves:
    """Return the halves of a piece's words, given their signatures."""
    from denslice.search.cpu.half_search import half_hashes

    bits = min(max(len(made.positions) // WORDS_PER_BUCKET, 1).bit_length() - 1, MOST_BITS)
    lengths = np.repeat(np.arange(LONG + 1, dtype=np.uint32), np.diff(made.starts))
    first, second = half_hashes(made.positions, (piece.letters, piece.starts), bits)
    entries = made.signatures << np.uint64(BUCKETS) | made.positions
    return _table(lengths << bits | first, entries, bits), _table(lengths << bits | second, entries, bits), bits


def _table(keys: npt.NDArray[np.uint32], entries: npt.NDArray[np.uint64], bits: int) -> HalfTable:
    order = np.argsort(keys, kind="stable")
    starts = np.searchsorted(keys[order], np.arange((LONG << bits) + 1, dtype=np.uint32))
    return entries[order], starts.astype(np.uint32)
