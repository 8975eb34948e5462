"""The command `denslice reproduce`, registered in denslice/__main__.py."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from denslice.errors import InputError

if TYPE_CHECKING:
    from denslice.reproduce.collection import Collection
    from denslice.reproduce.encoding import Encodings, NamedModel
    from denslice.reproduce.table_page import Grid, Page

Number = TypeVar("Number", int, float)
SLICES = "768,256,128"
THETAS = "0,0.05,0.1,0.2,0.3,0.5,0.75,1,1.5"
PAPERS = "paper"  # as large a share of the collection as the paper's candidates
CANDIDATES = f"{PAPERS},1000,2000,5000,10000"


class What(StrEnum):
    """What the command makes: the vectors alone, a table, the figure, or what the slicing takes from scores."""

    ENCODE = "encode"
    TABLE1 = "table1"
    TABLE2 = "table2"
    TABLE3 = "table3"
    FIGURE3 = "figure3"
    COLLISIONS = "collisions"
    TERMS = "terms"


def reproduce(
    what: Annotated[
        What, typer.Argument(metavar="WHAT", help="encode, table1, table2, table3, figure3, collisions or terms.")
    ],
    data: Annotated[str, typer.Option(metavar="FOLDER", help="A BEIR folder, or ir_datasets:NAME.")],
    models: Annotated[
        list[str], typer.Option(metavar="NAME=FOLDER", help="A model's folder or hub id, or bm25; can be repeated.")
    ],
    work: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder that keeps vectors and finished cells.")],
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for the page, JSON and plots.")] = None,
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder: qrels/SPLIT.tsv.")] = "test",
    slices: Annotated[str, typer.Option(help="Numbers of slices, with commas between.")] = SLICES,
    theta: Annotated[str, typer.Option(help="Values of θ on the figure.")] = THETAS,
    candidates: Annotated[
        str, typer.Option(help="Numbers of candidates on the figure; paper is its share.")
    ] = CANDIDATES,
    again: Annotated[bool, typer.Option("--again", help="Measure again what the work folder already has.")] = False,
    device: Annotated[str | None, typer.Option(help="Encode on cpu or cuda. Default: a GPU if there is one.")] = None,
    batch: Annotated[int | None, typer.Option(help="Texts a model encodes at a time.")] = None,
) -> None:
    """Reproduce a table or the figure of the paper on any collection with any models, or explain what slicing costs."""
    from denslice.cli.output import write_line
    from denslice.reproduce.collection import read_collection
    from denslice.reproduce.encoding import parsed_models
    from denslice.reproduce.table_page import Grid, paper_share, write

    if what in (What.FIGURE3, What.COLLISIONS) and to is None:
        raise InputError(f"{what.value} draws plots: name a folder for them with --to")
    asked = parsed_models(models)
    collection = read_collection(data, split)
    some = _numbers(candidates.replace(PAPERS, str(paper_share(len(collection.doc_ids)))), int)
    grid = Grid(_numbers(slices, int), _numbers(theta, float), some)
    encoded = [_encoded(collection, model, work, device, batch, told=what is What.ENCODE) for model in asked]
    if what is What.ENCODE:
        return
    page = _made(what, collection, encoded, grid, work, again)
    options = {"--slices": (slices, SLICES), "--theta": (theta, THETAS), "--candidates": (candidates, CANDIDATES)}
    chosen = [part for name, (value, default) in options.items() if value != default for part in (name, value)]
    command = _command(what, data, split, asked, [*chosen, "--work", work.name])
    write_line(page.text)
    if to is not None:
        write(to, page, collection, encoded, command)


def _made(what: What, collection: Collection, models: Sequence[Encodings], grid: Grid, work: Path, again: bool) -> Page:
    """Return the page; cells that the work folder lacks are measured."""
    from denslice.cli.output import progress_bar
    from denslice.reproduce import collision_page, figure3, table1, table2, table3, term_page
    from denslice.reproduce.measuring import Measuring

    if what in (What.COLLISIONS, What.TERMS):
        from_vectors = collision_page if what is What.COLLISIONS else term_page
        with progress_bar("comparing scores", from_vectors.count(models, grid)) as bar:
            page: Page = from_vectors.page(models, grid, collection, bar.advance)
            return page
    maker = {What.TABLE1: table1, What.TABLE2: table2, What.TABLE3: table3, What.FIGURE3: figure3}[what]
    settings = maker.settings(models, grid)
    if not settings:
        raise InputError(f"{what.value} needs a model with a lexical part, and none was named")
    measuring = Measuring(collection, models, work, again)
    with progress_bar(f"measuring {what.value}", len(measuring.missing(settings))) as bar:
        results = measuring.figures(settings, bar.advance)
    page = maker.page(models, grid, results, collection)
    return page


def _encoded(
    collection: Collection, model: NamedModel, work: Path, device: str | None, batch: int | None, told: bool
) -> Encodings:
    """Return the model's vectors, with a progress bar and, if `told`, a line about them."""
    from denslice.cli.output import counted, progress_bar, seconds, size, write_line
    from denslice.reproduce.encoding import encode, missing_docs

    began = time.perf_counter()
    with progress_bar(f"encoding with {model.name}", missing_docs(collection, model, work)) as bar:
        made = encode(collection, model, work, device, batch, bar.advance)
    if told:
        texts = f"{counted(len(collection.doc_ids), 'document')} and {counted(len(collection.queries), 'query')}"
        files = [file for folder in (made.docs_folder, made.queries_folder) for file in folder.iterdir()]
        took, weighs = seconds(time.perf_counter() - began), size(sum(file.stat().st_size for file in files))
        write_line(f"{made.name}: {texts} in {work / made.name} ({took}, {weighs})")
    return made


def _numbers(text: str, kind: type[Number]) -> list[Number]:
    """Return the numbers between commas, each once."""
    try:
        found = list(dict.fromkeys(kind(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"{text!r} is not a list of numbers with commas between") from None
    if min(found) < 0:
        raise InputError(f"{text!r}: numbers must be 0 or more")
    return found


def _command(what: What, data: str, split: str, models: Sequence[NamedModel], options: Sequence[str]) -> str:
    """Return the command that makes the page, without the folders of this machine."""
    named = [part for model in models for part in ("--models", _told(model))]
    where = ["--data", _nameless(data)] + (["--split", split] if split != "test" else [])
    return shlex.join(["denslice", "reproduce", what.value, *where, *named, *options])


def _told(model: NamedModel) -> str:
    return model.name if model.name == model.place else f"{model.name}={_nameless(model.place)}"


def _nameless(place: str) -> str:
    """Return a relative path as it is, and the last two parts of an absolute one."""
    return "/".join(Path(place).parts[-2:]) if Path(place).is_absolute() else place
