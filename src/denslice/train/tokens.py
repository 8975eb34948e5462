"""Texts as token ids: a whole collection in two arrays, and some of its rows padded for the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from denslice.encoders.torch.bi_encoder import WordBatch
from denslice.train.word_texts import WordTexts

TokenIds = npt.NDArray[np.int32]
AT_ONCE = 10_000  # texts given to the tokenizer together
MULTIPLE = 8  # lengths are padded to it, which GPUs like


@dataclass(frozen=True)
class Tokens:
    """The token ids of many texts, one after the other."""

    flat: TokenIds
    starts: npt.NDArray[np.int64]  # (n + 1,)
    words: WordTexts | None = None  # for a model that weighs words

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> TokenIds:
        return self.flat[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[TokenIds]:
        return map(self.__getitem__, range(len(self)))

    def only(self, rows: Sequence[int]) -> Tokens:
        """These rows alone."""
        return joined([self[row] for row in rows], None if self.words is None else self.words.only(rows))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many tokens each text has."""
        return np.diff(self.starts)


@dataclass(frozen=True)
class Padded:
    """Texts of one length, for the model."""

    ids: Tensor  # (n, length) int64
    mask: Tensor  # (n, length) int64, 1 where there is a token
    words: WordBatch | None = None

    def to(self, device: torch.device) -> Padded:
        """The same on another device."""
        words = None if self.words is None else self.words.to(device)
        return Padded(self.ids.to(device, non_blocking=True), self.mask.to(device, non_blocking=True), words)


def token_rows(tokenizer: Any, texts: Sequence[str], length: int) -> list[list[int]]:
    """The token ids of each text with the special tokens, cut at `length`."""
    found = tokenizer(list(texts), truncation=True, max_length=length, return_attention_mask=False)
    rows: list[list[int]] = found["input_ids"]
    return rows


def tokenised(tokenizer: Any, texts: Iterable[str], length: int) -> Tokens:
    """All texts as token ids."""
    parts: list[TokenIds] = []
    sizes: list[int] = []
    remaining = iter(texts)
    while some := list(islice(remaining, AT_ONCE)):
        rows = token_rows(tokenizer, some, length)
        parts.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
        sizes += [len(row) for row in rows]
    flat = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return Tokens(flat, _starts(sizes))


def joined(rows: Sequence[Sequence[int] | TokenIds], words: WordTexts | None = None) -> Tokens:
    """These texts, one after the other."""
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
    return Tokens(flat, _starts([len(row) for row in rows]), words)


def padded_texts(texts: Tokens, pad: int, columns: TokenIds | None = None) -> Padded:
    """All texts in one tensor, and with the words that have a column."""
    found = padded(list(texts), pad)
    if texts.words is None or columns is None:
        return found
    return replace(found, words=texts.words.tensors(columns))


def padded(rows: Sequence[Sequence[int] | TokenIds], pad: int) -> Padded:
    """The rows in one tensor as long as the longest."""
    longest = max((len(row) for row in rows), default=1)
    shape = (len(rows), -(-longest // MULTIPLE) * MULTIPLE)
    ids, mask = np.full(shape, pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return Padded(torch.from_numpy(ids), torch.from_numpy(mask))


def _starts(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
