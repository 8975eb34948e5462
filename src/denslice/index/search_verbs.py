"""SearchVerbs: the methods of an Index or a Cluster that search the commit it shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
import numpy.typing as npt

from denslice.encoders.text_embedder import TextEmbedder
from denslice.errors import InputError
from denslice.index.asked import Asked
from denslice.index.index_info import IndexInfo
from denslice.index.reader import Reader
from denslice.options import SearchKeywords, SearchOptions, takes
from denslice.queries import Query
from denslice.rankings import Explanation, Ranking
from denslice.records import Doc, Place, given_id
from denslice.vectors import is_sparse

if TYPE_CHECKING:
    import scipy.sparse as sp


class SearchVerbs(ABC):
    """The methods that search and explain. Each call uses one reader, and so shows one commit."""

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """The reader of the commit that is shown."""

    @abstractmethod
    def close(self) -> None:
        """Release all files and memory; calling it twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def generation(self) -> int:
        """The number of the commit that is shown."""
        return self.reader.generation

    @property
    def commit(self) -> str:
        """The name of the commit that is shown. No other commit of any index has it."""
        return self.reader.commit

    @property
    def lam(self) -> float:
        """λ, the weight of the dense score: the default of searches."""
        return self.reader.lam

    @property
    def embedder(self) -> TextEmbedder | None:
        """What returns dense vectors of texts, with `embed_docs` and `embed_queries`; None if the index has none."""
        return self.reader.embedder

    def __len__(self) -> int:
        return self.reader.statistics.docs

    @takes(SearchOptions)
    def search(self, text: str | Query, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k best documents for a text as people type it, or for a Query, best first, equal scores by id.

        A text may have operators: `"exact phrase"`, `-word`, `+word`, `field:word`, `word*`, `word~` and `a OR b`.
        By default the ranking is exact and hybrid if the index has dense vectors. `mode` chooses one side, `lam` weighs
        the dense score, `where` filters. `theta`, `candidates`, `candidates_from` and `pruning` trade exactness for
        speed, the first three as in the paper.
        """
        return next(self._asked([text], SearchOptions(k, **options)))

    @takes(SearchOptions)
    def search_batch(
        self, texts: Sequence[str | Query], k: int = 10, **options: Unpack[SearchKeywords]
    ) -> list[Ranking]:
        """Return the k best documents for each text, searched on all cores."""
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise InputError(f"search_batch takes a list of texts, not {type(texts).__name__}; search takes one text")
        return list(self._asked(texts, SearchOptions(k, **options)))

    def _asked(self, texts: Iterable[str | Query], options: SearchOptions) -> Iterator[Ranking]:
        reader = self.reader
        return reader.rank([reader.typed(text) for text in texts], options)

    @takes(SearchOptions)
    def search_vectors(
        self,
        weights: sp.csr_array,
        *,
        dense: npt.ArrayLike | None = None,
        k: int = 10,
        **options: Unpack[SearchKeywords],
    ) -> Ranking:
        """Return the k best documents for a ready query vector: one row of weights, and its dense vector if any."""
        return self.reader.rank_ready(self.reader.ready_one(weights, dense), SearchOptions(k, **options))[0]

    @takes(SearchOptions)
    def search_vectors_batch(
        self,
        weights: sp.csr_array,
        *,
        dense: npt.ArrayLike | None = None,
        k: int = 10,
        **options: Unpack[SearchKeywords],
    ) -> list[Ranking]:
        """Return the k best documents for each ready query vector: rows of (queries, vocab) and of `dense`."""
        return self.reader.rank_ready(self.reader.ready(weights, dense), SearchOptions(k, **options))

    @takes(SearchOptions)
    def similar(self, id: str | int, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k documents that are most like the one with this id, which is not among them.

        The strongest words and the dense vector that are stored of the document are the query.
        """
        return self.reader.rank_similar(given_id(id), SearchOptions(k, **options))

    @takes(SearchOptions)
    def rank(self, queries: Iterable[Query], k: int = 1000, **options: Unpack[SearchKeywords]) -> Iterator[Ranking]:
        """Return the k best documents for each query, in the queries' order: a run. Texts have no operators here."""
        if is_sparse(queries) or isinstance(queries, np.ndarray):
            raise InputError("rank takes a list of Query; search_vectors_batch takes a matrix of ready vectors")
        if isinstance(queries, str | Query | Mapping) or not isinstance(queries, Iterable):
            raise InputError(f"rank takes a list of Query, not {type(queries).__name__}")
        return self.reader.rank(queries, SearchOptions(k, **options))

    def explain(
        self,
        asked: str | Query | Ranking,
        id: str | int,
        *,
        passage: int | None = None,
        lam: float | None = None,
        mode: str | None = None,
    ) -> Explanation:
        """Explain the score of a document or of one of its passages, for a text or a ranking that was searched.

        A ranking's query is not encoded again, and is explained with its own options.
        """
        if isinstance(asked, Ranking):
            return asked.explain(id, passage)
        reader, options = self.reader, SearchOptions(1, mode=mode, lam=lam)
        query = reader.typed(asked)
        return Asked(reader, query, reader.encode([query]), 0, options).explain(given_id(id), passage)

    def explain_vectors(
        self,
        weights: sp.csr_array,
        id: str | int,
        *,
        dense: npt.ArrayLike | None = None,
        lam: float | None = None,
        mode: str | None = None,
    ) -> Explanation:
        """Explain the score of the document with this id, for a ready query vector."""
        reader, options = self.reader, SearchOptions(1, mode=mode, lam=lam)
        return Asked(reader, Query(""), reader.ready_one(weights, dense), 0, options).explain(given_id(id))

    def suggest(self, text: str, k: int = 10) -> list[str]:
        """Return how a text that is being typed may go on: with its last word completed by frequent words."""
        return self.reader.suggest(text, k)

    def docs(self) -> Iterator[Doc]:
        """Yield every document, in the order of adding except for those that a merge moved."""
        return self.reader.docs()

    def get(self, id: str | int) -> Doc | None:
        """Return the document with this id, or None."""
        return self.reader.get(given_id(id))

    def places(self, id: str | int) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None if it is not there."""
        return self.reader.places(given_id(id))

    def info(self) -> IndexInfo:
        """Return the encoder, slicing, counts and sizes of the index."""
        return self.reader.info()
