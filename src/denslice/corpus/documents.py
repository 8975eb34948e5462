"""The readers of documents, queries and ready vectors in all input formats. Those of runs and qrels are in runs.py.

Files are streamed. Each record comes with the place it was read from, which errors name.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from denslice.corpus.compression import ending
from denslice.corpus.datasets import is_dataset, load_dataset
from denslice.corpus.lines import parse_json_object, read_lines, read_text, reading
from denslice.errors import InputError
from denslice.records import Doc, Query, checked_id
from denslice.vectors import lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

STDIN = "-"

Unparsed = TypeVar("Unparsed")
Record = TypeVar("Record", Doc, Query)
Placed = tuple[str, Record]  # the place of a record, as errors name it, and the record


def read_docs(paths: Sequence[str | Path]) -> Iterator[Doc]:
    """Yield the documents of files, folders and `ir_datasets:` names, in the order of the paths.

    The name `-` means lines of JSON on stdin. In a folder, `corpus.jsonl` is read if there is one (BEIR), else its
    .jsonl and .tsv files, else the .txt and .md files at any depth. A path that cannot be read raises InputError at
    once, a bad line when it is reached.
    """
    if isinstance(paths, str | Path):
        raise InputError(f"read_docs takes a list of paths, found the single path {str(paths)!r}")
    return distinct_docs([_doc_source(path) for path in paths])


def distinct_docs(sources: Iterable[Iterator[Placed[Doc]]]) -> Iterator[Doc]:
    """Yield the documents of all sources; raise InputError at the second place of an id."""
    return _distinct(chain.from_iterable(sources), "document")


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


# --- sources of records


def _doc_source(name: str | Path) -> Iterator[Placed[Doc]]:
    if is_dataset(name):
        return _records(str(name), enumerate(load_dataset(str(name), "docs").docs_iter(), 1), _ir_doc, "documents")
    if str(name) == STDIN:
        return _records("stdin", read_lines(Path("/dev/stdin")), _json_doc, "documents")
    path = Path(name)
    if not is_folder(path):
        return file_docs(path)
    return chain.from_iterable([file_docs(file, path) for file in folder_files(path)])


def folder_files(folder: Path) -> list[Path]:
    """Return the files of a folder to read: its corpus.jsonl (BEIR), else its tables, else its texts at any depth."""
    corpus = _beir_file(folder, "corpus.jsonl")
    if files := [corpus] if corpus else _tables(folder) or _texts(folder):
        return files
    expected = "corpus.jsonl, .jsonl or .tsv files, or .txt and .md files, each also as .gz"
    raise InputError(f"{folder}: nothing to read in this folder; expected {expected}")


def file_docs(path: Path, root: Path | None = None, start: int = 0, end: int | None = None) -> Iterator[Placed[Doc]]:
    """Yield the documents of a file, between two offsets at which lines begin; `root` is the folder it was found in."""
    if parse := LINE_FORMATS.get(ending(path)):
        return _records(path, read_lines(path, start, end), parse, "documents", end is None and not start)
    if read := TEXT_FORMATS.get(ending(path)):
        return _single_doc(path, root, read)
    raise _unknown_ending(path, (*LINE_FORMATS, *TEXT_FORMATS))


def _query_source(name: str | Path) -> Iterator[Placed[Query]]:
    if is_dataset(name):
        rows = enumerate(load_dataset(str(name), "queries").queries_iter(), 1)
        return _records(str(name), rows, _ir_query, "queries")
    path = Path(name)
    if not is_folder(path):
        return _query_file(path)
    if queries := _beir_file(path, "queries.jsonl"):
        return _query_file(queries)
    raise InputError(f"{path}: no queries.jsonl in this folder; give the path of the file with the queries")


def _query_file(path: Path) -> Iterator[Placed[Query]]:
    if parse := QUERY_FORMATS.get(ending(path)):
        return _records(path, read_lines(path), parse, "queries")
    raise _unknown_ending(path, tuple(QUERY_FORMATS))


def _unknown_ending(path: Path, known: tuple[str, ...]) -> InputError:
    advice = f"use {', '.join(known)}, each also as .gz"
    return InputError(f"{path}: the extension {ending(path)!r} is not supported; {advice}")


# --- folders


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder; raise InputError if nothing is there."""
    with reading(path):
        path.stat()  # raises an error for a missing path, for which is_dir() returns False
        return path.is_dir()


def _beir_file(folder: Path, name: str) -> Path | None:
    with reading(folder):
        return next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)


def _tables(folder: Path) -> list[Path]:
    """Return the .jsonl and .tsv files directly in the folder, sorted by name."""
    with reading(folder):
        visible = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(path for path in visible if ending(path) in (".jsonl", ".tsv"))


def _texts(folder: Path) -> list[Path]:
    """Return the .txt and .md files at any depth, sorted by relative path, without hidden files and folders."""
    found: list[Path] = []
    with reading(folder):
        for here, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(here, name) for name in names if not name.startswith(".")]
    texts = [path for path in found if ending(path) in TEXT_FORMATS]
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
    """Yield the record of every numbered line or row with its place; raise InputError if a whole source has none."""
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
    """Yield the records without their places; raise InputError at the second place of an id."""
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


def _single_doc(path: Path, root: Path | None, read: Callable[[Path], Doc]) -> Iterator[Placed[Doc]]:
    """Yield a file as one document; raise InputError if it is empty and was not found in a folder."""
    id = path.relative_to(root).as_posix() if root else path.name
    try:
        checked_id(id)
    except InputError as error:
        raise InputError(f"{path}: {error}; rename the file") from None
    doc = replace(read(path), id=id)
    if not root and not doc.text.strip():
        raise InputError(f"{path}: has no documents: the file is empty")
    yield str(path), doc


def _plain_text(path: Path) -> Doc:
    return Doc("", read_text(path))


# A new format is a function and a line here: of one line, or of a whole file, whose name is then the document's id.
LINE_FORMATS: dict[str, Callable[[str], Doc]] = {".jsonl": _json_doc, ".json": _json_doc, ".tsv": _tsv_doc}
TEXT_FORMATS: dict[str, Callable[[Path], Doc]] = {".txt": _plain_text, ".md": _plain_text}
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
