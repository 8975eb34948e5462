"""`denslice run` answers a file of queries and writes a TREC run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from denslice.cli.arguments import IndexFolder, flags, open_folder, parsed, taken
from denslice.options import PAGE_OPTIONS, OpenOptions, SearchOptions


@flags(OpenOptions)
@flags(SearchOptions, but_for=["group", *PAGE_OPTIONS], k=1000)  # a run ranks documents
def run(
    folder: IndexFolder,
    file: Annotated[str, typer.Argument(metavar="QUERIES", help="TSV, JSONL or a BEIR folder.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="TREC run file to write, gzipped if it ends in .gz.")],
    **options: Any,
) -> None:
    """Answer a file of queries and write a TREC run."""
    from denslice.cli.output import counted, progress_bar, seconds, write_line
    from denslice.corpus.documents import read_queries
    from denslice.corpus.runs import write_run

    index, asked = open_folder(folder, taken(OpenOptions, options)), list(read_queries(file))
    began = time.perf_counter()
    with progress_bar("searching", len(asked)) as bar:
        lines = write_run(out, bar.over(index.rank(asked, **parsed(options))))
    took = seconds(time.perf_counter() - began)
    write_line(f"answered {counted(len(asked), 'query')} into {out} ({counted(lines, 'line')}, {took})")
