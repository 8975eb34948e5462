"""Times the embedded model: passages a second beside MiniLM in sentence-transformers, and milliseconds a query.

    python benchmarks/encode_mini.py MINILM CORPUS QUERIES [--texts 600]

Both encode the same texts, cut at 256 word pieces, in turns. Nothing is timed unless a text alone has the same vector
as in a batch. Appends a line to results/encode_mini.jsonl.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

import journal
from denslice import encoders
from denslice.corpus.documents import read_docs, read_queries
from denslice.store.vocabulary import Growth, Vocabulary
from encode_cpu import time_in_turn

PACKAGES = ("numpy", "onnxruntime", "tokenizers", "torch", "sentence-transformers")


def main() -> None:
    """Check, time in turn, print and append the line."""
    given = _arguments()
    texts = [doc.contents for doc in islice(read_docs([str(given.corpus)]), given.texts)]
    queries = [query.text for query in islice(read_queries(str(given.queries)), 200)]
    ours = encoders.load("mini", encoders.checked_options("mini", {}), Growth(Vocabulary()))
    theirs = SentenceTransformer(str(given.minilm), device="cpu")
    theirs.max_seq_length = 256
    together = ours.encode_docs(texts[:32]).dense
    assert together is not None
    for row, text in enumerate(texts[:32]):
        alone = ours.encode_docs([text]).dense
        if alone is None or not np.array_equal(alone[0], together[row]):
            raise SystemExit(f"text {row} alone has another vector than in a batch: nothing is timed")
    contenders = {
        "mini": lambda: ours.encode_docs(texts),
        "sentence_transformers": lambda: theirs.encode(texts, batch_size=32),
    }
    seconds = time_in_turn(contenders, given.repeats)
    rates = {name: round(len(texts) / float(np.median(runs)), 1) for name, runs in seconds.items()}
    waits = query_seconds(ours, queries)
    figures = {
        "characters_a_text": round(float(np.mean([len(text) for text in texts])), 1),
        "passages_a_second": rates,
        "times_as_fast": round(rates["mini"] / rates["sentence_transformers"], 2),
        "query_ms": {
            "p50": round(1e3 * float(np.median(waits)), 2),
            "p95": round(1e3 * float(np.quantile(waits, 0.95)), 2),
        },
    }
    print(figures)
    print(journal.append("encode_mini", PACKAGES, vars(given), figures))


def query_seconds(encoder: encoders.Encoder, queries: list[str]) -> list[float]:
    """Return how many seconds each query takes by itself."""
    waits = []
    for query in queries:
        began = time.perf_counter()
        encoder.encode_queries([query])
        waits.append(time.perf_counter() - began)
    return waits


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--texts", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
