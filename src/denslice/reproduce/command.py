"""The commands `denslice reproduce …`: options → library calls → printing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from denslice.reproduce.collection import Collection
    from denslice.reproduce.encoding import Encodings

app = typer.Typer(no_args_is_help=True, help="Make the paper's tables and figure again, on any collection.")

Data = Annotated[str, typer.Option(metavar="FOLDER", help="A BEIR folder, or ir_datasets:NAME.", show_default=False)]
Models = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=FOLDER", help="A model's folder or hub id, or bm25; can be repeated.", show_default=False
    ),
]
Work = Annotated[Path, typer.Option(metavar="FOLDER", help="Where vectors and finished cells are kept.")]
Split = Annotated[str, typer.Option(help="Which judgements of a BEIR folder: qrels/SPLIT.tsv.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda. Default: a GPU if there is one.")]
Batch = Annotated[int | None, typer.Option(help="Texts a model encodes at a time.")]


@app.command()
def encode(
    data: Data,
    models: Models,
    work: Work = Path("work"),
    split: Split = "test",
    device: Device = None,
    batch: Batch = None,
) -> None:
    """Encode a collection with each model, which is stage one of all the others; a run that stopped goes on."""
    from denslice.printing import counted, seconds, size, write_line
    from denslice.reproduce.collection import read_collection

    collection = read_collection(data, split)
    began = time.perf_counter()
    for made in _encoded(collection, models, work, device, batch):
        files = [file for folder in (made.docs_folder, made.queries_folder) for file in folder.iterdir()]
        told = f"{counted(len(collection.doc_ids), 'document')} and {counted(len(collection.queries), 'query')}"
        took, weighs = seconds(time.perf_counter() - began), size(sum(file.stat().st_size for file in files))
        write_line(f"{made.name}: {told} in {made.docs_folder.parent} ({took}, {weighs})")
        began = time.perf_counter()


def _encoded(
    collection: Collection, models: list[str], work: Path, device: str | None, batch: int | None
) -> Iterator[Encodings]:
    """Each model's vectors, with a bar while they are made."""
    from denslice.printing import progress_bar
    from denslice.reproduce.encoding import encode, missing_docs, parsed_models

    for model in parsed_models(models):
        with progress_bar(f"encoding with {model.name}", missing_docs(collection, model, work)) as bar:
            yield encode(collection, model, work, device, batch, bar.advance)
