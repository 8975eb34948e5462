"""The command line: options → library calls → printing. Results go to stdout, progress and errors to stderr.

Commands import what they need themselves, so that none waits for what another needs.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from denslice import __version__
from denslice.cli.backup_command import backup
from denslice.cli.delete_command import delete
from denslice.cli.demo_command import demo
from denslice.cli.evaluate_command import evaluate
from denslice.cli.export_command import export
from denslice.cli.export_docs_command import export_docs
from denslice.cli.index_command import index
from denslice.cli.info_command import info
from denslice.cli.merge_command import merge
from denslice.cli.plan_command import plan
from denslice.cli.run_command import run
from denslice.cli.search_command import search
from denslice.cli.serve_command import serve
from denslice.cli.upgrade_command import upgrade
from denslice.cli.verify_command import verify
from denslice.errors import DensliceError, DensliceWarning


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

for command in (
    demo,
    index,
    export,
    search,
    export_docs,
    run,
    delete,
    merge,
    upgrade,
    backup,
    verify,
    info,
    evaluate,
    plan,
    serve,
):
    app.command()(command)


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


def _failed(line: str, status: int) -> typer.Exit:
    """The exit to raise, after its reason went to stderr in one line."""
    typer.echo(" ".join(line.split("\n")), err=True)
    return typer.Exit(status)
