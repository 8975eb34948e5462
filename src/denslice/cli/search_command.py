"""`denslice search` answers one question with the best documents, or the best passages."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from denslice.cli.arguments import AsJson, IndexFolder, flags, open_folder, parsed, taken
from denslice.options import OpenOptions, SearchOptions

QUESTION = "What to look for. Operators need quotes around the question: 'foxes \"sleep by day\" -zoo title:animals'."


@flags(OpenOptions)
@flags(SearchOptions)
def search(
    folder: IndexFolder,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help=QUESTION, show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show what each term added to the score.")] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Find the documents that answer a question best, and where in them. The question needs no quotes."""
    from denslice.cli.hits_output import json_hit, show_hits, shown_hits
    from denslice.cli.output import write_json
    from denslice.search.matches import text_analyzer

    index = open_folder(folder, taken(OpenOptions, options))
    ranking = index.search(" ".join(question), **parsed(options))
    hits = shown_hits(index, ranking, explain)
    if not hits:
        typer.echo("no document matches", err=True)
    elif as_json:
        for hit in hits:
            write_json(json_hit(hit))
    else:
        show_hits(hits, ranking.tokens(), text_analyzer(index.info().encoder_options))
