"""TransformerEncoder: it encodes texts with a SPLADE, uniCOIL, dense or joint model, the longest texts first."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from denslice.analysis.analyzer import has_words
from denslice.analysis.normal_forms import well_formed
from denslice.encoders.text_embedder import TextVectors
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.records import Progress
from denslice.scalars import whole_number
from denslice.vectors import Encoded, Phrases, no_weights

import torch  # isort: skip  # after bi_encoder, whose error names the extra to install

BATCH_TEXTS = 64
CPU_TOKENS = 2_048  # of a batch on the CPU, padding included; the hidden states of more do not fit the cache
CHARACTERS_PER_TOKEN = 10  # the first guess when a long text is truncated before it is split into tokens
TokenSequence = list[int]
log = logging.getLogger(__name__)


class TransformerEncoder:
    """Encodes with a BiEncoder, which it puts in evaluation mode and on the device, by default a GPU if there is one.

    `progress` is called with the number of texts of each batch.
    """

    reads = "text"
    batch_docs = 1_024
    uses_idf = False
    has_model = True

    def __init__(
        self,
        model: BiEncoder,
        name: str = "model",
        device: str | None = None,
        batch: int = BATCH_TEXTS,
        progress: Progress | None = None,
    ) -> None:
        if model.config.lexical == "words":
            advice = "export it first, then use that folder"
            raise InputError(f"{name} weighs words, and such a model runs without torch: {advice}")
        self.device = _device(device)
        self.model = model.eval().to(self.device)
        self.name = name
        self.batch = whole_number("batch", batch, 1)
        self.progress = progress
        self.lam = model.config.lam
        self.licence = model.licence

    @classmethod
    def load(
        cls,
        path_or_hub_id: str | Path,
        device: str | None = None,
        batch: int = BATCH_TEXTS,
        progress: Progress | None = None,
        name: str | None = None,
    ) -> TransformerEncoder:
        """Return the encoder of a model folder or of a model on the hub; its licence is logged once."""
        encoder = cls(BiEncoder.load(path_or_hub_id), name or str(path_or_hub_id), device, batch, progress)
        _log_once(licence_notice(encoder))
        return encoder

    @property
    def vocab(self) -> int:
        """The number of columns of the lexical vectors."""
        return self.model.vocab

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return lexical weights (n, V) and dense vectors (n, D) of documents, if the model has heads for them."""
        return self._encode(texts, self.model.config.max_length, self.model.config.doc_prompt)

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return lexical weights (n, V) and dense vectors (n, D) of queries, which have a length limit of their own."""
        return self._encode(texts, self.model.config.query_length, self.model.config.query_prompt)

    @property
    def dimensions(self) -> int | None:
        """The width of the dense vectors; None if the model has no head for them."""
        return self.model.dimensions or None

    def embed_docs(self, texts: Sequence[str]) -> TextVectors:
        """Return the dense vectors of documents, with the prompt of documents if the model has one."""
        return self._embedded(texts, self.model.config.max_length, self.model.config.doc_prompt)

    def embed_queries(self, texts: Sequence[str]) -> TextVectors:
        """Return the dense vectors of queries, with the prompt of queries if the model has one."""
        return self._embedded(texts, self.model.config.query_length, self.model.config.query_prompt)

    def _embedded(self, texts: Sequence[str], limit: int, prompt: str) -> TextVectors:
        dense = self._encode(texts, limit, prompt).dense
        if dense is None:
            raise InputError(f"{self.name} has no dense vectors")
        ids = self._token_ids([prompt + self._clipped(well_formed(text), limit) for text in texts], limit)
        return TextVectors(dense, tuple(map(len, ids)))

    def quick(self) -> TransformerEncoder:
        """Raise InputError: only the embedded model has a quick side."""
        raise InputError("this model cannot read texts quickly; only mini has a table of words for that")

    def text_lengths(self, texts: Sequence[str]) -> None:
        """Return None: the weights do not depend on lengths."""

    def token(self, id: int) -> str:
        """Return the word piece with this id."""
        piece = self.model.tokenizer.convert_ids_to_tokens(id)
        return str(piece) if piece is not None else f"[{id}]"

    def word_ids(self, word: str) -> None:
        """Return None: tokens do not tell which documents have a word."""

    def phrases(self, text: str) -> Phrases:
        """Return no phrases: every token is a word piece."""
        return {}

    def _encode(self, texts: Sequence[str], limit: int, prompt: str) -> Encoded:
        """Return the vectors of the texts, encoding the longest first. The vectors of a text without a token are 0."""
        clipped = [self._clipped(well_formed(text), limit) for text in texts]
        bare, *ids = self._token_ids([prompt, *(prompt + text for text in clipped)], limit)
        lengths = np.array([len(sequence) for sequence in ids], dtype=np.int64)
        has_token = [self._has_token(text, sequence, bare) for text, sequence in zip(clipped, ids, strict=True)]
        order = np.argsort(-lengths, kind="stable")
        order = order[np.array(has_token, dtype=np.bool_)[order]]
        if self.progress and len(order) < len(texts):
            self.progress(len(texts) - len(order))
        parts = list(self._parts([ids[row] for row in order]))
        return self._restored(parts, order, len(texts))

    def _has_token(self, text: str, ids: TokenSequence, bare: TokenSequence) -> bool:
        """Return whether the model knows a piece that is not punctuation. `bare` are the token ids of the prompt."""
        unknown = self.model.tokenizer.unk_token_id
        if len(ids) <= len(bare) or not has_words(text):
            return False
        if unknown is None or ids.count(unknown) == bare.count(unknown):
            return True
        pieces = self.model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return any(id != unknown and has_words(self.model.tokenizer.decode([id])) for id in pieces)

    def _token_ids(self, texts: list[str], limit: int) -> list[TokenSequence]:
        split = self.model.tokenizer(
            texts, truncation=True, max_length=limit, return_attention_mask=False, return_token_type_ids=False
        )
        found: list[TokenSequence] = split["input_ids"]
        return found

    def _clipped(self, text: str, limit: int) -> str:
        """Return a beginning of a long text that has the same first `limit` tokens as the whole text."""
        size = limit * CHARACTERS_PER_TOKEN
        while size < len(text) and self.model.tokenizer.is_fast:
            words = self.model.tokenizer(text[:size], add_special_tokens=False, verbose=False).word_ids()
            if len(words) > limit and words[limit] != words[-1]:  # the cut can change only the last word
                return text[:size]
            size *= 2
        return text

    def _parts(self, ids: list[TokenSequence]) -> Iterator[Encoded]:
        """Yield the vectors of each batch; if memory runs out, batches are half as large from there on."""
        at, batch = 0, self.batch
        while at < len(ids):
            most = batch if self.device.type != "cpu" else max(1, min(batch, CPU_TOKENS // len(ids[at])))
            these = ids[at : at + most]
            part = self._part(these)
            if part is None and len(these) == 1:
                problem = f"memory runs out on a single text of {len(ids[at]):,} tokens"
                raise InputError(f"{problem}; use a smaller max_length or model")
            if part is None:
                batch = len(these) // 2
                log.info("memory ran out; encoding %d texts at a time", batch)
                continue
            yield part
            at += len(these)
            if self.progress:
                self.progress(len(these))

    def _part(self, ids: list[TokenSequence]) -> Encoded | None:
        """Return the vectors of a batch, or None if memory runs out: a traceback would keep the tensors in memory."""
        try:
            return self._forward(ids)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
                raise
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return None

    def _forward(self, ids: list[TokenSequence]) -> Encoded:
        padded, mask = _padded(ids, self.model.tokenizer.pad_token_id or 0)  # (B, L) each
        with torch.inference_mode(), _precision(self.device):
            lexical, dense = self.model(padded.to(self.device), mask.to(self.device))
            rows = no_weights(len(ids), self.vocab) if lexical is None else _csr(lexical)
        return Encoded(rows, None if dense is None else dense.cpu().numpy())

    def _restored(self, parts: list[Encoded], order: npt.NDArray[np.int64], texts: int) -> Encoded:
        """Return the rows of all parts in the order of the texts; texts that were not encoded have rows of zeros."""
        place = np.full(texts, len(order))
        place[order] = np.arange(len(order))
        dimensions = self.model.dimensions
        zeros = Encoded(no_weights(1, self.vocab), np.zeros((1, dimensions), np.float32) if dimensions else None)
        return Encoded.joined([*parts, zeros]).rows(place)


def licence_notice(encoder: TransformerEncoder) -> str:
    """Return one line on the licence in the model card."""
    stated = "no licence" if encoder.licence is None else f"the licence {encoder.licence}"
    return f"{encoder.name}: the model card states {stated}"


@cache
def _log_once(notice: str) -> None:
    log.info(notice)


def _device(name: str | None) -> torch.device:
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device is {name}, and torch finds no GPU here")
    return device


def _precision(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()


def _padded(ids: list[TokenSequence], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the padded token ids and the mask of real ones, both (B, L) int64."""
    lengths = np.array([len(sequence) for sequence in ids])
    real = np.arange(lengths.max()) < lengths[:, None]  # (B, L)
    padded = np.full(real.shape, pad, dtype=np.int64)
    padded[real] = np.concatenate(ids)
    return torch.from_numpy(padded), torch.from_numpy(real.astype(np.int64))


def _csr(lexical: torch.Tensor) -> sp.csr_array:
    """Return the weights (B, V) as CSR; only those above 0 are copied from the device."""
    rows, columns = lexical.nonzero(as_tuple=True)  # (nnz,) each
    weights = lexical[rows, columns].cpu().numpy()
    if not np.isfinite(weights).all():
        raise InputError("the model gives NaN or infinite weights")
    starts = np.concatenate([[0], torch.bincount(rows, minlength=len(lexical)).cumsum(0).cpu().numpy()])
    return sp.csr_array((weights, columns.to(torch.int32).cpu().numpy(), starts), tuple(lexical.shape))
