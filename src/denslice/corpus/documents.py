"""The readers of documents, queries and ready vectors in all input formats. Those of runs and qrels are in runs.py.

Files are streamed. Each record comes with the place it was read from, which errors name.
"""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from denslice.corpus.compression import ending
from denslice.corpus.datasets import is_dataset, load_dataset
from denslice.corpus.file_docs import file_docs, format_of
from denslice.corpus.folder_walk import beir_corpus, walk
from denslice.corpus.formats.source_file import Problem, SourceFile
from denslice.corpus.lines import parse_json_object, read_lines, reading
from denslice.corpus.reading_pool import FileTask, read_files
from denslice.corpus.roots import Root, located
from denslice.corpus.stdin_file import copied_pipe, copied_stdin
from denslice.errors import InputError, UnreadableError, warn
from denslice.queries import Query
from denslice.records import Doc, checked_id
from denslice.vectors import lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

STDIN = "-"
log = logging.getLogger(__name__)
BEIR_QUERIES = "queries.jsonl"

Unparsed = TypeVar("Unparsed")
Record = TypeVar("Record", Doc, Query)
Placed = tuple[str, Record]  # the place of a record, as errors name it, and the record


def read_docs(
    paths: Sequence[str | Path], text_field: str | None = None, report: Callable[[Problem], None] | None = None
) -> Iterator[Doc]:
    """Yield the documents of files, folders and `ir_datasets:` names, in the order of the paths.

    The name `-` means stdin. A BEIR folder is its corpus. A path that does not exist raises InputError at once, a bad
    line in a file that was named when it is reached. What is skipped in a folder is reported, by default as a warning.
    """
    if isinstance(paths, str | Path):
        raise InputError(f"read_docs takes a list of paths, found the single path {str(paths)!r}")
    roots: list[Root] = []
    sources = [_doc_source(path, text_field, report or warn_of, roots) for path in paths]
    return distinct_docs(chain.from_iterable(sources))


def distinct_docs(placed: Iterable[Placed[Doc]]) -> Iterator[Doc]:
    """Yield the documents without their places; raise InputError at the second place of an id."""
    return _distinct(placed, "document")


def read_queries(path: str | Path) -> Iterator[Query]:
    """Yield the queries of a file, a BEIR folder or an `ir_datasets:` name."""
    return _distinct(_query_source(path), "query")


def read_vectors(path: str | Path, vocab: int | None = None) -> tuple[list[str], sp.csr_array]:
    """Return the ids and the lexical weights (n, vocabulary) of a scipy `.npz` file.

    The ids are an array `ids` of strings in the same file, or the lines of `NAME.ids.txt` beside it.
    """
    path = Path(path)
    matrix, ids = _load_npz(path)
    ids = _ids_beside(path) if ids is None else ids
    if len(ids) != matrix.shape[0]:
        raise InputError(f"{path}: {matrix.shape[0]:,} vectors, but ids for {len(ids):,}")
    try:
        with np.errstate(over="ignore"):  # weights too large for float32 become infinite, which is an error
            return ids, lexical_csr(matrix, vocab)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def is_collection(name: str | Path) -> bool:
    """Return whether an input is a collection of documents with ids of their own: a table, BEIR, `ir_datasets:`, stdin.

    Raise InputError if it does not exist.
    """
    if is_dataset(name) or str(name) == STDIN:
        return True
    path = Path(name)
    if is_folder(path):
        return beir_corpus(path) is not None
    return format_of(path).many or not path.is_file()


# --- sources of documents


def _doc_source(
    name: str | Path, text_field: str | None, report: Callable[[Problem], None], roots: list[Root]
) -> Iterator[Placed[Doc]]:
    if is_dataset(name):
        return _records(str(name), enumerate(load_dataset(str(name), "docs").docs_iter(), 1), _ir_doc, "documents")
    if str(name) == STDIN:
        return _stream_docs(copied_stdin, "stdin", "stdin", text_field)
    path = Path(name)
    if is_folder(path) and (corpus := beir_corpus(path)):
        path = corpus
    root, within = located(path, roots, path.is_dir())
    roots.append(root)
    if path.is_dir():
        tasks = [FileTask(str(file.path), root.id_of(file.relative), text_field) for file in walk(path, report)]
        if not tasks:
            raise InputError(f"{path}: nothing to read in this folder; hidden and ignored files are left out")
        return ((doc.id, doc) for doc in folder_docs(tasks, report))
    if not path.is_file():
        return _stream_docs(partial(copied_pipe, path), root.id_of(within), str(path), text_field)
    return named_file_docs(SourceFile(path, root.id_of(within), text_field, strict=True, place=str(path)))


def named_file_docs(file: SourceFile) -> Iterator[Placed[Doc]]:
    """Yield the documents of a file that the user named; raise InputError if it has none, or at what is wrong in it."""
    count = 0
    try:
        for doc in file_docs(file):
            count += 1
            yield file.place if file.line is None else f"{file.place}:{file.line}", doc
    except UnreadableError as error:
        if file.end is None:  # a part may be blank
            raise InputError(f"{file.place}: {error}") from None
    for remark in file.remarks:
        log.info("note: %s", remark)
    if not count and file.end is None:
        raise InputError(f"{file.place}: has no documents")


def folder_docs(tasks: Iterable[FileTask], report: Callable[[Problem], None] | None = None) -> Iterator[Doc]:
    """Yield the documents of a folder's files, in order; report what is skipped, by default as a warning."""
    seen: set[str] = set()
    for read in read_files(tasks, cut=False):
        for problem in read.problems:
            (report or warn_of)(problem)
        for doc, _ in read.docs:
            if doc.id in seen:
                (report or warn_of)(Problem(read.task.name, "duplicate id", f"id {doc.id!r} was already used"))
                continue
            seen.add(doc.id)
            yield doc


def warn_of(problem: Problem) -> None:
    """Issue a warning of what is skipped."""
    warn(f"{problem.place}: skipped, {problem.problem}")


def _stream_docs(
    copied: Callable[[Path], Path], name: str, place: str, text_field: str | None
) -> Iterator[Placed[Doc]]:
    """Yield the documents of what can be read only once, from a copy."""
    with TemporaryDirectory() as folder:
        yield from named_file_docs(SourceFile(copied(Path(folder)), name, text_field, strict=True, place=place))


# --- sources of queries


def _query_source(name: str | Path) -> Iterator[Placed[Query]]:
    if is_dataset(name):
        rows = enumerate(load_dataset(str(name), "queries").queries_iter(), 1)
        return _records(str(name), rows, _ir_query, "queries")
    path = Path(name)
    if not is_folder(path):
        return _query_file(path)
    found = (path / BEIR_QUERIES, path / f"{BEIR_QUERIES}.gz")
    if queries := next((one for one in found if one.exists()), None):
        return _query_file(queries)
    raise InputError(f"{path}: no {BEIR_QUERIES} in this folder; give the path of the file with the queries")


def _query_file(path: Path) -> Iterator[Placed[Query]]:
    if parse := QUERY_FORMATS.get(ending(path)):
        return _records(path, read_lines(path), parse, "queries")
    advice = f"use {', '.join(QUERY_FORMATS)}, each also as .gz"
    raise InputError(f"{path}: the extension {ending(path)!r} is not supported; {advice}")


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder; raise InputError if nothing is there."""
    with reading(path):
        path.stat()  # raises an error for a missing path, for which is_dir() returns False
        return path.is_dir()


# --- records and their checks


def _records(
    source: str | Path, items: Iterable[tuple[int, Unparsed]], parse: Callable[[Unparsed], Record], what: str
) -> Iterator[Placed[Record]]:
    """Yield the record of every numbered line or row with its place; raise InputError if there is none."""
    number = 0
    for number, item in items:
        try:
            record = parse(item)
        except InputError as error:
            raise InputError(f"{source}:{number}: {error}") from None
        yield f"{source}:{number}", record
    if number == 0:
        raise InputError(f"{source}: has no {what}")


def _distinct(placed: Iterable[Placed[Record]], what: str) -> Iterator[Record]:
    """Yield the records without their places; raise InputError at the second place of an id."""
    seen: set[str] = set()
    for place, record in placed:
        if record.id in seen:
            raise InputError(f"{place}: {what} id {record.id!r} was already used; ids must be unique")
        seen.add(record.id)
        yield record


def _json_query(line: str) -> Query:
    return Query.from_dict(parse_json_object(line))


def _tsv_query(line: str) -> Query:
    name, tab, text = line.partition("\t")
    if not tab:
        raise InputError("no tab; expected an id, a tab and a text")
    return Query(checked_id(name), text)


QUERY_FORMATS: dict[str, Callable[[str], Query]] = {
    ".jsonl": _json_query,
    ".json": _json_query,
    ".tsv": _tsv_query,
    ".txt": _tsv_query,  # TREC's topics are TSV files called .txt
}


# --- ready vectors in .npz


def _load_npz(path: Path) -> tuple[Any, list[str] | None]:
    """Return the sparse matrix of the file, with valid indices, and its ids if the file holds them."""
    from scipy.sparse import load_npz

    try:
        with reading(path), path.open("rb") as file:  # numpy would leave a damaged file open
            if not zipfile.is_zipfile(file):
                raise InputError(f"{path}: not an .npz file; write it with scipy.sparse.save_npz")
            file.seek(0)
            matrix = _checked_matrix(load_npz(file))
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return matrix, _ids_inside(path, arrays)
    except (ValueError, TypeError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a scipy sparse .npz: {error}") from None


def _checked_matrix(matrix: Any) -> Any:
    """Return the matrix; raise ValueError if an index is out of range, since scipy's compiled code trusts them."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"{matrix.ndim} dimensions of {matrix.dtype}, expected 2 of numbers")
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _ids_inside(path: Path, arrays: Mapping[str, Any]) -> list[str] | None:
    if "ids" not in arrays:
        return None
    ids = arrays["ids"]
    if ids.ndim != 1 or ids.dtype.kind not in "Uiu":
        raise ValueError(f"its ids are {ids.ndim} dimensions of {ids.dtype}, expected 1 of strings or whole numbers")
    return _checked_ids((f"{path}: ids[{row}]", name) for row, name in enumerate(ids.tolist()))


def _ids_beside(path: Path) -> list[str]:
    beside = path.with_suffix(".ids.txt")
    if not beside.exists():
        raise InputError(f"{path}: no ids; expected an array `ids` in the file, or one id per line in {beside}")
    return _checked_ids((f"{beside}:{number}", line) for number, line in read_lines(beside))


def _checked_ids(placed: Iterable[tuple[str, str | int]]) -> list[str]:
    seen: dict[str, None] = {}
    for place, given in placed:
        try:
            name = checked_id(given)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        if name in seen:
            raise InputError(f"{place}: id {name!r} was already used; ids must be unique")
        seen[name] = None
    return list(seen)


# --- ir_datasets


def _ir_doc(row: Any) -> Doc:
    if hasattr(row, "text"):
        return Doc(checked_id(row.doc_id), row.text, getattr(row, "title", None) or "")
    return Doc(checked_id(row.doc_id), row.default_text())  # it includes the title


def _ir_query(row: Any) -> Query:
    return Query(checked_id(row.query_id), row.text if hasattr(row, "text") else row.default_text())
