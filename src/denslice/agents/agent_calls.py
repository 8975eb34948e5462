"""One call of an agent: the last commit is shown, warnings go into the answer, and errors say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.server.mcpserver.exceptions import ToolError

from denslice.errors import DensliceError, InputError, LockedError, collected_warnings
from denslice.index.index import Index

LONGEST_LINE = 300  # characters of a title, a heading or a path in an answer


@contextmanager
def call_on(index: Index) -> Iterator[list[str]]:
    """Show the last commit of any process, and yield the list of warnings for the answer.

    An error of denslice becomes one of the tool, which the agent reads.
    """
    try:
        with collected_warnings() as warnings:
            _show_last_commit(index, warnings)
            yield warnings
    except LockedError as error:
        raise ToolError(f"{error}. Nothing was changed; call again in some seconds") from error
    except DensliceError as error:
        raise ToolError(str(error)) from error


def unknown_id(id: str) -> InputError:
    """Return the error that no document has this id."""
    return InputError(f"no document has the id {id!r}; take ids from search or list exactly as they are")


def on_a_line(text: str) -> str:
    """Return a title or heading on one line, shortened if it is very long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def _show_last_commit(index: Index, warnings: list[str]) -> None:
    try:
        index.refresh()
    except DensliceError as error:
        warnings.append(f"the last commit cannot be opened ({error}); this answer is from commit {index.generation}")
