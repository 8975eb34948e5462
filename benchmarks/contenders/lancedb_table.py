"""LanceDB: a vector index and a full-text index, whose results are joined by its rerankers or by their sum.

LanceDB searches texts and computes BM25 by itself, so the weights of a document are rounded to a number of repetitions
of each token. Its scores are therefore others, and its recall shows that too. Its rerankers get scores that were
normalised for each query, of which words + λ · cosine cannot be made; so that is tried with two plain searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Found, Setting, Tokens
from contenders.vectors_folder import Floats, VectorsFolder

TABLE, NUMBER = "documents", "number"
AT_ONCE = 16_384  # documents
REPETITIONS = 4.0  # of a token with the weight 1
DEPTHS = {100: (128, 512), 1_000: (1_024,)}  # documents that each index returns, and the efforts (ef) of the graph
SHARES = (0.3, 0.5, 0.7)  # of the vectors in the linear combination
FACTORS = (0.35, 0.45, 0.55)  # of the scores of words in the sum, which are BM25's instead of ours


class LancedbTable(Contender):
    """The best by reciprocal ranks, which is LanceDB's default, by a linear combination, or by the sum of scores."""

    kind = "hybrid"
    packages = ("lancedb", "pyarrow")

    def settings(self, k: int) -> Sequence[Setting]:
        pairs = [{"depth": depth, "ef": ef} for depth, efforts in DEPTHS.items() for ef in efforts if depth >= k]
        ways: list[Setting] = [{"join": "rrf"}]
        ways += [{"join": "linear", "share": share} for share in SHARES]
        ways += [{"join": "sum", "factor": factor} for factor in FACTORS]
        return [{**way, **pair} for way in ways for pair in pairs]

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        import lancedb

        table = lancedb.connect(str(folder)).create_table(TABLE, _batches(vectors))
        table.create_index(metric="l2", index_type="IVF_HNSW_SQ", vector_column_name="vector")
        table.create_fts_index(
            "text", base_tokenizer="whitespace", stem=False, remove_stop_words=False, with_position=False
        )

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import lancedb
        from lancedb.rerankers import LinearCombinationReranker, RRFReranker

        self._table: Any = lancedb.connect(str(folder)).open_table(TABLE)
        self._rrf, self._lam = RRFReranker(), vectors.lam
        self._linear = {share: LinearCombinationReranker(share) for share in SHARES}

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> tuple[str, Floats]:
        return " ".join(f"t{token}" for token in tokens.tolist()), dense

    def search(self, query: tuple[str, Floats], k: int, setting: Setting) -> list[int]:
        if setting["join"] == "sum":
            return self._summed(*query, k, setting)
        reranker = self._rrf if setting["join"] == "rrf" else self._linear[setting["share"]]
        asked = self._table.search(query_type="hybrid").vector(query[1]).text(query[0])
        asked = asked.ef(setting["ef"]).rerank(reranker).limit(setting["depth"])
        found: list[int] = asked.select([NUMBER]).to_arrow()[NUMBER].to_pylist()[:k]
        return found

    def found(self, answer: list[int]) -> Found:
        return answer

    def _summed(self, text: str, dense: Floats, k: int, setting: Setting) -> list[int]:
        """Return the best by words + λ · cosine of two searches; a score that is not known counts 0.

        Vectors have length 1, so their distance, which is squared, is 2 - 2 · cosine.
        """
        near = self._table.search(dense).ef(setting["ef"]).limit(setting["depth"])
        words = self._table.search(text, query_type="fts").limit(setting["depth"])
        by_vector = near.select([NUMBER, "_distance"]).to_arrow()
        by_words = words.select([NUMBER, "_score"]).to_arrow()
        rows = [np.asarray(one[NUMBER]) for one in (by_vector, by_words)]
        scores = [
            self._lam * (1 - np.asarray(by_vector["_distance"]) / 2),
            setting["factor"] * np.asarray(by_words["_score"]),
        ]
        both, at = np.unique(np.concatenate(rows), return_inverse=True)
        order = np.argsort(-np.bincount(at, np.concatenate(scores)), kind="stable")[:k]
        found: list[int] = both[order].tolist()
        return found


def _batches(vectors: VectorsFolder) -> Any:
    """Return a reader of the table's rows: the document's number, its vector, and its tokens as a text."""
    import pyarrow as pa

    width = vectors.dense.shape[1]
    schema = pa.schema([(NUMBER, pa.int64()), ("vector", pa.list_(pa.float32(), width)), ("text", pa.string())])

    def batches() -> Iterator[Any]:
        for start in range(0, len(vectors.dense), AT_ONCE):
            dense = vectors.dense[start : start + AT_ONCE].astype(np.float32)
            numbers = np.arange(start, start + len(dense))
            vector = pa.FixedSizeListArray.from_arrays(pa.array(dense.ravel()), width)
            texts = [_text(vectors, row) for row in numbers.tolist()]
            yield pa.record_batch([pa.array(numbers), vector, pa.array(texts)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _text(vectors: VectorsFolder, row: int) -> str:
    span = slice(vectors.docs.indptr[row], vectors.docs.indptr[row + 1])
    counts = np.maximum(1, np.round(REPETITIONS * vectors.docs.data[span])).astype(np.int64)
    return " ".join(f"t{token}" for token in np.repeat(vectors.docs.indices[span], counts).tolist())
