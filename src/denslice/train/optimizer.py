"""The optimizer: parameter groups for the body and the heads, and the learning rate of each step."""

from __future__ import annotations

import math
from typing import Any

import torch

from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.train.config import OptimizerConfig


def make_optimizer(model: BiEncoder, config: OptimizerConfig) -> torch.optim.AdamW:
    """Return AdamW over the heads and, unless it is frozen, the body. Each group keeps its full rate as `top_lr`."""
    body = list(model.backbone.base_model.parameters())
    in_body = {id(parameter) for parameter in body}
    heads = [parameter for parameter in model.parameters() if id(parameter) not in in_body]
    body_lr = config.lr if config.body_lr is None else config.body_lr
    for parameter in body:
        parameter.requires_grad_(body_lr > 0)
    groups = [(heads, config.lr), (body, body_lr)] if body_lr > 0 else [(heads, config.lr)]
    used = [{"params": params, "top_lr": rate} for params, rate in groups if params]
    fused = next(model.parameters()).is_cuda
    return torch.optim.AdamW(used, lr=config.lr, weight_decay=config.weight_decay, fused=fused)


def train_mode(model: BiEncoder, config: OptimizerConfig) -> None:
    """Turn dropout on, except in a frozen body, whose output should be the same as in search."""
    model.train()
    if config.body_lr == 0:
        model.backbone.base_model.eval()


def set_rate(optimizer: Any, config: OptimizerConfig, step: int) -> float:
    """Set the learning rate of every group for the step and return that of the heads."""
    for group in optimizer.param_groups:
        group["lr"] = group["top_lr"] * _share(config, step)
    return config.lr * _share(config, step)


def _share(config: OptimizerConfig, step: int) -> float:
    """Return the fraction of the full rate: it rises over the warm-up steps and then follows the schedule."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    gone = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return 1 - gone if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * gone))
