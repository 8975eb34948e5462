"""`denslice search`: one question, and the documents that answer it best."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from denslice.cli.arguments import (
    AsJson,
    Candidates,
    Caution,
    Device,
    IndexFolder,
    Lam,
    LeaveOut,
    Mode,
    Theta,
    Where,
    open_folder,
    parsed_filter,
    token_finder,
)


def search(
    folder: IndexFolder,
    question: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    k: Annotated[int, typer.Option("-k", help="How many documents.")] = 10,
    theta: Theta = 0.0,
    candidates: Candidates = 10_000,
    mode: Mode = None,
    lam: Lam = None,
    caution: Caution = 1.0,
    where: Where = None,
    device: Device = "cpu",
    leave_out: LeaveOut = "",
    explain: Annotated[bool, typer.Option("--explain", help="Show what each word gave.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the documents that answer a question best."""
    from denslice.cli import output

    index = open_folder(folder, device, leave_out)
    how: dict[str, Any] = {"mode": mode, "lam": lam}
    stage_one: dict[str, Any] = {"theta": theta, "candidates": candidates, "caution": caution}
    hits = list(index.search(question, k, where=parsed_filter(where), **stage_one, **how))
    out = output.console()
    if not hits:
        typer.echo("no document matches", err=True)
    elif as_json:
        for hit in hits:
            output.write_json(output.json_hit(hit, index.explain(question, hit.id, **how) if explain else None))
    else:
        explained = [index.explain(question, hit.id, **how) for hit in hits]
        if out.is_terminal:
            output.print_hits(out, hits, explained, token_finder(index), explain)
        else:
            output.write_hits(hits, explained, token_finder(index), explain)
