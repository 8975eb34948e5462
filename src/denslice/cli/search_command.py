"""`denslice search` answers one question with the best documents."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from denslice.cli.arguments import AsJson, IndexFolder, flags, open_folder, parsed, taken
from denslice.options import OpenOptions, SearchOptions


@flags(OpenOptions)
@flags(SearchOptions)
def search(
    folder: IndexFolder,
    question: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show what each term added to the score.")] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Find the documents that answer a question best."""
    from denslice.cli import output
    from denslice.search.matches import text_analyzer

    index = open_folder(folder, taken(OpenOptions, options))
    ranking = index.search(question, **parsed(options))
    why = [ranking.explain(id) for id in ranking.ids] if explain else None
    if not ranking:
        typer.echo("no document matches", err=True)
    elif as_json:
        for at, hit in enumerate(ranking):
            output.write_json(output.json_hit(hit, why[at] if why else None))
    else:
        output.show_hits(ranking, why, text_analyzer(index.info().encoder_options))
