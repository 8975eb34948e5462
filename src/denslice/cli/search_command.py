"""`denslice search` answers one question with the best documents, or the best passages."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from denslice.cli.arguments import AsJson, IndexFolder, flags, open_folder, parsed, taken
from denslice.options import PAGE_OPTIONS, OpenOptions, SearchOptions
from denslice.profiling import profiled

QUESTION = "What to look for. Operators need quotes around the question: 'foxes \"sleep by day\" -zoo title:animals'."


@flags(OpenOptions)
@flags(SearchOptions)
def search(
    folder: IndexFolder,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help=QUESTION, show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show what each term added to the score.")] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Say on stderr how long each stage took, and how much was read.")
    ] = False,
    as_json: AsJson = False,
    fail_if_empty: Annotated[
        bool, typer.Option("--fail-if-empty", help="Exit with status 1 if nothing is found, as grep does.")
    ] = False,
    **options: Any,
) -> None:
    """Find the documents that answer a question best, and where in them. The question needs no quotes."""
    from denslice.cli.hits_output import write_ranking

    index = open_folder(folder, taken(OpenOptions, options))
    is_page = any(options[name] for name in PAGE_OPTIONS if name != "per_group")
    with profiled(with_counts=profile) as cost:
        ranking = index.search(" ".join(question), **parsed(options))
        write_ranking(index, ranking, explain, as_json, is_page)
    if profile:
        typer.echo(str(cost), err=True)
    if fail_if_empty and not len(ranking):
        raise typer.Exit(1)
