"""The readers of runs and qrels in the columns of TREC, MS MARCO and BEIR, and the writer of TREC runs."""

from __future__ import annotations

import gzip
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast
from urllib.parse import quote

import numpy as np

from denslice.corpus.datasets import is_dataset, load_dataset
from denslice.corpus.lines import located, read_lines, reading
from denslice.errors import InputError
from denslice.rankings import Ranking
from denslice.records import checked_id

LARGEST_RUN_SCORE = 3.4e38  # just below the maximum of float32
_space = re.compile(r"\s")
BEIR_HEADER = ("query-id", "corpus-id", "score")


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Return the grade of each judged document, by query and document.

    Columns: `query document grade` (BEIR, after a header line) or `query 0 document grade` (TREC, MS MARCO). The
    path may be an `ir_datasets:` name.
    """
    if is_dataset(path):
        return _dataset_qrels(str(path))
    path = Path(path)
    qrels: dict[str, dict[str, int]] = {}
    for number, line in _file_lines(path, "qrels/test.tsv"):
        fields = _columns(line, (3, 4))
        if number == 1 and tuple(fields) == BEIR_HEADER:
            continue
        try:
            _add_judgement(qrels, fields)
        except InputError as error:
            raise located(path, number, error) from None
    if not qrels:
        raise InputError(f"{path}: has no judgements")
    return qrels


def read_run(path: str | Path) -> list[Ranking]:
    """Return the rankings of a run in the order of its queries, each best first; equal scores by document id.

    Columns: `query Q0 document rank score tag` (TREC), which is ordered by score and not by rank, or
    `query document rank` (MS MARCO), where the score is 1/rank.
    """
    path = Path(path)
    run: dict[str, dict[str, float]] = {}
    width = 0
    for number, line in _file_lines(path, "run.trec"):
        fields = _columns(line, (3, 6))
        width = width or len(fields)
        try:
            _add_result(run, fields, width)
        except InputError as error:
            raise located(path, number, error) from None
    if not run:
        raise InputError(f"{path}: has no results")
    return [_ranking(query, scores) for query, scores in run.items()]


def write_run(path: str | Path, rankings: Iterable[Ranking], tag: str = "denslice") -> int:
    """Write a TREC run file, gzipped if its name ends in .gz, and return the number of its lines.

    Scores are written so that reading returns the same floats. Tools differ in how they order equal scores, so of
    these each is written one float32 step below the one before. A space in an id is written as %20. The file is written
    completely or not at all.
    """
    path = Path(path)
    _check_word(tag, "tag")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():  # the rename would replace /dev/null itself
            raise InputError(f"{path}: exists and is not a file; give the path of a file to write")
        with _open_new(unfinished, path.suffix.lower() == ".gz") as file:
            count = sum(_write_ranking(file, ranking, tag) for ranking in rankings)
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # it was renamed or never opened
            unfinished.unlink()
    return count


def _dataset_qrels(name: str) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for judged in load_dataset(name, "qrels").qrels_iter():
        _add_judgement(qrels, [judged.query_id, judged.doc_id, str(judged.relevance)])
    return qrels


def _file_lines(path: Path, example: str) -> Iterator[tuple[int, str]]:
    with reading(path):
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the path of one file, such as {path / example}")
    return read_lines(path)


def _columns(line: str, widths: tuple[int, ...]) -> list[str]:
    """Return the columns of a line: split at tabs if that gives one of the widths, else at spaces."""
    fields = [field.strip() for field in line.split("\t")]
    return fields if len(fields) in widths else line.split()


def _add_judgement(qrels: dict[str, dict[str, int]], fields: list[str]) -> None:
    if len(fields) not in (3, 4):
        raise InputError(f"{len(fields)} columns, expected `query document grade` or `query 0 document grade`")
    query, doc = checked_id(fields[0]), checked_id(fields[-2])
    grade = _whole(fields[-1], "grade")
    if qrels.setdefault(query, {}).setdefault(doc, grade) != grade:
        before = qrels[query][doc]
        raise InputError(f"document {doc!r} has grade {grade} for query {query!r}, and {before} in a line before")


def _add_result(run: dict[str, dict[str, float]], fields: list[str], width: int) -> None:
    if width not in (3, 6) or len(fields) != width:
        expected = f"{width}, as in the lines before" if width in (3, 6) else "6 (TREC) or 3 (MS MARCO)"
        raise InputError(f"{len(fields)} columns, expected {expected}")
    query, doc = checked_id(fields[0]), checked_id(fields[2 if width == 6 else 1])
    score = _score(fields[4]) if width == 6 else 1 / _rank(fields[2])
    scores = run.setdefault(query, {})
    if doc in scores:
        raise InputError(f"document {doc!r} occurs twice for query {query!r}")
    scores[doc] = score


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{what} {text!r} is not a whole number") from None


def _rank(text: str) -> int:
    rank = _whole(text, "rank")
    if rank < 1:
        raise InputError(f"rank {rank} is below 1")
    return rank


def _score(text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        raise InputError(f"score {text!r} is not a number") from None
    if not math.isfinite(score):
        raise InputError(f"score {text!r} is not finite")
    return score


def _ranking(query: str, scores: dict[str, float]) -> Ranking:
    best_first = sorted(scores, key=lambda doc: (-scores[doc], doc))
    return Ranking(query, tuple(best_first), tuple(scores[doc] for doc in best_first))


def _open_new(path: Path, zipped: bool) -> TextIO:
    if zipped:
        return cast(TextIO, gzip.open(path, "wt", encoding="utf-8", newline="\n"))
    return path.open("w", encoding="utf-8", newline="\n")


def _write_ranking(file: TextIO, ranking: Ranking, tag: str) -> int:
    _check_word(ranking.query_id, "query id")
    ids = list(map(run_id, ranking.ids))
    if len(set(ids)) < len(ids):
        twice = next(id for number, id in enumerate(ids) if id in ids[:number])
        raise InputError(f"two documents would both be {twice!r} in a TREC run, which cannot hold white space")
    for doc, score in zip(ranking.ids, ranking.scores, strict=True):
        if not abs(score) <= LARGEST_RUN_SCORE:
            raise InputError(f"the score of document {doc!r} for query {ranking.query_id!r} is {score}, not finite")
    for rank, (doc, score) in enumerate(zip(ids, _apart(ranking.scores), strict=True), 1):
        file.write(f"{ranking.query_id} Q0 {doc} {rank} {float(score)!r} {tag}\n")
    return len(ranking.ids)


def run_id(id: str) -> str:
    """Return the id of a document as a TREC run holds it: white space is written as in an address, `my%20notes.md`."""
    return id if id.split() == [id] else _space.sub(lambda found: quote(found[0]), id)


def _apart(scores: Sequence[float]) -> Sequence[float]:
    """Return the scores, best first, each below the one before as a float32, which trec_eval compares."""
    if (np.diff(np.array(scores, dtype=np.float32)) < 0).all():
        return scores
    apart: list[float] = []
    before = np.float32(np.inf)
    for score in scores:
        apart.append(score if np.float32(score) < before else float(np.nextafter(before, np.float32(-np.inf))))
        before = np.float32(apart[-1])
    return apart


def _check_word(text: str, what: str) -> None:
    if text.split() != [text]:
        raise InputError(f"{what} {text!r} is empty or has white space, which a TREC run cannot hold")
