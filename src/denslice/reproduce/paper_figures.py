"""The paper's figures on MS MARCO's 8,841,823 passages: its tables 1, 2 and 3.

Models are named by their lexical and dense heads, as in about.json. A figure is shown only beside its own setting: the
same heads, number of slices and number of dense dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

PASSAGES = 8_841_823
Heads = tuple[str, str]
UNICOIL, SPLADE, CLS = ("unicoil", "none"), ("splade", "none"), ("none", "cls")
UNICOIL_CLS, SPLADE_CLS = ("unicoil", "cls"), ("splade", "cls")


class Dev(NamedTuple):
    """Effectiveness on the 6,980 queries of MS MARCO dev."""

    rr: float  # MRR@10
    recall: float  # R@1000


class Cost(NamedTuple):
    """A row of table 2. Latency is of single queries on an NVIDIA Titan RTX."""

    rr: float
    gigabytes: float
    milliseconds: str


TABLE1: dict[tuple[Heads, int | None], Dev] = {
    (UNICOIL, None): Dev(0.312, 0.925),
    (UNICOIL, 768): Dev(0.309, 0.923),
    (UNICOIL, 256): Dev(0.305, 0.919),
    (UNICOIL, 128): Dev(0.300, 0.913),
    (SPLADE, None): Dev(0.340, 0.965),  # of another SPLADE, "for reference only"
    (SPLADE, 768): Dev(0.343, 0.957),
    (SPLADE, 256): Dev(0.338, 0.953),
    (SPLADE, 128): Dev(0.332, 0.946),
}

TABLE2: dict[tuple[Heads, int | None, int | None], Cost] = {  # heads, slices, dense dimensions
    (CLS, None, 768): Cost(0.310, 13, "115"),
    (UNICOIL, 768, None): Cost(0.309, 20, "40"),
    (SPLADE, 768, None): Cost(0.343, 20, "40"),
    (UNICOIL_CLS, 768, 768): Cost(0.350, 32, "2 × 24"),
    (SPLADE_CLS, 768, 768): Cost(0.352, 32, "2 × 24"),
    (UNICOIL_CLS, 256, 256): Cost(0.346, 11, "34"),
    (SPLADE_CLS, 256, 256): Cost(0.348, 11, "34"),
    (UNICOIL_CLS, 128, 128): Cost(0.337, 5, "32"),
    (SPLADE_CLS, 128, 128): Cost(0.344, 5, "32"),
}

TABLE3: dict[str, Dev] = {  # SPLADE, 768 slices, query sliced
    "stride": Dev(0.343, 0.957),
    "contiguous": Dev(0.332, 0.951),
    "random": Dev(0.343, 0.957),
}
