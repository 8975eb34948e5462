"""`denslice show` prints a document, or a passage of it with those before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denslice.cli.arguments import AsJson, IndexFolder, named_id, open_folder
from denslice.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from denslice.records import Doc, Place

AROUND = 1  # passages that are shown before and after the one that was asked for
RULE = "── "  # begins the line above a passage


def show(
    folder: IndexFolder,
    id: Annotated[str, typer.Argument(metavar="ID|FILE", help="Id or file of the document.", show_default=False)],
    around: Annotated[
        int | None, typer.Option(metavar="PASSAGE", help="Show only the passage of this number and its neighbours.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a document: its title, metadata and text. Passages have the numbers that `search` prints."""
    from denslice.cli.output import console, write_json

    index = open_folder(folder)
    id = named_id(index, id)
    doc, places = index.get(id), index.places(id)
    if doc is None or places is None:
        raise InputError(f"no document {id!r} in {folder}")
    near = _near(id, around, len(places))
    if as_json:
        for fields in [doc.to_dict()] if around is None else [_passage(at, places[at], doc.text) for at in near]:
            write_json(fields)
        return
    out = console()
    _print_head(out, doc)
    if around is None:
        _print_text(doc.text)
    else:
        _print_passages(out, doc.text, places, near)


def _near(id: str, number: int | None, count: int) -> Sequence[int]:
    """Return the numbers of a passage and its neighbours."""
    if number is None:
        return ()
    if not 0 <= number < count:
        raise InputError(f"document {id!r} has no passage {number}; it has 0 to {count - 1}")
    return range(max(number - AROUND, 0), min(number + AROUND + 1, count))


def _passage(number: int, place: Place, text: str) -> dict[str, Any]:
    from denslice.cli.place_labels import line_of

    part = text[place.start : place.end]
    return {"number": number, "text": part, **place._asdict(), "line": line_of(place, text)}


def _print_head(out: Console, doc: Doc) -> None:
    """Print the id and title, the metadata, and an empty line."""
    import json

    from rich.text import Text

    from denslice.cli.output import DIM_STYLE, NAME_STYLE, on_one_line

    out.print(Text.assemble((doc.id, NAME_STYLE), f"  {on_one_line(doc.title)}" if doc.title else ""), soft_wrap=True)
    for name, value in doc.meta.items():
        told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        out.print(Text(f"{on_one_line(name)}: {on_one_line(told)}", DIM_STYLE), soft_wrap=True)
    out.print()


def _print_passages(out: Console, text: str, places: Sequence[Place], numbers: Sequence[int]) -> None:
    """Print passages, each under a line with its place. What a passage repeats of the one before is printed once."""
    from rich.text import Text

    from denslice.cli.output import DIM_STYLE
    from denslice.cli.place_labels import place_label

    end = 0
    for number in numbers:
        place = places[number]
        label = place_label(number, place, text) or f"passage {number}"
        out.print(Text(("\n" if end else "") + RULE + label, DIM_STYLE), soft_wrap=True)
        _print_text(text[max(place.start, end) : place.end].strip("\n"))
        end = place.end


def _print_text(text: str) -> None:
    """Print a text with its lines as they are, without characters that would move the cursor of a terminal."""
    from denslice.cli.output import harmless, write_line

    for line in text.split("\n"):
        write_line(harmless(line))
