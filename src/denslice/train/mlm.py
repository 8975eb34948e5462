"""Preparation of a new SPLADE head: masked-language warm-up, then a shift and a scaling of its logits.

The warm-up determines logits only up to a constant. Without the shift, every token of the vocabulary may have a weight,
and scores begin in the thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from denslice.encoders.torch.bi_encoder import BiEncoder, mlm_parts
from denslice.errors import InputError
from denslice.train.config import WarmupConfig
from denslice.train.prefetch import prefetch
from denslice.train.tokens import Padded, TokenArray, TokenRows, padded

IGNORED = -100  # the label of a token that was not masked
POOL = 200_000  # texts kept for the warm-up
CALIBRATION_PAIRS = 64  # pairs of a query and its positive
HALVINGS = 40
Report = Callable[[dict[str, Any]], None]


def warm_up(
    model: BiEncoder,
    texts: Iterable[Sequence[int] | TokenArray],
    config: WarmupConfig,
    seed: int,
    bf16: bool,
    report: Report,
) -> None:
    """Train the head, and the body at its own learning rate, to predict masked tokens of the texts."""
    if model.config.lexical != "splade":
        problem = "but only a SPLADE head can be warmed up; set warmup.steps = 0"
        raise InputError(f"model.lexical is {model.config.lexical!r}, {problem}")
    pool = list(islice(texts, POOL))
    body = set(model.backbone.base_model.parameters())
    heads = [p for p in model.backbone.parameters() if p not in body]
    groups = [{"params": heads}, {"params": list(body) if config.body_lr else []}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)  # each step sets the learning rates
    rates = (config.lr, config.body_lr)
    batches = prefetch(_masked_batches(pool, model, config, seed))
    model.train()
    for step, batch in enumerate(islice(batches, config.steps)):
        torch.manual_seed(seed + step)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / config.steps)
        loss = masked_loss(model, *batch, bf16)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.backbone.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 50 == 0 or step + 1 == config.steps:
            report({"warmup_step": step + 1, "warmup_loss": round(loss.item(), 4)})
    batches.close()
    model.zero_grad(set_to_none=True)


def masked_loss(model: BiEncoder, texts: Padded, labels: Tensor, bf16: bool) -> Tensor:
    """Return the mean of -log probability of the masked tokens. The head is applied only at their positions."""
    with torch.autocast(texts.ids.device.type, torch.bfloat16, enabled=bf16):
        hidden = model.backbone.base_model(input_ids=texts.ids, attention_mask=texts.mask).last_hidden_state
        masked = labels != IGNORED  # (n, length)
        found = _logits(model, hidden[masked])  # (masked, V)
    return functional.cross_entropy(found.float(), labels[masked])


def calibrate(
    model: BiEncoder, queries: TokenRows, passages: TokenRows, active: int | None, score: float | None
) -> None:
    """Shift the lexical head so that a passage has about `active` weights, then scale it so that a query and its
    positive score `score` on average. uniCOIL's head is shifted so that nearly every token has a weight.
    """
    pad = model.tokenizer.pad_token_id
    device = next(model.parameters()).device
    asked, given = (padded(rows[:CALIBRATION_PAIRS], pad).to(device) for rows in (queries, passages))
    was_training = model.training
    model.eval()
    with torch.no_grad():
        if model.config.lexical == "splade":
            _calibrate_splade(model, asked, given, active, score)
        elif model.config.lexical == "unicoil" and score is not None:
            _calibrate_unicoil(model, asked, given, score)
    model.train(was_training)


def _calibrate_splade(model: BiEncoder, asked: Padded, given: Padded, active: int | None, score: float | None) -> None:
    queries, passages = _largest_logits(model, asked), _largest_logits(model, given)  # (n, V) each
    shift = 0.0 if active is None else float(passages.topk(min(active + 1, passages.shape[1])).values[:, -1].mean())
    scale = 1.0 if score is None else _scale(queries - shift, passages - shift, score)
    norm, bias = _last_norm(model), model.backbone.get_output_embeddings().bias
    norm.weight.mul_(scale)
    if norm.bias is not None:
        norm.bias.mul_(scale)
    bias.sub_(shift).mul_(scale)


def _scale(queries: Tensor, passages: Tensor, score: float) -> float:
    """Return the factor on the logits at which pairs score `score` on average, found by bisection."""
    low, high = 1e-4, 1e4
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        asked, given = ((middle * logits).relu().log1p() for logits in (queries, passages))
        low, high = (middle, high) if float((asked * given).sum(1).mean()) < score else (low, middle)
    return float((low * high) ** 0.5)


def _calibrate_unicoil(model: BiEncoder, asked: Padded, given: Padded, score: float) -> None:
    last = model.token_head[-1] if isinstance(model.token_head, nn.Sequential) else model.token_head
    if not isinstance(last, nn.Linear) or model.token_head is None:
        raise InputError("the uniCOIL head does not end in a linear layer, so warmup.score cannot scale it")
    hidden = model.backbone.base_model(input_ids=given.ids, attention_mask=given.mask).last_hidden_state
    outputs = model.token_head(hidden)[given.mask.bool()].float()  # (tokens, 1)
    last.bias.add_(3 * outputs.std() - outputs.mean())  # weights below 0 are rare then
    queries, passages = model(asked.ids, asked.mask).lexical, model(given.ids, given.mask).lexical  # (n, V) each
    factor = (score / (queries * passages).sum(1).mean().clamp(min=1e-6)).sqrt()
    last.weight.mul_(factor)
    last.bias.mul_(factor)


def _masked_batches(
    pool: TokenRows, model: BiEncoder, config: WarmupConfig, seed: int
) -> Iterator[tuple[Padded, Tensor]]:
    device = next(model.parameters()).device
    draw = np.random.default_rng((seed, 2))
    while True:
        rows = [pool[at] for at in draw.integers(len(pool), size=config.batch)]
        texts = padded(rows, model.tokenizer.pad_token_id)
        masked, labels = mask_tokens(texts.ids.numpy(), model.tokenizer, config.mask, draw)
        yield Padded(torch.from_numpy(masked), texts.mask).to(device), torch.from_numpy(labels).to(device)


def mask_tokens(ids: Any, tokenizer: Any, share: float, draw: np.random.Generator) -> tuple[Any, Any]:
    """Mask a share of the tokens as BERT does (80 % [MASK], 10 % random, 10 % unchanged); return ids and labels."""
    chosen = (draw.random(ids.shape) < share) & ~np.isin(ids, tokenizer.all_special_ids)
    how = draw.random(ids.shape)
    other = draw.integers(len(tokenizer), size=ids.shape)
    masked = np.where(chosen & (how < 0.8), tokenizer.mask_token_id, ids)
    masked = np.where(chosen & (how >= 0.9), other, masked)
    return masked, np.where(chosen, ids, IGNORED)


def _logits(model: BiEncoder, hidden: Tensor) -> Tensor:
    for part in mlm_parts(model.backbone):
        hidden = part(hidden)
    return hidden


def _largest_logits(model: BiEncoder, texts: Padded) -> Tensor:
    """Return the largest logit of each token over each text (n, V)."""
    hidden = model.backbone.base_model(input_ids=texts.ids, attention_mask=texts.mask).last_hidden_state
    pairs = zip(hidden, texts.mask.bool(), strict=True)
    return torch.stack([_logits(model, states[real]).amax(0).float() for states, real in pairs])


def _last_norm(model: BiEncoder) -> nn.LayerNorm:
    """Return the layer norm before the decoder."""
    found = [m for part in mlm_parts(model.backbone) for m in part.modules() if isinstance(m, nn.LayerNorm)]
    if not found:
        raise InputError(f"the masked-language head of a {type(model.backbone).__name__} has no layer norm to scale")
    return found[-1]
