"""Takes rare pieces out of a body's vocabulary: a word that had one of its own is then read in smaller pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer
from torch import nn

if TYPE_CHECKING:
    from mini_bodies import TextBody

CHUNK = 20_000  # texts that are cut into pieces at one time
Merge = tuple[str, str]


def forget_rare(body: TextBody, texts: Sequence[str], size: int) -> None:
    """Leave a body with byte pairs the pieces that are most frequent in texts, and those that they are made of."""
    state = json.loads(body.tokenizer.to_str())
    vocabulary: dict[str, int] = state["model"]["vocab"]
    counts = np.zeros(len(vocabulary), dtype=np.int64)
    for at in range(0, len(texts), CHUNK):
        for row in body.pieces(texts[at : at + CHUNK]):
            np.add.at(counts, row, 1)
    merges = [as_pair(one) for one in state["model"]["merges"]]
    special = {one["content"] for one in state["added_tokens"]}
    frequent = sorted(vocabulary, key=lambda piece: -counts[vocabulary[piece]])
    kept = closed(frequent, merges, special, size)
    pieces = sorted(kept, key=lambda piece: vocabulary[piece])
    state["model"]["vocab"] = {piece: id for id, piece in enumerate(pieces)}
    state["model"]["merges"] = [list(pair) for pair in merges if {*pair, "".join(pair)} <= kept]
    for one in state["added_tokens"]:
        one["id"] = state["model"]["vocab"][one["content"]]
    rows = [vocabulary[piece] for piece in pieces]
    table = body.body.embeddings.word_embeddings
    table.weight = nn.Parameter(table.weight.detach()[rows].clone())
    body.tokenizer = Tokenizer.from_str(json.dumps(state))
    body.tokenizer.enable_truncation(body.longest)
    body.tokenizer.encode_special_tokens = True


def closed(frequent: Sequence[str], merges: Sequence[Merge], special: set[str], size: int) -> set[str]:
    """Return the first pieces, in this order, with all that they are made of; special pieces and bytes always stay."""
    parts = {"".join(pair): pair for pair in reversed(merges)}  # the first merge that makes a piece makes it
    kept = special | {piece for piece in frequent if piece not in parts}
    for piece in frequent:
        if len(kept) >= size:
            break
        waiting = [piece]
        while waiting:
            one = waiting.pop()
            if one not in kept:
                kept.add(one)
                waiting.extend(parts[one])
    return kept


def as_pair(merge: Any) -> Merge:
    """Return a merge, which older files write as one string."""
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second
