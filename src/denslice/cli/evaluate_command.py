"""`denslice evaluate` measures runs against judgements."""

from __future__ import annotations

from typing import Annotated

import typer

from denslice.cli.arguments import AsJson
from denslice.errors import InputError


def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... QRELS", help="Run files (TREC, MS MARCO), then the judgements.", show_default=False
        ),
    ],
    measure: Annotated[
        list[str] | None, typer.Option("-m", help="Such as nDCG@10, RR@10, R@1000, AP or P@5; can be repeated.")
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Print the values of each query.")] = False,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave out documents whose id is the id of the query.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure runs against judgements, and compare them with the first by paired tests."""
    from denslice.cli.output import write_json, write_line
    from denslice.evaluate import comparison
    from denslice.evaluate.evaluation import DEFAULT_MEASURES, evaluate_files

    if len(files) < 2:
        raise InputError(f"{files[0]}: name one or more runs and then the judgements, such as run.trec qrels/test.tsv")
    found = evaluate_files(files[:-1], files[-1], measure or DEFAULT_MEASURES, exclude_self)
    if as_json:
        write_json(comparison.as_json(found, per_query))
    else:
        for line in comparison.query_lines(found) if per_query else comparison.table(found):
            write_line(line)
