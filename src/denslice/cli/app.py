"""The app that has all commands of the product. Results go to stdout, progress and errors to stderr.

Each command imports the modules that it needs in its function, so that no command waits for those of another.
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
from denslice.cli.deepen_command import deepen
from denslice.cli.delete_command import delete
from denslice.cli.demo_command import demo
from denslice.cli.evaluate_command import evaluate
from denslice.cli.export_command import export
from denslice.cli.export_docs_command import export_docs
from denslice.cli.index_command import index
from denslice.cli.info_command import info
from denslice.cli.ls_command import ls
from denslice.cli.mcp_command import mcp
from denslice.cli.merge_command import merge
from denslice.cli.plan_command import plan
from denslice.cli.run_command import run
from denslice.cli.search_command import search
from denslice.cli.serve_command import serve
from denslice.cli.show_command import show
from denslice.cli.similar_command import similar
from denslice.cli.sync_command import sync
from denslice.cli.upgrade_command import upgrade
from denslice.cli.verify_command import verify
from denslice.errors import DensliceError, DensliceWarning


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Write warnings of denslice to stderr in one line each. Other warnings are shown as usual."""
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
    """The group of commands. An expected error is one line on stderr and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with _warnings_in_one_line():
                result = super().invoke(ctx)
            sys.stdout.flush()  # a closed pipe raises here and not at exit, where it could not be caught
        except BrokenPipeError:
            raise  # typer exits without a message
        except DensliceError as error:
            raise _failed(f"error: {error}", 2) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise _failed(f"error: {where}{error.strerror or error}", 2) from error
        except KeyboardInterrupt as error:
            raise _failed("interrupted", 130) from error
        return result


app = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

for command in (
    demo, index, sync, deepen, export, search, similar, show, ls, export_docs, run, delete, merge, upgrade, backup,
    verify, info, evaluate, plan, serve, mcp,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """Run the command line: the entry point of `denslice`."""
    for stream in (sys.stdout, sys.stderr):  # a character that the terminal cannot show is escaped
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("denslice").setLevel(logging.INFO)  # shows the licence of a model that is loaded
    if not sys.stderr.isatty():
        for module in ("compiling", "loops"):
            logging.getLogger(f"denslice.{module}").setLevel(logging.WARNING)
    app()


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    """Search text by lexical and dense scores in one index, and see why each result matched."""
    if version:
        typer.echo(f"denslice {__version__}")
        raise typer.Exit


def _failed(line: str, status: int) -> typer.Exit:
    """Write the reason to stderr in one line, and return the exit to raise."""
    typer.echo(" ".join(line.split("\n")), err=True)
    return typer.Exit(status)
