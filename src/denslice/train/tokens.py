"""Texts as token ids: a whole collection in two arrays, and batches of its rows padded for the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from denslice.encoders.torch.bi_encoder import WordBatch
from denslice.encoders.word_pieces import LocatedWords, occurrences

TokenArray = npt.NDArray[np.int32]
TokenRows = Sequence[Sequence[int] | TokenArray]
TOKENIZER_BATCH = 10_000  # texts
MULTIPLE = 8  # padded lengths are multiples of this, for the matrix units of GPUs


@dataclass(frozen=True)
class Tokens:
    """The token ids of many texts, one after the other."""

    flat: TokenArray
    starts: npt.NDArray[np.int64]  # (n + 1,)
    words: WordTexts | None = None  # for a model that weights words

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> TokenArray:
        return self.flat[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[TokenArray]:
        return map(self.__getitem__, range(len(self)))

    def only(self, rows: Sequence[int]) -> Tokens:
        """Return these rows only."""
        chosen = np.fromiter(rows, dtype=np.int64)
        sizes = self.lengths[chosen]
        starts = _starts(sizes)
        places = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], sizes)  # in `flat`
        return Tokens(self.flat[places], starts, None if self.words is None else self.words.only(rows))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of tokens of each text."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class WordTexts:
    """The words of some texts; their word pieces are in `Tokens`."""

    side: int  # DOCS or QUERIES
    weights: sp.csr_array  # (n, vocabulary) BM25 weights, columns sorted
    found: Sequence[LocatedWords]  # (n,)

    def only(self, rows: Sequence[int]) -> WordTexts:
        """Return these texts only."""
        return WordTexts(self.side, self.weights[list(rows)], [self.found[row] for row in rows])

    def columns(self) -> TokenArray:
        """Return the words that occur, sorted."""
        return np.unique(self.weights.indices)

    def tensors(self, columns: TokenArray) -> WordBatch:
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


@dataclass(frozen=True)
class Padded:
    """Texts of one length, for the model."""

    ids: Tensor  # (n, length) int64
    mask: Tensor  # (n, length) int64, 1 where there is a token
    words: WordBatch | None = None

    def to(self, device: torch.device) -> Padded:
        """Return a copy on another device."""
        words = None if self.words is None else self.words.to(device)
        return Padded(self.ids.to(device, non_blocking=True), self.mask.to(device, non_blocking=True), words)


def token_rows(tokenizer: Any, texts: Sequence[str], length: int) -> list[list[int]]:
    """Return the token ids of each text with the special tokens, truncated to `length`."""
    found = tokenizer(list(texts), truncation=True, max_length=length, return_attention_mask=False)
    return list(found["input_ids"])


def tokenised(tokenizer: Any, texts: Iterable[str], length: int) -> Tokens:
    """Tokenise all texts, in batches."""
    parts: list[TokenArray] = []
    sizes: list[int] = []
    remaining = iter(texts)
    while some := list(islice(remaining, TOKENIZER_BATCH)):
        rows = token_rows(tokenizer, some, length)
        parts.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
        sizes += [len(row) for row in rows]
    flat = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return Tokens(flat, _starts(sizes))


def joined(rows: TokenRows, words: WordTexts | None = None) -> Tokens:
    """Concatenate the token ids of these texts."""
    return Tokens(_flat(rows), _starts([len(row) for row in rows]), words)


def padded_texts(texts: Tokens, pad: int, columns: TokenArray | None = None) -> Padded:
    """Pad all texts to one tensor, with the words that have a column."""
    found = _padded(texts.flat, texts.lengths, pad)
    if texts.words is None or columns is None:
        return found
    return replace(found, words=texts.words.tensors(columns))


def padded(rows: TokenRows, pad: int) -> Padded:
    """Pad the rows to one tensor of the longest row's length, rounded up to MULTIPLE."""
    return _padded(_flat(rows), np.array([len(row) for row in rows], dtype=np.int64), pad)


def _padded(flat: TokenArray, sizes: npt.NDArray[np.int64], pad: int) -> Padded:
    """Pad texts that stand one after the other, all at once: a loop over rows would hold up the training step."""
    longest = int(sizes.max(initial=1))
    width = -(-longest // MULTIPLE) * MULTIPLE
    mask = np.arange(width) < sizes[:, None]  # (n, width)
    ids = np.full(mask.shape, pad, dtype=np.int64)
    ids[mask] = flat
    return Padded(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))


def _flat(rows: TokenRows) -> TokenArray:
    return np.concatenate([np.asarray(row, dtype=np.int32) for row in rows] or [np.zeros(0, np.int32)])


def _starts(sizes: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
