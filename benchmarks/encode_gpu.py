"""Times trained models on a GPU: passages a second of TransformerEncoder, tokenising included.

    python benchmarks/encode_gpu.py DATA MODEL [MODEL …] [--texts 20000] [--batch 128 512]

Appends a line to results/encode_gpu.jsonl.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from typing import Any

import torch

import journal
from denslice.corpus.documents import read_docs
from denslice.encoders.torch.transformer_encoder import TransformerEncoder

PACKAGES = ("numpy", "torch", "transformers", "tokenizers")


def main() -> None:
    """Time every model with every batch size, print and append the line."""
    arguments = _arguments()
    texts = [doc.contents for doc in islice(read_docs([arguments.data]), arguments.texts)]
    figures = [timed(model, texts, batch) for model in arguments.models for batch in arguments.batch]
    for one in figures:
        print(one)
    configuration = {"data": arguments.data, "texts": len(texts), "gpu": torch.cuda.get_device_name()}
    print(journal.append("encode_gpu", PACKAGES, configuration, figures))


def timed(model: str, texts: list[str], batch: int) -> dict[str, Any]:
    """Return passages a second, after a warm-up on a tenth of the texts."""
    encoder = TransformerEncoder.load(model, "cuda", batch)
    encoder.encode_docs(texts[: len(texts) // 10])
    torch.cuda.synchronize()
    start = time.perf_counter()
    encoded = encoder.encode_docs(texts)
    torch.cuda.synchronize()
    rate = len(texts) / (time.perf_counter() - start)
    heads = {"lexical": encoder.model.config.lexical, "dense": encoder.model.config.dense}
    weights = round(encoded.lexical.nnz / len(texts), 1)
    return {**heads, "batch": batch, "passages_a_second": round(rate, 1), "weights_a_text": weights}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a BEIR folder or another collection")
    parser.add_argument("models", nargs="+", help="model folders")
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512])
    return parser.parse_args()


if __name__ == "__main__":
    main()
