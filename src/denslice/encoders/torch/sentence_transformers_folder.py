"""The folder layout of sentence-transformers, which is read and written here without that package.

`modules.json` lists the steps from text to vector. Their names have two spellings: "old" up to version 5.3 and "new"
since. Only the last part of a name matters, so both are read alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.model_folder import (
    MODULES_FILE,
    PICKLED_WEIGHTS,
    SAFE_WEIGHTS,
    ModelFolder,
    load_weights,
    read_json,
)
from denslice.errors import InputError

SPELLINGS = ("new", "old")
MODULE_NAMES = {  # module: its old name, its new name
    "Transformer": ("models.Transformer", "base.modules.transformer.Transformer"),
    "MLMTransformer": ("sparse_encoder.models.MLMTransformer", "base.modules.transformer.Transformer"),
    "SpladePooling": ("sparse_encoder.models.SpladePooling", "sparse_encoder.modules.splade_pooling.SpladePooling"),
    "Pooling": ("models.Pooling", "sentence_transformer.modules.pooling.Pooling"),
    "Dense": ("models.Dense", "base.modules.dense.Dense"),
    "Normalize": ("models.Normalize", "base.modules.normalize.Normalize"),
}
SETTINGS_FILE = "config_sentence_transformers.json"
TRANSFORMER_FILE = "sentence_bert_config.json"
OLD_POOLINGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
DOC_PROMPTS = ("document", "passage", "corpus")
CHAINS = (
    ["Transformer", "SpladePooling"],
    ["Transformer", "Pooling"],
    ["Transformer", "Pooling", "Normalize"],
    ["Transformer", "Pooling", "Dense"],
    ["Transformer", "Pooling", "Dense", "Normalize"],
)
READABLE = "Transformer and SpladePooling, or Transformer and Pooling with Dense and Normalize after it if need be"
NO_LIMIT = 1 << 20  # tokens: as many as the backbone takes


def read_sentence_transformers(folder: Path) -> ModelFolder:
    """Read the folder of a SparseEncoder (SPLADE) or of a dense SentenceTransformer."""
    modules = _modules(folder)
    body = modules["Transformer"]
    if "SpladePooling" in modules:
        _check_splade(modules["SpladePooling"])
        return ModelFolder(body, ModelConfig(lexical="splade", **_limits(folder, body)))
    heads = _dense_weights(modules["Dense"]) if "Dense" in modules else {}
    config = ModelConfig(
        dense=_pooling(modules["Pooling"]),
        dimensions=len(heads["projection.weight"]) if heads else None,
        normalise="Normalize" in modules,
        **_limits(folder, body),
    )
    return ModelFolder(body, config, heads)


def body_folder(folder: Path) -> Path:
    """Return the folder of the backbone and tokenizer: the folder itself, or that in its modules.json."""
    return _modules(folder)["Transformer"] if (folder / MODULES_FILE).is_file() else folder


def lowers_case(body: Path) -> bool:
    """Return whether the case of texts is lowered before the tokenizer reads them."""
    return bool(_transformer_settings(body).get("do_lower_case", False))


def write_sentence_transformers(
    folder: Path, config: ModelConfig, width: int, heads: Mapping[str, Tensor], has_pooler: bool, names: str
) -> None:
    """Write the files that `SparseEncoder(folder)` or `SentenceTransformer(folder)` needs; none for other models.

    `has_pooler` is true if the backbone's class has a pooling layer, which the saved weights lack.
    """
    if config.lexical == "splade" and config.dense == "none":
        modules = {"MLMTransformer": "", "SpladePooling": "1_SpladePooling"}
        pooling = {"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": None}
        _write_json(folder / "1_SpladePooling" / "config.json", pooling)
    elif config.lexical == "none":
        modules = _write_dense(folder, config, width, heads)
    else:
        return
    is_sparse = config.lexical == "splade"
    _write_json(folder / MODULES_FILE, [_entry(*module, names) for module in enumerate(modules.items())])
    _write_json(folder / TRANSFORMER_FILE, _transformer(config, is_sparse, has_pooler, names))
    similarity = "cosine" if config.normalise else "dot"
    kind = "SparseEncoder" if is_sparse else "SentenceTransformer"
    prompts = {"query": config.query_prompt, "document": config.doc_prompt}
    _write_json(folder / SETTINGS_FILE, {"model_type": kind, "prompts": prompts, "similarity_fn_name": similarity})


def _modules(folder: Path) -> dict[str, Path]:
    """Return the folder of each module by its kind, in order; raise InputError if denslice cannot read the chain."""
    entries = read_json(folder / MODULES_FILE)
    kinds = [_kind(entry, folder) for entry in entries]
    if kinds not in CHAINS:
        raise InputError(f"{folder / MODULES_FILE} lists {', '.join(kinds)}; denslice reads {READABLE}")
    return {kind: folder / entry["path"] for kind, entry in zip(kinds, entries, strict=True)}


def _kind(entry: Mapping[str, Any], folder: Path) -> str:
    """Return the class name of a module, without its package; both classes of transformers are `Transformer`."""
    package, _, name = str(entry.get("type")).rpartition(".")
    if package.partition(".")[0] != "sentence_transformers" or name not in MODULE_NAMES or "path" not in entry:
        raise InputError(f"{folder / MODULES_FILE}: cannot read a module of type {entry.get('type')}")
    return "Transformer" if name == "MLMTransformer" else name


def _check_splade(folder: Path) -> None:
    settings = read_json(folder / "config.json")
    way = settings.get("pooling_strategy", "max"), settings.get("activation_function", "relu")
    if way != ("max", "relu"):
        raise InputError(f"{folder / 'config.json'}: SPLADE pools by {way[0]} of {way[1]}; denslice by max of relu")


def _pooling(folder: Path) -> str:
    settings = read_json(folder / "config.json")
    mode = settings.get("pooling_mode")
    if mode is None:
        modes = [OLD_POOLINGS.get(key, key) for key, on in settings.items() if key.startswith("pooling_mode_") and on]
        mode = modes[0] if len(modes) == 1 else modes or "mean"
    if mode not in ("cls", "mean") or not settings.get("include_prompt", True):
        raise InputError(f"{folder / 'config.json'}: pooling {mode}; denslice pools cls or mean, prompt included")
    return str(mode)


def _dense_weights(folder: Path) -> dict[str, Tensor]:
    settings = read_json(folder / "config.json")
    activation = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if not activation.endswith(".Identity") or settings.get("use_residual"):
        raise InputError(f"{folder / 'config.json'}: a projection by {activation}; denslice projects linearly")
    safe, old = folder / SAFE_WEIGHTS, folder / PICKLED_WEIGHTS
    weights = load_weights(old if old.is_file() and not safe.is_file() else safe)
    if "linear.weight" not in weights:
        raise InputError(f"the weights in {folder} have no linear.weight")
    return {name.replace("linear.", "projection."): tensor for name, tensor in weights.items()}


def _limits(folder: Path, body: Path) -> dict[str, Any]:
    """Return the longest text and the prompts; sentence-transformers has one limit for queries and documents."""
    length = _transformer_settings(body).get("max_seq_length") or NO_LIMIT
    if length == NO_LIMIT and (body / "tokenizer_config.json").is_file():
        length = min(int(read_json(body / "tokenizer_config.json").get("model_max_length") or NO_LIMIT), NO_LIMIT)
    settings = read_json(folder / SETTINGS_FILE) if (folder / SETTINGS_FILE).is_file() else {}
    prompts = settings.get("prompts") or {}
    doc, query = next((prompts[name] for name in DOC_PROMPTS if name in prompts), ""), prompts.get("query", "")
    return {"max_length": length, "query_length": length, "query_prompt": query, "doc_prompt": doc}


def _transformer_settings(body: Path) -> dict[str, Any]:
    """Return the settings of the transformer module; older versions named the file after the kind of model."""
    files = sorted(body.glob("sentence_*_config.json"), key=lambda path: path.name != TRANSFORMER_FILE)
    return dict(read_json(files[0])) if files else {}


def _write_dense(folder: Path, config: ModelConfig, width: int, heads: Mapping[str, Tensor]) -> dict[str, str]:
    """Write the modules behind the transformer, and return the folder of every module."""
    modes = {key: mode == config.dense for key, mode in OLD_POOLINGS.items()}
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    modules = {"Transformer": "", "Pooling": "1_Pooling"}
    if config.dimensions is not None:
        _write_projection(folder / "2_Dense", heads)
        modules["Dense"] = "2_Dense"
    if config.normalise:
        modules["Normalize"] = f"{len(modules)}_Normalize"
        _write_json(folder / modules["Normalize"] / "config.json", {})
    return modules


def _write_projection(folder: Path, heads: Mapping[str, Tensor]) -> None:
    weights = {name.replace("projection.", "linear."): heads[name] for name in heads if name.startswith("projection.")}
    out, into = weights["linear.weight"].shape
    settings = {"in_features": into, "out_features": out, "bias": "linear.bias" in weights}
    _write_json(folder / "config.json", settings | {"activation_function": "torch.nn.modules.linear.Identity"})
    save_file(weights, folder / "model.safetensors")


def _entry(at: int, module: tuple[str, str], names: str) -> dict[str, Any]:
    if names not in SPELLINGS:
        raise InputError(f"names is {names!r}, expected one of {', '.join(SPELLINGS)}")
    kind, path = module
    old, new = MODULE_NAMES[kind]
    spelled = new if names == "new" else old
    return {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.{spelled}"}


def _transformer(config: ModelConfig, is_sparse: bool, has_pooler: bool, names: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_seq_length": config.max_length, "do_lower_case": False}
    if has_pooler:
        settings["model_args"] = {"add_pooling_layer": False}
    if is_sparse and names == "new":
        reads = {"text": {"method": "forward", "method_output_name": "logits"}}
        settings |= {"transformer_task": "fill-mask", "modality_config": reads}
        settings["module_output_name"] = "token_embeddings"
    return settings


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
