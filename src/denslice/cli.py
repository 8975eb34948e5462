"""The command line: options → library calls → printing. Results go to stdout, progress and errors to stderr.

Commands import what they need themselves, so that none waits for what another needs.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from denslice import __version__
from denslice.bench.command import cpu
from denslice.bench.gpu_command import gpu as bench_gpu
from denslice.cluster.plan_command import plan
from denslice.errors import DensliceError, DensliceWarning, InputError
from denslice.reproduce.command import reproduce
from denslice.serve.command import serve
from denslice.train.command import train

if TYPE_CHECKING:
    from denslice.index import Index
    from denslice.matches import Words


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """While the block runs, a warning of denslice's goes to stderr in one line; others as they always do."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, DensliceWarning):
                typer.echo(f"warning: {message}", err=True)
            else:
                others(message, category, *where, **more)

        warnings.simplefilter("default", DensliceWarning)
        warnings.showwarning = show
        yield


class Commands(TyperGroup):
    """The commands, with every expected failure told in one line and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            with _warnings_in_one_line():
                result = super().invoke(ctx)
            sys.stdout.flush()  # a reader that has gone shows here and not at exit, where nobody catches it
        except BrokenPipeError:
            raise  # typer leaves quietly
        except DensliceError as error:
            raise _failed(f"error: {error}", 2) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise _failed(f"error: {where}{error.strerror or error}", 2) from error
        except KeyboardInterrupt as error:
            raise _failed("interrupted", 130) from error
        return result


app = typer.Typer(cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

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


def main() -> None:
    """Runs the command line: the entry point of `denslice`."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets its code, not a crash
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("denslice").setLevel(logging.INFO)  # the licence of a model that is loaded
    if not sys.stderr.isatty():
        logging.getLogger("denslice.compiling").setLevel(logging.WARNING)
    app()


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    """Search text in one index, on a laptop, and see why each result matched."""
    if version:
        typer.echo(f"denslice {__version__}")
        raise typer.Exit


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep the index there.")] = None,
) -> None:
    """Index the docstrings of Python's own library and answer three questions about it."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="denslice-demo-") as temporary:
        index = _demo_index(keep or Path(temporary, "python.idx"))
        _demo_questions(index)
    _demo_next(keep)


@app.command()
def index(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="JSONL, TSV, .txt, .md (each also .gz), BEIR folders, .npz; - for JSONL of stdin.",
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="INDEX", help="The index's folder: a new one, or one to add to.")],
    encoder: Annotated[
        str | None,
        typer.Option(help="mini (the default: words and meaning), bm25, vectors, or a model: folder or hub id."),
    ] = None,
    slices: Annotated[int | None, typer.Option(help="How many slices a document keeps. Default: 768.")] = None,
    slicing: Annotated[str | None, typer.Option(help="learned (the default), stride, contiguous or random.")] = None,
    query: Annotated[str | None, typer.Option(help="full (the default) or sliced, as in the paper.")] = None,
    language: Annotated[str | None, typer.Option(help="Whose stems mini and bm25 take. Default: english.")] = None,
    phrases: Annotated[
        float | None,
        typer.Option(help="What two words side by side weigh, beside a word. Default: 0.3 for mini, 0 for bm25."),
    ] = None,
    vocab: Annotated[int | None, typer.Option(help="Columns of ready vectors.")] = None,
    skip: Annotated[int | None, typer.Option(help="Leading token ids to leave out. Default: 0.")] = None,
    seed: Annotated[int | None, typer.Option(help="For --slicing random. Default: 0.")] = None,
    filterable: Annotated[str | None, typer.Option(help="Metadata fields to filter by often: year,lang")] = None,
    wait: Wait = 10.0,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Make a cluster of shards on Ray: host:port, auto or local.")
    ] = None,
    shards: Annotated[int | None, typer.Option(help="With --ray: over how many indexes. Default: 16.")] = None,
    cpus: Annotated[float, typer.Option(help="With --ray: CPUs of each worker.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="With --ray: GPUs of each worker that encodes.")] = 0.0,
) -> None:
    """Make an index of files and folders, or add them to one; a document takes the place of one with its id."""
    from denslice.indexing import index_files
    from denslice.printing import counted, progress_bar, seconds, size, write_line

    options: dict[str, Any] = {
        "encoder": encoder,
        "slices": slices,
        "slicing": slicing,
        "query": query,
        "language": language,
        "phrases": phrases,
    }
    options |= {"vocab": vocab, "skip": skip, "seed": seed}
    options |= {"filterable": None if filterable is None else filterable.split(",")}
    began = time.perf_counter()
    with progress_bar("indexing") as bar:
        chosen = {name: value for name, value in options.items() if value is not None}
        if ray is None and shards is None:
            count = index_files(inputs, to, chosen, bar, wait)
            weighs = size(_open(to).info()["bytes"])
        else:
            from denslice.cluster.building import Workers
            from denslice.cluster.command import index_on_ray

            count, stored = index_on_ray(inputs, to, chosen, ray, shards, Workers(cpus, gpus), bar, wait)
            weighs = size(stored)
    took = seconds(time.perf_counter() - began)
    write_line(f"indexed {counted(count, 'document')} into {to} ({took}, {weighs})")


@app.command()
def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A trained model that weighs words: folder or hub id.")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder, for --encoder.")],
    texts: Annotated[
        str | None,
        typer.Option(metavar="FILE|FOLDER", help="Texts such as it will read: with them, weights in int8."),
    ] = None,
) -> None:
    """Write a model that runs without torch: an ONNX graph, its tokenizer and its settings."""
    from denslice.exporting import export_model
    from denslice.printing import size

    weighs = size(export_model(model, to, texts))
    typer.echo(f"wrote {to} ({weighs})")


@app.command()
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
    from denslice import printing

    index = _open(folder, device, leave_out)
    how: dict[str, Any] = {"mode": mode, "lam": lam}
    stage_one: dict[str, Any] = {"theta": theta, "candidates": candidates, "caution": caution}
    hits = list(index.search(question, k, where=_filter(where), **stage_one, **how))
    out = printing.console()
    if not hits:
        typer.echo("no document matches", err=True)
    elif as_json:
        for hit in hits:
            printing.write_json(printing.json_hit(hit, index.explain(question, hit.id, **how) if explain else None))
    else:
        explained = [index.explain(question, hit.id, **how) for hit in hits]
        if out.is_terminal:
            printing.print_hits(out, hits, explained, _words(index), explain)
        else:
            printing.write_hits(hits, explained, _words(index), explain)


@app.command()
def export_docs(folder: IndexFolder) -> None:
    """Print every document as a line of JSON, which `index` reads back: id, title, text and meta, but no vectors."""
    from denslice.printing import write_json

    for doc in _open(folder).docs():
        write_json(doc.to_dict())


@app.command()
def run(
    folder: IndexFolder,
    queries: Annotated[str, typer.Argument(metavar="QUERIES", help="TSV, JSONL or a BEIR folder.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The TREC run file to write, gzipped if it ends in .gz.")],
    k: Annotated[int, typer.Option("-k", help="How many documents for each query.")] = 1000,
    theta: Theta = 0.0,
    candidates: Candidates = 10_000,
    mode: Mode = None,
    lam: Lam = None,
    caution: Caution = 1.0,
    where: Where = None,
    device: Device = "cpu",
    leave_out: LeaveOut = "",
) -> None:
    """Answer a file of queries into a TREC run."""
    from denslice.corpus import read_queries
    from denslice.printing import counted, progress_bar, seconds, write_line
    from denslice.runs import write_run

    index, asked = _open(folder, device, leave_out), list(read_queries(queries))
    began = time.perf_counter()
    with progress_bar("searching", len(asked)) as bar:
        how: dict[str, Any] = {"theta": theta, "candidates": candidates, "mode": mode, "lam": lam, "caution": caution}
        rankings = index.rank(asked, k, where=_filter(where), **how)
        lines = write_run(out, bar.over(rankings))
    took = seconds(time.perf_counter() - began)
    write_line(f"answered {counted(len(asked), 'query')} into {out} ({counted(lines, 'line')}, {took})")


@app.command()
def delete(
    folder: IndexFolder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", show_default=False)] = None,
    ids_from: Annotated[Path | None, typer.Option("--from", metavar="FILE", help="A file with an id a line.")] = None,
    wait: Wait = 10.0,
) -> None:
    """Delete documents by their ids."""
    from denslice.lines import read_lines
    from denslice.printing import counted, write_line

    wanted = [*(ids or []), *(line for _, line in read_lines(ids_from))] if ids_from else ids or []
    if not wanted:
        raise InputError("no ids given: name them, or a file of them with --from")
    write_line(f"deleted {counted(_open(folder).delete(wanted, wait=wait), 'document')} from {folder}")


@app.command()
def merge(folder: IndexFolder, wait: Wait = 10.0) -> None:
    """Rewrite segments that are small or much deleted; results stay the same."""
    from denslice.printing import counted, size, write_line

    index = _open(folder)
    rewritten = index.merge(wait=wait)
    told = index.info()
    write_line(f"rewrote {counted(rewritten, 'segment')}; {folder} now has {told['segments']:,}, {size(told['bytes'])}")


@app.command()
def upgrade(folder: IndexFolder) -> None:
    """Bring an index of an older version up to date, in place; until that is done the old one stays as it is."""
    from denslice.printing import counted, progress_bar, write_line
    from denslice.upgrading import upgrade as upgraded

    with progress_bar("upgrading") as bar:
        done = upgraded(folder, bar.advance)
    told = f"upgraded {counted(done.docs, 'document')} ({done.reason})" if done.reason else "nothing to upgrade"
    write_line(f"{folder}: {told}")


@app.command()
def backup(
    folder: IndexFolder,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder for the copy.")],
) -> None:
    """Copy an index that may be written to meanwhile; files are hard links where the file system has them."""
    from denslice.printing import counted, write_line

    _open(folder).backup(to)
    write_line(f"copied {counted(len(_open(to)), 'document')} to {to}")


@app.command()
def verify(folder: IndexFolder) -> None:
    """Read every file of an index and compare it with what was written."""
    from denslice.printing import counted, size, write_line

    index = _open(folder)
    index.verify()
    write_line(f"{folder} is whole: {counted(len(index), 'document')}, {size(index.info()['bytes'])}")


@app.command()
def info(folder: IndexFolder, as_json: AsJson = False) -> None:
    """Show what an index is: documents, encoder, slicing, size."""
    from denslice.printing import setting, size, write_json, write_line

    told = _open(folder).info()
    if as_json:
        return write_json(told)
    for name, value in told.items():
        shown = size(value) if name == "bytes" else setting(value)
        write_line(f"{name.replace('_', ' '):<16} {shown}")


@app.command()
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
    per_query: Annotated[bool, typer.Option("--per-query", help="Each query's values instead of the means.")] = False,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave out results whose id is the query's own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure runs against judgements, side by side, with paired tests against the first."""
    from denslice import comparison
    from denslice.evaluate import MEASURES, evaluate_files
    from denslice.printing import write_json, write_line

    if len(files) < 2:
        raise InputError(f"{files[0]}: name one or more runs and then the judgements, such as run.trec qrels/test.tsv")
    found = evaluate_files(files[:-1], files[-1], measure or MEASURES, exclude_self)
    if as_json:
        write_json(comparison.as_json(found, per_query))
    else:
        for line in comparison.query_lines(found) if per_query else comparison.table(found):
            write_line(line)


app.command()(plan)
app.command()(train)
app.command()(reproduce)
app.command()(serve)
bench = typer.Typer(help="Time search beside its peers.", no_args_is_help=True)
bench.command()(cpu)
bench.command()(bench_gpu)
app.add_typer(bench, name="bench")


# --- the demo


def _demo_index(to: Path) -> Index:
    """The index of Python's docstrings, made while a bar and then a line say so."""
    from denslice.demo import stdlib_docs
    from denslice.indexing import new_index
    from denslice.printing import console, counted, progress_bar, seconds, size

    began = time.perf_counter()
    with progress_bar("reading Python's docstrings") as bar:
        docs = list(bar.over(stdlib_docs()))
    read = time.perf_counter()
    with progress_bar("indexing", len(docs)) as bar:
        index = new_index(to, {}, lambda index: index.add(docs, progress=bar.advance))
        index.search("warm up")  # loads the kernels, or compiles them the first time
    done = time.perf_counter()
    out = console()
    version = ".".join(map(str, sys.version_info[:2]))
    out.print(f"{counted(len(docs), 'docstring')} of Python {version}'s standard library")
    out.print(
        f"read in {seconds(read - began)}, indexed in {seconds(done - read)}, {size(index.info()['bytes'])} on disk"
    )
    return index


def _demo_questions(index: Index) -> None:
    from rich.text import Text

    from denslice.demo import QUESTIONS
    from denslice.printing import console, print_hits, seconds

    out = console()
    for question in QUESTIONS:
        began = time.perf_counter()
        hits = list(index.search(question, 3))
        took = seconds(time.perf_counter() - began)
        out.print(Text.assemble("\n", (f"“{question}”", "bold"), (f"  {took}", "dim")))
        print_hits(out, hits, [index.explain(question, hit.id) for hit in hits], _words(index), bars=True)


def _demo_next(keep: Path | None) -> None:
    from denslice.printing import console

    out = console()
    out.print("\nA bar is what a word added to the score, question weight × document weight, or what meaning added.")
    out.print("Next, search text of your own:")
    out.print("  denslice index your-files/ --to my.idx")
    out.print('  denslice search my.idx "your question" --explain')
    if keep is None:
        out.print("or keep this index and go on asking it:")
        out.print("  denslice demo --keep python.idx")
    else:
        out.print("or go on asking this index:")
        out.print(f'  denslice search {keep} "how do I sort a list?"')


# --- shared


def _open(folder: Path, device: str = "cpu", leave_out: str = "") -> Index:
    from denslice.cluster.layout import is_cluster
    from denslice.index import Index

    if is_cluster(folder):
        advice = f"`denslice serve {folder} --ray ADDRESS` serves it, and {folder}/shards/00000 is an index"
        raise InputError(f"{folder}: is a cluster of shards and not one index; {advice}")
    if device == "cpu":
        return Index.open(folder)
    from denslice.printing import progress_bar

    with progress_bar("loading onto the card") as bar:
        return Index.open(folder, device, leave_out=leave_out.split(",") if leave_out else (), progress=bar.advance)


def _filter(where: str | None) -> Any:
    """The filter that JSON text tells."""
    import json

    try:
        return None if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--where is not JSON ({error}): {where}") from None


def _words(index: Index) -> Words:
    """How the index makes tokens of a text, to find them in it again."""
    from denslice.matches import words_of

    return words_of(index.info())


def _failed(line: str, status: int) -> typer.Exit:
    """The exit to raise, after its reason went to stderr in one line."""
    typer.echo(" ".join(line.split("\n")), err=True)
    return typer.Exit(status)
