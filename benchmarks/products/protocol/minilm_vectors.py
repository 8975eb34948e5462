"""The vectors of MiniLM, which are computed once for all products: `encode` stands where their users call the model.

    vectors = encode(texts)  # in place of SentenceTransformer("all-MiniLM-L6-v2").encode(texts)

The time of the model is measured apart and added to the figures of each product that needs it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

FOLDER = "MINILM_VECTORS"  # the environment variable that names the folder
DIMENSIONS = 384
Floats = npt.NDArray[np.float32]


def encode(texts: Sequence[str]) -> Floats:
    """Return the vectors of texts (n, 384), of length 1; KeyError if one was not encoded before."""
    rows = [_rows()[blake2b(text.encode(), digest_size=16).hexdigest()] for text in texts]
    with Path(os.environ[FOLDER], "vectors.bin").open("rb") as file:
        found = np.empty((len(rows), DIMENSIONS), np.float32)
        for at, row in enumerate(rows):  # read row by row, so that the file does not count as the product's memory
            file.seek(row * DIMENSIONS * 4)
            found[at] = np.frombuffer(file.read(DIMENSIONS * 4), np.float32)
    return found


def encode_one(text: str) -> list[float]:
    """Return the vector of one text."""
    vector: list[float] = encode([text])[0].tolist()
    return vector


@cache
def _rows() -> dict[str, int]:
    """Return the row of each text in the file, by the text's digest."""
    with Path(os.environ[FOLDER], "rows.jsonl").open(encoding="utf-8") as lines:
        digests = [one for line in lines for one in json.loads(line).get("digests", ())]
    return {one: row for row, one in enumerate(digests)}
