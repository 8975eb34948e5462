"""`denslice demo` makes an index of the docstrings of Python's standard library, and searches it three times."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from denslice.index.index import Index


def demo(
    keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep the index in this folder.")] = None,
) -> None:
    """Index the docstrings of Python's standard library and answer three questions about it."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="denslice-demo-") as temporary:
        index = _demo_index(keep or Path(temporary, "python.idx"))
        _demo_questions(index)
    _demo_next(keep)


def _demo_index(to: Path) -> Index:
    """Make an index of Python's docstrings, with a progress bar, and print how long it took."""
    from denslice.cli.output import console, counted, progress_bar, seconds, size
    from denslice.corpus.demo_docs import stdlib_docs
    from denslice.index.from_files import new_index

    began = time.perf_counter()
    with progress_bar("reading Python's docstrings") as bar:
        docs = list(bar.over(stdlib_docs()))
    read = time.perf_counter()
    with progress_bar("indexing", len(docs)) as bar:
        index = new_index(to, {}, lambda index: index.add(docs, progress=bar.advance))
        index.search("warm up")  # loads the kernels, or compiles them the first time
    done = time.perf_counter()
    out = console()
    version = ".".join(map(str, sys.version_info[:2]))
    out.print(f"{counted(len(docs), 'docstring')} of Python {version}'s standard library")
    out.print(f"read in {seconds(read - began)}, indexed in {seconds(done - read)}, {size(index.info().bytes)} on disk")
    return index


def _demo_questions(index: Index) -> None:
    from rich.text import Text

    from denslice.cli.hits_output import print_hits, shown_hits
    from denslice.cli.output import console, seconds
    from denslice.corpus.demo_docs import QUESTIONS
    from denslice.search.matches import text_analyzer

    out, analyze = console(), text_analyzer(index.info().encoder_options)
    for question in QUESTIONS:
        began = time.perf_counter()
        ranking = index.search(question, 3)
        took = seconds(time.perf_counter() - began)
        out.print(Text.assemble("\n", (f"“{question}”", "bold"), (f"  {took}", "dim")))
        print_hits(out, shown_hits(index, ranking, explain=True), ranking.tokens(), analyze)


def _demo_next(keep: Path | None) -> None:
    from denslice.cli.output import console

    out = console()
    out.print("\nEach bar shows what a token added to the score (query weight × document weight), or the dense score.")
    out.print("Next, search text of your own:")
    out.print("  denslice index your-files/ --to my.idx")
    out.print("  denslice search my.idx your question --explain")
    if keep is None:
        out.print("or keep this index and search it again:")
        out.print("  denslice demo --keep python.idx")
    else:
        out.print("or search this index again:")
        out.print(f'  denslice search {keep} "how do I sort a list?"')
