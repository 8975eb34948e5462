"""A model's folder may hold Python code, and none of it is ever run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from denslice.encoders.torch.backbone import load_tokenizer
from denslice.errors import InputError
from small_models import make_tokenizer


def test_the_code_of_a_tokenizer_is_refused_without_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ran = tmp_path / "model", tmp_path / "ran"
    make_tokenizer().save_pretrained(model)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    (model / "own.py").write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    monkeypatch.setattr("builtins.input", lambda question: "y")  # a user who agrees to whatever transformers asks
    with pytest.raises(InputError, match="custom code"):
        load_tokenizer(model)
    assert not ran.exists()
