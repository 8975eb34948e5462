"""Every input format to records: documents, queries and ready vectors. Runs and judgements are in corpus/runs.py.

Files are streamed; each record travels with the place it was read from, so that errors can name it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from denslice.corpus.datasets import is_dataset, load_dataset
from denslice.corpus.lines import ending, parse_json_object, read_lines, read_text, reading
from denslice.errors import InputError
from denslice.records import Doc, Query, checked_id
from denslice.vectors import lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

JSON_ENDINGS = (".jsonl", ".json")
TEXT_ENDINGS = (".txt", ".md")
STDIN = "-"

Unparsed = TypeVar("Unparsed")
Record = TypeVar("Record", Doc, Query)
Placed = tuple[str, Record]  # where the record was read, as errors name it, and the record


def read_docs(paths: Sequence[str | Path]) -> Iterator[Doc]:
    """The documents of files, folders and `ir_datasets:` names, one at a time, in the order of the paths.

    The name `-` stands for lines of JSON on stdin.
    Of a folder is read: `corpus.jsonl` if it has one (BEIR), else its .jsonl and .tsv files, else the .txt and .md
    files in it at any depth. A name that cannot be read is an error at once, a bad line when it is reached.
    """
    if isinstance(paths, str | Path):
        raise InputError(f"read_docs takes a list of paths, found the single path {str(paths)!r}")
    return distinct_docs([_doc_source(path) for path in paths])


def distinct_docs(sources: Iterable[Iterator[Placed[Doc]]]) -> Iterator[Doc]:
    """The documents of all sources; an id that comes twice is an error at the second place."""
    return _distinct(chain.from_iterable(sources), "document")


def read_queries(path: str | Path) -> Iterator[Query]:
    """The queries of a file, a BEIR folder or an `ir_datasets:` name, one at a time."""
    return _distinct(_query_source(path), "query")


def read_vectors(path: str | Path, vocab: int | None = None) -> tuple[list[str], sp.csr_array]:
    """The ids and lexical weights (n, vocabulary) of a scipy `.npz`, one row for each id.

    The ids are an array `ids` of strings in the same file, or the lines of `NAME.ids.txt` beside it.
    """
    path = Path(path)
    matrix, ids = _load_npz(path)
    ids = _ids_beside(path) if ids is None else ids
    if len(ids) != matrix.shape[0]:
        raise InputError(f"{path}: {matrix.shape[0]:,} vectors, but ids for {len(ids):,}")
    try:
        with np.errstate(over="ignore"):  # too large for float32 turns infinite, which is refused
            return ids, lexical_csr(matrix, vocab)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


# --- where records come from


def _doc_source(name: str | Path) -> Iterator[Placed[Doc]]:
    if is_dataset(name):
        return _ir_docs(str(name))
    if str(name) == STDIN:
        return _records("stdin", read_lines(Path("/dev/stdin")), _json_doc, "documents")
    path = Path(name)
    if not is_folder(path):
        return file_docs(path)
    return chain.from_iterable([file_docs(file, path) for file in folder_files(path)])


def folder_files(folder: Path) -> list[Path]:
    """The files of a folder that are read: its corpus.jsonl (BEIR), else its tables, else its texts at any depth."""
    corpus = _beir_file(folder, "corpus.jsonl")
    if files := [corpus] if corpus else _tables(folder) or _texts(folder):
        return files
    raise InputError(
        f"{folder}: nothing to read in this folder; expected corpus.jsonl, .jsonl or .tsv files, "
        "or .txt and .md files, each also as .gz"
    )


def file_docs(path: Path, root: Path | None = None, start: int = 0, end: int | None = None) -> Iterator[Placed[Doc]]:
    """The documents of a file; `root` is the folder it was found in. `start` and `end` are where lines of it begin."""
    kind = ending(path)
    if kind in JSON_ENDINGS or kind == ".tsv":
        parse = _tsv_doc if kind == ".tsv" else _json_doc
        return _records(path, read_lines(path, start, end), parse, "documents", end is None and not start)
    if kind in TEXT_ENDINGS:
        return _single_text(path, root)
    raise _unknown_ending(path, (*JSON_ENDINGS, ".tsv", *TEXT_ENDINGS))


def _query_source(name: str | Path) -> Iterator[Placed[Query]]:
    if is_dataset(name):
        return _ir_queries(str(name))
    path = Path(name)
    if not is_folder(path):
        return _query_file(path)
    if queries := _beir_file(path, "queries.jsonl"):
        return _query_file(queries)
    raise InputError(f"{path}: no queries.jsonl in this folder; name the file of the queries")


def _query_file(path: Path) -> Iterator[Placed[Query]]:
    kind = ending(path)
    if kind in JSON_ENDINGS:
        return _records(path, read_lines(path), _json_query, "queries")
    if kind in (".tsv", ".txt"):  # TREC's topics are TSV files called .txt
        return _records(path, read_lines(path), _tsv_query, "queries")
    raise _unknown_ending(path, (*JSON_ENDINGS, ".tsv", ".txt"))


def _unknown_ending(path: Path, known: tuple[str, ...]) -> InputError:
    return InputError(f"{path}: the ending {ending(path)!r} names no known format; read are {', '.join(known)} (+ .gz)")


# --- folders


def is_folder(path: Path) -> bool:
    """Whether the path is a folder; InputError if there is nothing."""
    with reading(path):
        path.stat()  # a missing path is an error here, where is_dir() would only say no
        return path.is_dir()


def _beir_file(folder: Path, name: str) -> Path | None:
    with reading(folder):
        return next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)


def _tables(folder: Path) -> list[Path]:
    """The .jsonl and .tsv files directly in the folder, by name."""
    with reading(folder):
        visible = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(path for path in visible if ending(path) in (".jsonl", ".tsv"))


def _texts(folder: Path) -> list[Path]:
    """The .txt and .md files in the folder at any depth, by relative path; hidden files and folders are left out."""
    found: list[Path] = []
    with reading(folder):
        for here, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(here, name) for name in names if not name.startswith(".")]
    texts = [path for path in found if ending(path) in TEXT_ENDINGS]
    return sorted(texts, key=lambda path: path.relative_to(folder).as_posix())


def _raise(error: OSError) -> NoReturn:
    raise error


# --- records and their checks


def _records(
    source: str | Path,
    items: Iterable[tuple[int, Unparsed]],
    parse: Callable[[Unparsed], Record],
    what: str,
    whole: bool = True,
) -> Iterator[Placed[Record]]:
    """The record of every numbered line or row, with its place; a whole source has at least one."""
    number = 0
    for number, item in items:
        try:
            record = parse(item)
        except InputError as error:
            raise InputError(f"{source}:{number}: {error}") from None
        yield f"{source}:{number}", record
    if number == 0 and whole:
        raise InputError(f"{source}: has no {what}")


def _distinct(placed: Iterable[Placed[Record]], what: str) -> Iterator[Record]:
    """The records without their places; an id that comes twice is an error at the second place."""
    seen: set[str] = set()
    for place, record in placed:
        if record.id in seen:
            raise InputError(f"{place}: {what} id {record.id!r} was already used; ids must be unique")
        seen.add(record.id)
        yield record


def _json_doc(line: str) -> Doc:
    return Doc.from_dict(parse_json_object(line))


def _json_query(line: str) -> Query:
    return Query.from_dict(parse_json_object(line))


def _tsv_doc(line: str) -> Doc:
    return Doc(*_tsv_pair(line))


def _tsv_query(line: str) -> Query:
    return Query(*_tsv_pair(line))


def _tsv_pair(line: str) -> tuple[str, str]:
    name, tab, text = line.partition("\t")
    if not tab:
        raise InputError("no tab; expected an id, a tab and a text")
    return checked_id(name), text


def _single_text(path: Path, root: Path | None) -> Iterator[Placed[Doc]]:
    """The text as a document. One that was named, and not found in a folder, must not be empty."""
    place, doc = _text_doc(path, path.relative_to(root).as_posix() if root else path.name)
    if not root and not doc.text.strip():
        raise InputError(f"{path}: has no documents: the file is empty")
    yield place, doc


def _text_doc(path: Path, id: str) -> Placed[Doc]:
    try:
        checked_id(id)
    except InputError as error:
        raise InputError(f"{path}: {error}; rename the file") from None
    return str(path), Doc(id, read_text(path))


# --- ready vectors in .npz


def _load_npz(path: Path) -> tuple[Any, list[str] | None]:
    """The sparse matrix of the file, safe to compute with, and its ids if they are inside."""
    from scipy.sparse import load_npz

    try:
        with reading(path), path.open("rb") as file:  # opened here, as numpy leaves damaged files open
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
    """The matrix, if its indices lie inside it: scipy's compiled code trusts them."""
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


def _ir_docs(name: str) -> Iterator[Placed[Doc]]:
    return _records(name, enumerate(load_dataset(name, "docs").docs_iter(), 1), _ir_doc, "documents")


def _ir_queries(name: str) -> Iterator[Placed[Query]]:
    return _records(name, enumerate(load_dataset(name, "queries").queries_iter(), 1), _ir_query, "queries")


def _ir_doc(row: Any) -> Doc:
    if hasattr(row, "text"):
        return Doc(checked_id(row.doc_id), row.text, getattr(row, "title", None) or "")
    return Doc(checked_id(row.doc_id), row.default_text())  # which holds the title already


def _ir_query(row: Any) -> Query:
    return Query(checked_id(row.query_id), row.text if hasattr(row, "text") else row.default_text())
