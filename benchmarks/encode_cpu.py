"""Times a dense model on the CPU: passages a second of TransformerEncoder and of SentenceTransformer.encode.

Both encode the same texts in one process, and nothing is timed unless their vectors agree to 1e-4. Appends a line to
results/encode_cpu.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import journal
from denslice.corpus.documents import read_docs
from denslice.encoders.torch.transformer_encoder import TransformerEncoder

PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "sentence-transformers")
CLOSE = 1e-4


@dataclass(frozen=True)
class Configuration:
    """The options of the command line."""

    model: str
    corpus: str
    texts: int
    batch: int
    peer_batch: int
    repeats: int


def main() -> None:
    """Check, time in turn, print and append the line."""
    configuration = _arguments()
    texts = [doc.contents for doc in islice(read_docs([configuration.corpus]), configuration.texts)]
    ours = TransformerEncoder.load(configuration.model, "cpu", configuration.batch)
    theirs = SentenceTransformer(configuration.model, device="cpu")
    contenders: dict[str, Callable[[], Any]] = {
        "denslice": lambda: ours.encode_docs(texts).dense,
        "sentence_transformers": lambda: theirs.encode(texts, batch_size=configuration.peer_batch),
    }
    furthest = float(np.abs(contenders["denslice"]() - contenders["sentence_transformers"]()).max())
    if furthest > CLOSE:
        raise SystemExit(f"the vectors differ by up to {furthest}: nothing is timed")
    seconds = time_in_turn(contenders, configuration.repeats)
    figures: dict[str, Any] = {
        "furthest": furthest,
        "threads": torch.get_num_threads(),
        "characters_a_text": round(float(np.mean([len(text) for text in texts])), 1),
        "passages_a_second": {name: _rates(len(texts), runs) for name, runs in seconds.items()},
    }
    for name, rates in figures["passages_a_second"].items():
        print(f"{name:24} {rates['p50']:8.1f} passages a second (worst {rates['least']:.1f})")
    print(journal.append("encode_cpu", PACKAGES, asdict(configuration), figures))


def time_in_turn(contenders: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each run; contenders take turns, so that a slow minute of the machine hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, encode in contenders.items():
            start = time.perf_counter()
            encode()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def _rates(texts: int, seconds: list[float]) -> dict[str, float]:
    rates = texts / np.array(seconds)
    return {"p50": round(float(np.median(rates)), 1), "least": round(float(rates.min()), 1)}


def _arguments() -> Configuration:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of a dense sentence-transformers model")
    parser.add_argument("corpus", help="documents: JSONL")
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--peer-batch", type=int, default=32, help="sentence-transformers' own default is 32")
    parser.add_argument("--repeats", type=int, default=3)
    return Configuration(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
