"""Measures of runs against judgements. ir-measures (extra `eval`) computes all of them.

A run is passed on unchanged, so the figures equal those of the ir-measures command. docs/evaluation.md explains ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from denslice.corpus.runs import read_qrels, read_run, run_id
from denslice.errors import InputError, MissingExtraError
from denslice.rankings import Ranking

DEFAULT_MEASURES = ("nDCG@10", "RR@10", "R@1000")
Run = Mapping[str, Mapping[str, float]]  # query → document → score
Qrels = Mapping[str, Mapping[str, int]]  # query → document → grade


@dataclass(frozen=True)
class Evaluation:
    """The measures of a run. Every judged query counts, with 0 if the run has no results for it."""

    name: str
    means: dict[str, float]
    per_query: dict[str, dict[str, float]]  # measure → query → value, in the order of the judgements
    answered: int  # judged queries that the run has results for
    tied: int  # judged queries with equal scores, whose order ir-measures decides


def evaluate(run: Run, qrels: Qrels, measures: Sequence[str] = DEFAULT_MEASURES, name: str = "run") -> Evaluation:
    """Return the mean of each measure over the judged queries, and its value for every query."""
    parsed = parsed_measures(measures)
    answered = [query for query in qrels if run.get(query)]
    if not answered:
        first = f"its first query is {next(iter(run), None)!r}, that of the judgements {next(iter(qrels), None)!r}"
        raise InputError(f"{name}: no query of the run is judged; {first}")
    found = _ir_measures().calc(parsed, dict(qrels), {query: dict(run[query]) for query in answered})
    values = {(metric.measure, metric.query_id): float(metric.value) for metric in found.per_query}
    return Evaluation(
        name,
        {str(measure): float(found.aggregated[measure]) for measure in parsed},
        {str(measure): {query: values[measure, query] for query in qrels} for measure in parsed},
        len(answered),
        sum(_has_ties(run[query]) for query in answered),
    )


def evaluate_files(
    runs: Sequence[str | Path],
    qrels: str | Path,
    measures: Sequence[str] = DEFAULT_MEASURES,
    exclude_self: bool = False,
) -> list[Evaluation]:
    """Evaluate each run file; `exclude_self` leaves out results whose id is the query's."""
    parsed_measures(measures)  # an unknown measure is an error before large files are read
    judged = {query: {run_id(doc): grade for doc, grade in docs.items()} for query, docs in read_qrels(qrels).items()}
    found = []
    for path in runs:
        run = {one.query_id: dict(zip(map(run_id, one.ids), one.scores, strict=True)) for one in read_run(path)}
        found.append(evaluate(without_self(run) if exclude_self else run, judged, measures, str(path)))
    return found


def as_run(rankings: Iterable[Ranking]) -> Run:
    """Return rankings as a run that is measured in exactly their order: each score is 1 / rank."""
    return {ranking.query_id: {doc: 1 / rank for rank, doc in enumerate(ranking.ids, 1)} for ranking in rankings}


def without_self(run: Run) -> Run:
    """Return the run without results whose id is the query's, for collections whose queries are documents."""
    return {query: {doc: score for doc, score in found.items() if doc != query} for query, found in run.items()}


def parsed_measures(names: Sequence[str]) -> list[Any]:
    """Parse the names of measures. Raise InputError for the first that ir-measures cannot compute."""
    measures = []
    for name in names:
        try:
            measure = _ir_measures().parse_measure(name)
            _check_cutoff(measure)
            _ir_measures().evaluator([measure], {})
        except (NameError, ValueError, AssertionError, AttributeError, TypeError) as error:
            expected = "expected a measure such as nDCG@10, RR@10, R@1000, AP or P@5"
            raise InputError(f"measure {name!r}: {_reason(error)}; {expected}") from None
        measures.append(measure)
    return list(dict.fromkeys(measures))


def _check_cutoff(measure: Any) -> None:
    """Raise ValueError for a cutoff below 1, at which trec_eval crashes."""
    cutoff = measure.params.get("cutoff", 1)
    if not isinstance(cutoff, int) or cutoff < 1:
        raise ValueError(f"the cutoff must be a whole number of at least 1, not {cutoff!r}")


def _reason(error: Exception) -> str:
    if "invalid param cutoff" in str(error):
        return "it needs a cutoff"
    if "Unsupported" in str(error):
        return "ir-measures cannot compute it with what is installed"
    return str(error).partition("\n")[0].rstrip(".")


def _has_ties(found: Mapping[str, float]) -> bool:
    scores = np.array(list(found.values()), dtype=np.float32)  # the precision of trec_eval
    return len(np.unique(scores)) < len(scores)


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ModuleNotFoundError as error:
        raise MissingExtraError("evaluation", "eval") from error
    return ir_measures
