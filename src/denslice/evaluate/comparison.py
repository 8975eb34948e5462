"""Comparison of runs: paired t-tests against the first run, and the table and the JSON that show the results."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from denslice.evaluate.evaluation import Evaluation

Key = TypeVar("Key", bound=Hashable)
Values = Mapping[str, float]  # query → value of one measure


def p_values(evaluations: Sequence[Evaluation]) -> dict[tuple[str, str], float]:
    """Return p of each later run against the first, by run and measure, Holm-corrected over all of them."""
    first, *others = evaluations
    names = [(one, measure) for one in others for measure in first.means]
    pairs = {(one.name, measure): (first.per_query[measure], one.per_query[measure]) for one, measure in names}
    return corrected_p(pairs)


def corrected_p(pairs: Mapping[Key, tuple[Values, Values]]) -> dict[Key, float]:
    """Return p of a two-sided paired t-test for each pair, Holm-corrected; empty if there is only one query."""
    tested = [paired_p(one, other) for one, other in pairs.values()]
    corrected = holm([p for p in tested if p is not None])
    return dict(zip(pairs, corrected, strict=True)) if len(corrected) == len(pairs) else {}


def paired_p(one: Values, other: Values) -> float | None:
    """Return p of a two-sided paired t-test over the queries: 1 if no query differs, None if there is only one."""
    from scipy.stats import ttest_rel

    a, b = (np.array([values[query] for query in one]) for values in (one, other))
    if len(a) < 2:
        return None
    if (a == b).all():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # if all differences are equal, t is infinite and p is 0
        return float(ttest_rel(a, b).pvalue)


def holm(values: Sequence[float]) -> list[float]:
    """Return the p-values, in the same order, corrected by Holm's step-down method."""
    order = np.argsort(values, kind="stable")
    factors = np.arange(len(values), 0, -1)
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(np.minimum(1, np.array(values)[order] * factors))
    return [float(one) for one in corrected]


def table(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the lines of a table of means, with p in brackets, and notes below it."""
    first = evaluations[0]
    tested = p_values(evaluations)
    rows = [["", *first.means]]
    for one in evaluations:
        rows.append([one.name, *(_cell(mean, tested.get((one.name, name))) for name, mean in one.means.items())])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append("")
    lines += _notes(evaluations)
    if tested:
        count = f"{len(tested)} comparison{'s' if len(tested) > 1 else ''}"
        lines.append(f"In brackets: p of a paired t-test against {first.name}, Holm-corrected for {count}.")
    return lines


def query_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield tab-separated lines with the value of every query and measure: query, measure, a column for each run."""
    yield "\t".join(["query", "measure", *(one.name for one in evaluations)])
    for measure, values in evaluations[0].per_query.items():
        for query in values:
            found = [f"{one.per_query[measure][query]:.4f}" for one in evaluations]
            yield "\t".join([query, measure, *found])


def as_json(evaluations: Sequence[Evaluation], per_query: bool) -> dict[str, Any]:
    """Return everything as one JSON object; runs after the first have `p`."""
    tested = p_values(evaluations)
    runs = []
    for one in evaluations:
        entry: dict[str, Any] = {"run": one.name, "answered": one.answered, "tied": one.tied, "measures": one.means}
        if tested and one is not evaluations[0]:
            entry["p"] = {measure: tested[one.name, measure] for measure in one.means}
        if per_query:
            entry["per_query"] = one.per_query
        runs.append(entry)
    queries = len(next(iter(evaluations[0].per_query.values())))
    test = {"test": "paired t-test against the first run, two-sided, Holm-corrected"} if tested else {}
    return {"queries": queries, **test, "runs": runs}


def _cell(mean: float, p: float | None) -> str:
    return f"{mean:.4f}" if p is None else f"{mean:.4f} ({p:.2g})"


def _notes(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    queries = len(next(iter(evaluations[0].per_query.values())))
    yield f"Means over {queries:,} judged {'query' if queries == 1 else 'queries'}."
    for one in evaluations:
        if one.answered < queries:
            yield f"{one.name} has results for {one.answered:,} of them; the others count as 0."
        if one.tied:
            yield f"{one.name} has equal scores in {one.tied:,} of them; ir-measures decides their order."
