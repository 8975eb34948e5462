"""One JSON line for each benchmark run: what was measured, of which commit, on what, with what.

Lines are appended to benchmarks/results/NAME.jsonl and never rewritten; a figure in the docs names its line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denslice import provenance

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MEASURED = ("src", "benchmarks", ":!benchmarks/results")  # a run's own line does not make the next one dirty


def append(name: str, packages: Sequence[str], configuration: Mapping[str, Any], figures: Any) -> str:
    """Appends the line; where it stands, as `benchmarks/results/NAME.jsonl:LINE`."""
    settings = {name: _nameless(value) for name, value in configuration.items()}
    line = provenance.provenance(packages, MEASURED) | {"configuration": settings, "figures": figures}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    number = len(path.read_text(encoding="utf-8").splitlines())
    return f"{path.relative_to(ROOT).as_posix()}:{number}"


def commit() -> str:
    """The commit that is measured, with "+dirty" where measured files differ from it."""
    return provenance.commit(MEASURED)


def _nameless(value: Any) -> Any:
    """A setting without the folders of this machine: of a path, only its last part."""
    if isinstance(value, list | tuple):
        return [_nameless(one) for one in value]
    is_path = isinstance(value, Path) or (isinstance(value, str) and "/" in value and Path(value).exists())
    return Path(value).name if is_path else value
