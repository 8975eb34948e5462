"""Every adapter names its extra if its library is missing; test_adapters_*.py run them with the real libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("module", "needs", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("haystack", "haystack", "haystack"),
        ("llama_index", "llama_index", "llama-index"),
        ("pyterrier", "pyterrier", "pyterrier"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(module: str, needs: str, extra: str) -> None:
    code = f"import sys; sys.modules[{needs!r}] = None; import denslice.adapters.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path.cwd())
    assert f"pip install 'denslice[{extra}]'" in done.stderr
