"""`denslice similar` finds the documents that are most like one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from denslice.cli.arguments import AsJson, IndexFolder, flags, named_id, open_folder, parsed, taken
from denslice.options import PAGE_OPTIONS, OpenOptions, SearchOptions


@flags(OpenOptions, but_for=("queries",))  # no query is read
@flags(SearchOptions)
def similar(
    folder: IndexFolder,
    id: Annotated[str, typer.Argument(metavar="ID|FILE", help="Id or file of the document.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="Show what each term added to the score.")] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Find the documents that are most like one, by the words and the dense vectors that are stored of it."""
    from denslice.cli.hits_output import write_ranking

    index = open_folder(folder, taken(OpenOptions, options))
    is_page = any(options[name] for name in PAGE_OPTIONS if name != "per_group")
    write_ranking(index, index.similar(named_id(index, id), **parsed(options)), explain, as_json, is_page)
