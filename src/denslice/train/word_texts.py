"""The words of texts, for a model that weights words: BM25 weights and the word pieces that each word covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from denslice.encoders.torch.bi_encoder import WordBatch
from denslice.encoders.word_pieces import LocatedWords, occurrences


@dataclass(frozen=True)
class WordTexts:
    """The words of some texts; their word pieces are in `Tokens`."""

    side: int  # DOCS or QUERIES
    weights: sp.csr_array  # (n, vocabulary) BM25 weights, columns sorted
    found: Sequence[LocatedWords]  # (n,)

    def only(self, rows: Sequence[int]) -> WordTexts:
        """Return these texts only."""
        return WordTexts(self.side, self.weights[list(rows)], [self.found[row] for row in rows])

    def columns(self) -> npt.NDArray[np.int32]:
        """Return the words that occur, sorted."""
        return np.unique(self.weights.indices)

    def tensors(self, columns: npt.NDArray[np.int32]) -> WordBatch:
        """Return the tensors that the model takes, with a column for each of these words and no other."""
        where = occurrences(self.weights, self.found)
        rows = np.repeat(np.arange(len(self.found)), np.diff(self.weights.indptr))  # (entries,)
        places = np.searchsorted(columns, self.weights.indices).clip(max=len(columns) - 1)
        kept = columns[places] == self.weights.indices if len(columns) else np.zeros(len(rows), np.bool_)
        numbers = np.cumsum(kept) - 1  # the new position of each kept entry
        there = kept[where.entries]
        entries = (rows[kept], places[kept], self.weights.data[kept])
        spans = (where.texts[there], numbers[where.entries[there]], where.first[there], where.end[there])
        return WordBatch(self.side, len(columns), *map(torch.from_numpy, (*entries, *spans)))
