"""`denslice run`: a file of queries to a TREC run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from denslice.cli.arguments import (
    Candidates,
    Caution,
    Device,
    IndexFolder,
    Lam,
    LeaveOut,
    Mode,
    Theta,
    Where,
    open_folder,
    parsed_filter,
)


def run(
    folder: IndexFolder,
    queries: Annotated[str, typer.Argument(metavar="QUERIES", help="TSV, JSONL or a BEIR folder.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The TREC run file to write, gzipped if it ends in .gz.")],
    k: Annotated[int, typer.Option("-k", help="How many documents for each query.")] = 1000,
    theta: Theta = 0.0,
    candidates: Candidates = 10_000,
    mode: Mode = None,
    lam: Lam = None,
    caution: Caution = 1.0,
    where: Where = None,
    device: Device = "cpu",
    leave_out: LeaveOut = "",
) -> None:
    """Answer a file of queries into a TREC run."""
    from denslice.cli.output import counted, progress_bar, seconds, write_line
    from denslice.corpus.documents import read_queries
    from denslice.corpus.runs import write_run

    index, asked = open_folder(folder, device, leave_out), list(read_queries(queries))
    began = time.perf_counter()
    with progress_bar("searching", len(asked)) as bar:
        how: dict[str, Any] = {"theta": theta, "candidates": candidates, "mode": mode, "lam": lam, "caution": caution}
        rankings = index.rank(asked, k, where=parsed_filter(where), **how)
        lines = write_run(out, bar.over(rankings))
    took = seconds(time.perf_counter() - began)
    write_line(f"answered {counted(len(asked), 'query')} into {out} ({counted(lines, 'line')}, {took})")
