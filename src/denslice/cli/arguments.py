"""Arguments that several commands share, and what they are turned into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denslice.errors import InputError

if TYPE_CHECKING:
    from denslice.index.index import Index
    from denslice.search.matches import Words


IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="The index's folder.", show_default=False)]
Theta = Annotated[float, typer.Option(help="Stage one scores only query weights above this; 0 is exact.")]
Candidates = Annotated[int, typer.Option(help="How many of stage one's best are scored with every weight.")]
Caution = Annotated[float, typer.Option(help="Below 1 a search by words is faster, and no longer exact.")]
Where = Annotated[
    str | None, typer.Option(metavar="JSON", help='Only documents that pass, such as \'{"year": {"gte": 2020}}\'.')
]
Mode = Annotated[str | None, typer.Option(help="lexical, dense, or hybrid where there are dense vectors.")]
Lam = Annotated[float | None, typer.Option(help="Weight of the dense score. Default: the encoder's own.")]
Device = Annotated[str, typer.Option(help="Where to search: cpu, cuda, or cuda:0,1 for several cards.")]
LeaveOut = Annotated[
    str, typer.Option(metavar="PARTS", help="What a card does without: rows (slower), dense (words alone).")
]
Wait = Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait while others commit.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_folder(folder: Path, device: str = "cpu", leave_out: str = "") -> Index:
    from denslice.cluster.cluster_folder import is_cluster
    from denslice.index.index import Index

    if is_cluster(folder):
        advice = f"`denslice serve {folder} --ray ADDRESS` serves it, and {folder}/shards/00000 is an index"
        raise InputError(f"{folder}: is a cluster of shards and not one index; {advice}")
    if device == "cpu":
        return Index.open(folder)
    from denslice.cli.output import progress_bar

    with progress_bar("loading onto the card") as bar:
        return Index.open(folder, device, leave_out=leave_out.split(",") if leave_out else (), progress=bar.advance)


def parsed_filter(where: str | None) -> Any:
    """The filter that JSON text tells."""
    import json

    try:
        return None if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--where is not JSON ({error}): {where}") from None


def token_finder(index: Index) -> Words:
    """How the index makes tokens of a text, to find them in it again."""
    from denslice.search.matches import words_of

    return words_of(index.info())
