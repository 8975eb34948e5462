"""BiEncoder: one backbone with a lexical head (SPLADE, uniCOIL), a dense one ([CLS], mean), or both in one pass.

`TransformerEncoder` encodes with it, and `denslice.train` trains it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from denslice.encoders.model_config import CONFIG_FILE, TOKEN_HEADS, ModelConfig
from denslice.encoders.torch.licence import read_licence, write_licence
from denslice.encoders.word_pieces import SOFTPLUS_ONE
from denslice.errors import InputError, MissingExtraError

try:
    import torch
    import transformers  # noqa: F401  # other modules need it; if it is missing, the error is raised here
    from safetensors.torch import save_file
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise MissingExtraError("a transformer model", "torch") from error

from denslice.encoders.torch import model_folder
from denslice.encoders.torch.backbone import check_fit, load_backbone, load_tokenizer, mlm_parts, positions, quiet
from denslice.encoders.torch.hub import local_folder
from denslice.encoders.torch.model_folder import HEADS_FILE, MODULES_FILE, ModelFolder
from denslice.encoders.torch.sentence_transformers_folder import read_sentence_transformers, write_sentence_transformers

__all__ = ["BiEncoder", "ModelConfig", "Output", "load_tokenizer", "mlm_parts"]

LOGIT_POSITIONS = 16  # token positions whose logits over the vocabulary are in memory at one time


class WordBatch(NamedTuple):
    """The words of a batch for a model that weighs words: their BM25 weights, and the pieces of each occurrence."""

    side: int  # DOC_SIDE or QUERY_SIDE, which of the two importances is used
    columns: int  # C, the number of different words
    rows: Tensor  # (entries,) the text of each
    places: Tensor  # (entries,) the column of each
    weights: Tensor  # (entries,) BM25 weights
    texts: Tensor  # (occurrences,) the text of each
    entries: Tensor  # (occurrences,) the entry of each
    first: Tensor  # (occurrences,) the first piece
    end: Tensor  # (occurrences,) the piece after the last

    def to(self, device: torch.device) -> WordBatch:
        """Return the batch on another device."""
        moved = (part.to(device, non_blocking=True) for part in self[2:])
        return WordBatch(self.side, self.columns, *moved)


class Output(NamedTuple):
    """The vectors of one pass, float32; None for a head that the model does not have."""

    lexical: Tensor | None  # (B, V), 0 or more; (B, C) of a model that weighs words
    dense: Tensor | None  # (B, D)


class BiEncoder(nn.Module):
    """Encodes queries and documents alike. `backbone` is a Hugging Face model, with its MLM head if SPLADE needs it."""

    def __init__(self, backbone: Any, tokenizer: Any, config: ModelConfig, licence: str | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        longest = {name: min(getattr(config, name), positions(backbone)) for name in ("max_length", "query_length")}
        self.config = replace(config, **longest)
        self.licence = licence
        self.projection = _projection(config, self.width, bias=False)
        self.token_head = _token_head(config, self.width)
        special = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id]
        known = sorted({id for id in [*special, tokenizer.pad_token_id] if id is not None})
        self.special: Tensor
        self.register_buffer("special", torch.tensor(known, dtype=torch.int64), persistent=False)
        if config.lexical == "splade":
            mlm_parts(backbone)

    @property
    def width(self) -> int:
        """The width of the backbone's hidden states."""
        return int(self.backbone.config.hidden_size)

    @property
    def vocab(self) -> int:
        """The number of columns of the lexical vectors."""
        return int(self.backbone.get_input_embeddings().num_embeddings)

    @property
    def dimensions(self) -> int:
        """The width of the dense vector, or 0 if there is none."""
        return 0 if self.config.dense == "none" else self.config.dimensions or self.width

    def forward(self, input_ids: Tensor, attention_mask: Tensor, words: WordBatch | None = None) -> Output:
        """Return the lexical and dense vectors of token ids (B, L), which are padded on the right."""
        body = self.backbone.base_model
        hidden = body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state  # (B, L, H)
        if self.config.lexical == "splade":
            return Output(self._splade(hidden, attention_mask), self._dense(hidden, attention_mask))
        if words is not None:
            return Output(self._word_weights(hidden, words), self._dense(hidden, attention_mask))
        return Output(self._unicoil(hidden, input_ids, attention_mask), self._dense(hidden, attention_mask))

    def _splade(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the maximum of log(1 + ReLU(logits)) over all tokens; log and ReLU are applied after the maximum."""
        # Padding repeats the state of the first token, so it does not change the maximum.
        hidden = hidden.where(mask.bool().unsqueeze(-1), hidden[:, :1])  # (B, L, H)
        first, *rest = torch.split(hidden, LOGIT_POSITIONS, dim=1)
        best = _largest(self.backbone, first)  # (B, V)
        for piece in rest:
            best = torch.maximum(best, _largest(self.backbone, piece))  # (B, V)
        return best.float().relu().log1p()

    def _unicoil(self, hidden: Tensor, input_ids: Tensor, mask: Tensor) -> Tensor | None:
        """Return ReLU(head) of each input token, without special tokens; a repeated token has its largest weight."""
        if self.token_head is None:
            return None
        weights: Tensor = self.token_head(hidden).squeeze(-1).float().relu()  # (B, L)
        weights = weights * (mask.bool() & ~torch.isin(input_ids, self.special))  # (B, L)
        return weights.new_zeros(len(weights), self.vocab).scatter_reduce(1, input_ids, weights, "amax")  # (B, V)

    def importances(self, hidden: Tensor) -> Tensor:
        """Return the importance of each piece in a document and in a query (B, L, 2), from hidden states (B, L, H)."""
        if self.token_head is None:
            raise ValueError("the model has no head on its tokens")
        weights: Tensor = nn.functional.softplus(self.token_head(hidden).float() + SOFTPLUS_ONE)
        return weights

    def _word_weights(self, hidden: Tensor, words: WordBatch) -> Tensor:
        """Return the BM25 weight of each word times its importance: the mean over its pieces, or 1 if it has none."""
        each = self.importances(hidden)[..., words.side]  # (B, L)
        sums = nn.functional.pad(each.cumsum(1), (1, 0))  # (B, L + 1)
        totals = sums[words.texts, words.end] - sums[words.texts, words.first]  # (occurrences,)
        pieces = (words.end - words.first).float()
        zeros = words.weights.new_zeros(len(words.weights))
        seen = zeros.index_add(0, words.entries, pieces)  # (entries,)
        importance = zeros.index_add(0, words.entries, totals) / seen.clamp(min=1) + (seen == 0)  # (entries,)
        empty = zeros.new_zeros(len(hidden), words.columns)
        return empty.index_put((words.rows, words.places), words.weights * importance)

    def _dense(self, hidden: Tensor, mask: Tensor) -> Tensor | None:
        if self.config.dense == "none":
            return None
        pooled = hidden[:, 0] if self.config.dense == "cls" else _mean(hidden, mask)  # (B, H)
        dense = (pooled if self.projection is None else self.projection(pooled)).float()  # (B, D)
        return nn.functional.normalize(dense, dim=-1) if self.config.normalise else dense

    @classmethod
    def load(cls, path_or_hub_id: str | Path, config: ModelConfig | None = None) -> BiEncoder:
        """Return the model in a folder or on the hub: of denslice, of sentence-transformers, or a published uniCOIL.

        A `config` replaces that of the folder, and heads that the folder lacks are new: training starts so from any of
        these, or from a plain Hugging Face model.
        """
        folder = local_folder(path_or_hub_id)
        found = _read(folder)
        wanted = config or found.config
        if wanted is None:
            raise InputError(f"{folder} does not say what its heads are; give ModelConfig(lexical=…, dense=…)")
        model_folder.check_files(found.body)
        tokenizer = load_tokenizer(folder)
        backbone = load_backbone(found.body, wanted.lexical == "splade", allow_new_head=config is not None)
        check_fit(tokenizer, backbone, found.body)
        model = cls(backbone, tokenizer, wanted, read_licence(folder))
        model._take_heads(found, allow_new=config is not None)
        return model.eval()

    def save(self, folder: str | Path, names: str = "new") -> None:
        """Write the model to a folder that `load` reads.

        sentence-transformers can load a SPLADE or a dense model too: every version of it with `names` "old", and
        versions after 5.3 with "new".
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        heads = {name: tensor.detach().cpu().contiguous() for name, tensor in self._heads().items()}
        with quiet():
            self.backbone.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        if heads:
            save_file(heads, folder / HEADS_FILE)
        (folder / CONFIG_FILE).write_text(json.dumps(self.config.to_json(), indent=2) + "\n", encoding="utf-8")
        has_pooler = getattr(self.backbone, "pooler", 0) is None
        write_sentence_transformers(folder, self.config, self.width, heads, has_pooler, names)
        if self.licence:
            write_licence(folder, self.licence)

    def _heads(self) -> dict[str, nn.Parameter]:
        """Return the parameters outside of the backbone."""
        return {name: p for name, p in self.named_parameters() if name.startswith(("projection.", "token_head."))}

    def _take_heads(self, found: ModelFolder, allow_new: bool) -> None:
        if "projection.bias" in found.heads:
            self.projection = _projection(self.config, self.width, bias=True)
        for name, parameter in self._heads().items():
            if name not in found.heads and not allow_new:
                raise InputError(f"the model folder {found.body} has no weights {name}")
            if name in found.heads:
                _fill(parameter, found.heads[name], name, found.body)


def _read(folder: Path) -> ModelFolder:
    if (folder / CONFIG_FILE).is_file():
        return model_folder.read_own(folder)
    if (folder / MODULES_FILE).is_file():
        return read_sentence_transformers(folder)
    return model_folder.read_plain(folder)


def _largest(backbone: Any, hidden: Tensor) -> Tensor:
    """Return the largest logit of each vocabulary token (B, V) over some positions (B, P, H)."""
    for part in mlm_parts(backbone):
        hidden = part(hidden)  # (B, P, V) in the end
    # For the backward pass max keeps the positions of the maxima, where amax would keep the logits of all positions.
    return hidden.max(dim=1).values if torch.is_grad_enabled() else hidden.amax(dim=1)


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(hidden.dtype)  # (B, L, 1)
    return (hidden * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)  # (B, H)


def _projection(config: ModelConfig, width: int, bias: bool) -> nn.Linear | None:
    return None if config.dimensions is None else nn.Linear(width, config.dimensions, bias=bias)


def _token_head(config: ModelConfig, width: int) -> nn.Module | None:
    if config.lexical not in TOKEN_HEADS:
        return None
    outputs = 2 if config.lexical == "words" else 1
    last = nn.Linear(config.head_width or width, outputs)
    if config.lexical == "words":  # every importance starts at 1
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    if config.head_width is None:
        return last
    return nn.Sequential(nn.Linear(width, config.head_width), nn.GELU(), last)


def _fill(parameter: nn.Parameter, weights: Tensor, name: str, folder: Path) -> None:
    if parameter.shape != weights.shape:
        needed = tuple(parameter.shape)
        raise InputError(f"{name} is {tuple(weights.shape)} in {folder}, and the configuration needs {needed}")
    parameter.data.copy_(weights)
