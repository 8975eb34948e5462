"""`denslice demo` indexes a folder of files, answers three questions about it, and follows a change to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from denslice.errors import InputError

if TYPE_CHECKING:
    from denslice.index.index import Index

FILES, INDEX = "python", "python.idx"  # in the demo's folder


def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the files and the index in this folder.")
    ] = None,
) -> None:
    """Index a folder of files, answer three questions about it, and follow a change to it."""
    from tempfile import TemporaryDirectory

    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise InputError(f"{keep}: is there already; choose another name")
    with TemporaryDirectory(prefix="denslice-demo-") as temporary:
        place = keep or Path(temporary)
        files = _write_files(place / FILES)
        index = _index(place)
        _ask_questions(index)
        _change_files(index, files)
    _tell_next(keep)


def _write_files(folder: Path) -> list[Path]:
    """Write the docstrings of Python's library as Markdown files, and print how many there are."""
    from denslice.cli.output import console, counted, size
    from denslice.corpus.demo_docs import write_library

    files = write_library(folder)
    version = ".".join(map(str, sys.version_info[:2]))
    stored = size(sum(file.stat().st_size for file in files))
    console().print(f"{counted(len(files), 'Markdown file')}, {stored}: the docstrings of Python {version}'s library")
    return files


def _index(place: Path) -> Index:
    """Index the files, with a progress bar, and print how long it took."""
    from denslice.cli.output import console, counted, file_progress, seconds, size
    from denslice.index.from_files import sync_files
    from denslice.options import ReadOptions

    began = time.perf_counter()
    with file_progress("indexing") as bar:
        index, done = sync_files([place / FILES], place / INDEX, {}, ReadOptions(), bar, 0.0)
        assert index is not None
        index.search("warm up")  # loads compiled code, if it is there
    took, stored = seconds(time.perf_counter() - began), size(index.info().bytes)
    told = f"indexed {counted(done.documents, 'document')} ({counted(done.encoded, 'passage')})"
    console().print(f"{told} in {took}, {stored} on disk")
    return index


def _ask_questions(index: Index) -> None:
    from rich.text import Text

    from denslice.cli.hits_output import print_hits, shown_hits
    from denslice.cli.output import console, seconds
    from denslice.corpus.demo_docs import QUESTIONS
    from denslice.search.matches import text_analyzer

    out, analyze = console(), text_analyzer(index.info().encoder_options, index.info().languages)
    for question in QUESTIONS:
        began = time.perf_counter()
        ranking = index.search(question, 2)
        took = seconds(time.perf_counter() - began)
        out.print(Text.assemble("\n", (f"“{question}”", "bold"), (f"  {took}", "dim")))
        print_hits(out, shown_hits(index, ranking, explain=True), ranking.tokens(), analyze)


def _change_files(index: Index, files: Sequence[Path]) -> None:
    """Change, rename and delete a file, and bring the index up to date."""
    from denslice.cli.output import console, seconds
    from denslice.cli.sync_command import sync_line

    changed, renamed, deleted = files[0], files[1], files[2]
    with changed.open("a", encoding="utf-8") as file:
        file.write("\n## A note of my own\n\nRead this again before the next release.\n")
    renamed.rename(renamed.with_name(f"old-{renamed.name}"))
    deleted.unlink()
    began = time.perf_counter()
    done = index.sync()
    took = seconds(time.perf_counter() - began)
    out = console()
    out.print("\nNow a file is changed, one renamed and one deleted, and the index follows:")
    out.print(sync_line(done, took), soft_wrap=True)


def _tell_next(keep: Path | None) -> None:
    from denslice.cli.output import console

    out = console()
    out.print("\nEach bar shows what a token added to the score (query weight × document weight), or the dense score.")
    out.print("Next, search files of your own:")
    out.print("  denslice index your-files/ --to my.idx")
    out.print("  denslice search my.idx your question --explain")
    if keep is None:
        out.print("or keep these files and their index, and search them again:")
        out.print("  denslice demo --keep demo")
    else:
        out.print("or search this index again:")
        out.print(f"  denslice search {keep / INDEX} how do I sort a list")
