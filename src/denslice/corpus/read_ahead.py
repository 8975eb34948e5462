"""Documents of large files that the user named, which other processes read and cut while this one encodes.

What is read is what `read_docs` yields, and errors are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from denslice.cores import cores
from denslice.corpus.compression import ending
from denslice.corpus.datasets import is_dataset
from denslice.corpus.documents import STDIN, named_file_docs
from denslice.corpus.folder_walk import beir_corpus
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.reading_frames import FoundPassages
from denslice.corpus.reading_pool import FileRead, FileTask, start_reading
from denslice.corpus.roots import Root, located
from denslice.errors import InputError

LINES = (".jsonl", ".ndjson", ".tsv")  # formats of a document in each line, which need little memory
SMALLEST = 8 << 20  # bytes of all files; fewer are read in less time than a process takes to start
log = logging.getLogger(__name__)
Reads = Generator[FileRead, None, None]


def can_read_ahead(names: Sequence[str]) -> bool:
    """Return whether the inputs are files of lines, and so large that another process should read them."""
    if cores() == 1 or any(name == STDIN or is_dataset(name) for name in names):
        return False
    paths = list(map(_file, names))
    are_lines = all(path.is_file() and ending(path) in LINES for path in paths)
    return are_lines and sum(path.stat().st_size for path in paths) >= SMALLEST


def read_ahead(names: Sequence[str], text_field: str | None, do_cut: bool) -> Iterator[FoundPassages]:
    """Return the documents of files, each with its passages if they are cut, in the order of the names.

    Reading begins at once.
    """
    roots: list[Root] = []
    files = [_source(_file(name), text_field, roots) for name in names]
    tasks = [FileTask(str(one.path), one.name, text_field, strict=True, place=one.place) for one in files]
    return _distinct(start_reading(tasks, do_cut), dict(zip(tasks, files, strict=True)))


def _distinct(reads: Reads, files: Mapping[FileTask, SourceFile]) -> Iterator[FoundPassages]:
    """Yield the documents that were read; raise InputError at an id that was used before, or at another problem."""
    seen: set[str] = set()
    with closing(reads):
        for read in reads:
            for doc, places in read.docs:
                if doc.id in seen:
                    raise _used_twice(files[read.task], doc.id)
                seen.add(doc.id)
                yield doc, places
            _tell(read)


def _file(name: str) -> Path:
    path = Path(name)
    return (beir_corpus(path) if path.is_dir() else None) or path


def _source(path: Path, text_field: str | None, roots: list[Root]) -> SourceFile:
    root, within = located(path, roots, False)
    roots.append(root)
    return SourceFile(path, root.id_of(within), text_field, strict=True, place=str(path))


def _tell(read: FileRead) -> None:
    """Raise InputError at what ended the reading of a file, and log what is remarkable about it."""
    for problem in read.problems:
        absolute = str(Path(read.task.path).absolute())
        told = problem.problem if problem.place == read.task.place else f"{read.task.place}: {problem.problem}"
        raise InputError(told.replace(absolute, read.task.place, 1))
    for remark in read.remarks:
        log.info("note: %s", remark)


def _used_twice(file: SourceFile, id: str) -> InputError:
    """Return the error for an id that an earlier document has; the file is read again to find the line."""
    places = [place for place, doc in named_file_docs(file) if doc.id == id][:2]
    return InputError(f"{places[-1]}: document id {id!r} was already used; ids must be unique")
