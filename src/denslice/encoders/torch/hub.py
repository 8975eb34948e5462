"""The folder of a model: a local one, or a snapshot in the cache of the Hugging Face hub, named by its revision."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from denslice.errors import InputError, MissingExtraError

DOWNLOADED = ["*.json", "*.txt", "*.md", "*.model", "*.safetensors"]
NOT_DOWNLOADED = ["onnx/*", "openvino/*", "*checkpoint*"]


def local_folder(path_or_hub_id: str | Path) -> Path:
    """Return the folder itself, or the local snapshot of the hub's model, which is downloaded if need be."""
    folder = Path(path_or_hub_id).expanduser()
    if folder.is_dir():
        return folder
    name = str(path_or_hub_id)
    if folder.exists():
        raise InputError(f"{name} is a file; a model is a folder")
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise InputError(f"no model folder {name}")
    return hub_snapshot(name)


def hub_snapshot(name: str, revision: str | None = None) -> Path:
    """Return the snapshot of a model on the hub, of this revision or the newest; offline, that of the cache."""
    try:
        from huggingface_hub import is_offline_mode
        from huggingface_hub.errors import HFValidationError
    except ModuleNotFoundError as error:
        raise MissingExtraError("a transformer model", "torch") from error

    wanted = f"{name} at revision {revision}" if revision else name
    try:
        return _downloaded(name, revision)
    except HFValidationError:
        raise InputError(f"no model folder {name}, and it is not a valid name on the Hugging Face hub") from None
    except OSError as error:
        if is_offline_mode():
            raise InputError(
                f"no model folder {wanted}; as a name on the Hugging Face hub it is not in this machine's cache, and "
                "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids downloading it"
            ) from None
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"no model folder {wanted}, and the Hugging Face hub did not return it: {reason}") from None


def _downloaded(name: str, revision: str | None) -> Path:
    """Download the model to the hub's cache and return its folder; pickled weights only if there are no others."""
    from huggingface_hub import snapshot_download

    download = partial(snapshot_download, name, revision=revision, ignore_patterns=NOT_DOWNLOADED)
    folder = Path(download(allow_patterns=DOWNLOADED))
    if not any(folder.rglob("*.safetensors")):
        download(allow_patterns=["*pytorch_model*"])
    return folder
