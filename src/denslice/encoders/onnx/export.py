"""`denslice export`: it writes a trained word model to a folder that onnxruntime and tokenizers can run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from denslice.encoders.model_config import CONFIG_FILE
from denslice.encoders.onnx.nodes import LEAST_RANGE, LayerInputs
from denslice.encoders.onnx_model import ONNX_FILE, TOKENIZER_FILE
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError, MissingExtraError


def export_onnx(path_or_hub_id: str | Path, to: Path, texts: Sequence[str] | None = None) -> None:
    """Write the model's graph, tokenizer and settings to a new folder.

    With `texts`, which should resemble those it will encode, weights are in int8: the range of the activations is
    measured on them.
    """
    try:
        import onnx

        from denslice.encoders.onnx.graph import Body, graph_of
    except ModuleNotFoundError as error:
        raise MissingExtraError("exporting a model", "export") from error
    model = BiEncoder.load(path_or_hub_id)
    _check(model)
    body = model.backbone.base_model
    inputs = None if texts is None else _measured(model, texts)
    weights = {name: value.detach().cpu().numpy() for name, value in body.state_dict().items()}
    named = ((name.removeprefix("token_head."), p) for name, p in model.state_dict().items() if "token_head." in name)
    head = {name: value.detach().cpu().numpy() for name, value in named}  # by their names within the head
    config, settings = model.config, body.config
    size = settings.hidden_size // settings.num_attention_heads
    how = (size, settings.layer_norm_eps, config.dense, config.normalise, config.max_length)
    graph = graph_of(Body(weights, *how, inputs=inputs), head)
    to.mkdir(parents=True, exist_ok=True)
    if any(to.iterdir()):
        raise InputError(f"{to}: the folder is not empty; choose another name")
    try:
        onnx.save(graph, to / ONNX_FILE)
        tokenizer = model.tokenizer.backend_tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.save(str(to / TOKENIZER_FILE), pretty=False)
        (to / CONFIG_FILE).write_text(json.dumps(model.config.to_json(), indent=2) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise


def _check(model: BiEncoder) -> None:
    kind = model.backbone.config.model_type
    if kind != "bert" or model.config.lexical != "words" or model.config.dense == "none":
        found = f"{kind} with lexical {model.config.lexical} and dense {model.config.dense}"
        raise InputError(f"only a BERT that weighs words and has a dense vector can be exported, not {found}")
    if model.projection is not None:
        raise InputError("a model with a projection of its dense vector cannot be exported")
    if model.backbone.config.hidden_act != "gelu":
        raise InputError(f"a BERT with {model.backbone.config.hidden_act} cannot be exported, only one with gelu")


def _measured(model: BiEncoder, texts: Sequence[str]) -> dict[str, LayerInputs]:
    """Return what each linear layer of the body is given, over the texts."""
    length = model.config.max_length
    cut = (model.tokenizer(text.lower(), truncation=True, max_length=length, return_tensors="pt") for text in texts)
    found = inputs_of(model.backbone.base_model, (pieces["input_ids"] for pieces in cut))
    if not found:
        raise InputError("there is no text to measure the model on, which int8 needs; give a file with documents")
    return found


def inputs_of(body: nn.Module, texts: Iterable[Tensor]) -> dict[str, LayerInputs]:
    """Return what each linear layer of a body is given, over texts (1, L) in pieces."""
    channels: dict[str, Tensor] = {}
    pieces: dict[str, list[Tensor]] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def keep(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            sizes = inputs[0].abs().flatten(0, -2)
            largest = sizes.amax(0)
            channels[name] = torch.maximum(channels[name], largest) if name in channels else largest
            pieces.setdefault(name, []).append(sizes.amax(1))

        return keep

    layers = [(name, part) for name, part in body.named_modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(watch(name)) for name, part in layers]
    with torch.inference_mode():
        for ids in texts:
            body(input_ids=ids)
    for hook in hooks:
        hook.remove()
    return {
        name: LayerInputs(largest.numpy(), unevenness(torch.cat(pieces[name]))) for name, largest in channels.items()
    }


def unevenness(sizes: Tensor) -> float:
    """Return the largest size over the usual one."""
    return float(sizes.max() / sizes.median().clamp(min=LEAST_RANGE))
