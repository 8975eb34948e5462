"""Ready vectors: the weights that another model gave each text, which the index takes as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from denslice.errors import InputError
from denslice.scalars import whole_number
from denslice.store.vocabulary import ABSENT, WordIds
from denslice.vectors import Encoded, Phrases, csr


@dataclass(frozen=True)
class VectorsConfig:
    """With `vocab`, tokens are column numbers below it; without it they are words, and the vocabulary grows."""

    vocab: int | None = None

    def __post_init__(self) -> None:
        if self.vocab is not None:  # JSON holds Python's numbers and not numpy's
            object.__setattr__(self, "vocab", whole_number("vocab", self.vocab, 1))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> VectorsConfig:
        """Return the settings of a JSON object."""
        if set(settings) - {"vocab"}:
            raise InputError(f"vectors has no setting {', '.join(sorted(set(settings) - {'vocab'}))}; it has vocab")
        return cls(**settings)


class ReadyVectors:
    """Turns `{token: weight}` into CSR rows, whose columns are ids of the vocabulary or the tokens' numbers."""

    lam = 1.0
    uses_idf = False
    reads = "vector"
    batch_docs = 2_048
    has_model = False

    def __init__(self, config: VectorsConfig, words: WordIds) -> None:
        self.config = config
        self.words = words

    def encode_docs(self, vectors: Sequence[Mapping[str, float]]) -> Encoded:
        """Return the vectors as CSR; new tokens are placed in the vocabulary."""
        return self._rows(vectors, self._column if self.config.vocab else self.words.place)

    def encode_queries(self, vectors: Sequence[Mapping[str, float]]) -> Encoded:
        """Return the vectors as CSR; tokens that the index does not have are dropped."""
        return self._rows(vectors, self._column if self.config.vocab else self.words.find)

    def quick(self) -> ReadyVectors:
        """Return itself: there is no quicker way."""
        return self

    def text_lengths(self, texts: Sequence[str]) -> None:
        """Return None: vectors have no length."""

    def token(self, id: int) -> str:
        """Return the token with this id: a word or a column number."""
        return str(id) if self.config.vocab else self.words.word(id)

    def word_ids(self, word: str) -> None:
        """Return None: tokens do not tell which documents have a word."""

    def phrases(self, text: str) -> Phrases:
        """Return no phrases: every token is a word or a column."""
        return {}

    def _rows(self, vectors: Sequence[Mapping[str, float]], column: Any) -> Encoded:
        rows, columns, weights = [], [], []
        for row, vector in enumerate(vectors):
            for token, weight in vector.items():
                if (at := column(token)) != ABSENT:
                    rows.append(row)
                    columns.append(at)
                    weights.append(weight)
        shape = (len(vectors), self.config.vocab or len(self.words))
        matrix = csr((np.array(weights, dtype=np.float32), (rows, columns)), shape)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return Encoded(matrix)

    def _column(self, token: str) -> int:
        vocab = self.config.vocab or 0
        if not (token.isascii() and token.isdigit() and int(token) < vocab):
            raise InputError(f"token {token!r} is not a column of this index, which are 0 to {vocab - 1:,}")
        return int(token)
