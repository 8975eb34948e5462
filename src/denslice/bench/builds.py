"""Builds contenders, each in a process of its own, and caches their files with what the build took.

WORK/COLLECTION/CONTENDER-… holds the files and about.json, which is written last, so an interrupted build starts again.
Later runs reuse a finished build, and their lines say when it was made.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from denslice.bench.bench_data import Collection
from denslice.bench.contender import Contender
from denslice.provenance import provenance
from denslice.store.files import replace_file

ABOUT = "about.json"
THREADS = tuple(f"{library}_NUM_THREADS" for library in ("NUMBA", "OMP", "OPENBLAS", "MKL", "RAYON"))
Result = TypeVar("Result")


def built(contender: Contender, collection: Collection, work: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder a contender searches in and what its build took; build it if it does not exist."""
    digest = sha256(json.dumps(dict(contender.parameters), sort_keys=True).encode()).hexdigest()
    folder = work / collection.name / f"{contender.built_as}-{digest[:8]}"
    about = folder / ABOUT
    if not about.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        made = apart(_build, contender, replace(collection), folder)
        replace_file(about, (json.dumps(made, indent=2) + "\n").encode())
        return folder, made | {"kept": False}
    known: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
    return folder, known | {"kept": True}


def apart(function: Callable[..., Result], *arguments: object, threads: int | None = None) -> Result:
    """Call the function in a fresh process whose libraries use this many threads, and return its result."""
    settings = {} if threads is None else dict.fromkeys(THREADS, str(threads))
    # the new process has these variables before its libraries load
    with patch.dict(os.environ, settings), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _build(contender: Contender, collection: Collection, folder: Path) -> dict[str, Any]:
    contender.prepare(collection, folder)
    start = time.perf_counter()
    contender.build(collection, folder)
    took = time.perf_counter() - start
    files = {path for pattern in contender.files for path in folder.glob(pattern) if path.is_file()}
    return {
        "contender": contender.name,
        "parameters": dict(contender.parameters),
        "build_s": round(took, 2),
        "peak_gb": round(peak_bytes() / 1e9, 3),
        "bytes": sum(path.stat().st_size for path in files),
        "made": provenance(contender.packages),
    }


def peak_bytes() -> int:
    """Return this process's peak memory. The kernel's count is used because ru_maxrss starts from the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
