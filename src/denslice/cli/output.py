"""Output of the command line: lines and JSON on stdout, sizes and times, and progress on stderr.

Texts of documents are written as rich.text.Text or plainly, never as markup, so that `[bold]` is printed unchanged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from denslice.search.matches import MATCHED_CHARACTERS

NAME_STYLE, DIM_STYLE = "bold cyan", "dim"

Element = TypeVar("Element")


def console(stderr: bool = False) -> Console:
    """Return a console that prints text unchanged, with colours only on a terminal."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


# --- progress


class Bar:
    """A progress bar, which the library moves by calling `advance`."""

    def __init__(self, progress: Progress, what: str, total: int | None, **fields: Any) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total, **fields)

    def expect(self, total: int | None) -> None:
        """Set the total, or None if it is not known."""
        self._progress.update(self._task, total=total)

    def advance(self, count: int) -> None:
        """Move the bar on by `count`."""
        self._progress.advance(self._task, count)

    def over(self, items: Iterable[Element]) -> Iterator[Element]:
        """Yield the items and count them."""
        for item in items:
            yield item
            self.advance(1)


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar on stderr while the block runs, if stderr is a terminal."""
    screen = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    shown = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True, disable=not screen.is_terminal)
    with shown:
        yield Bar(shown, what, total)


class FileBar(Bar):
    """A progress bar of files and their bytes, with the rate and the time left; it can count documents instead."""

    def expect_files(self, files: int, size: int) -> None:
        """Set how many files, of how many bytes in all, are to be read."""
        self._progress.update(self._task, total=size, files=f"0/{files:,} files", of=files)

    def advance_files(self, files: int, size: int) -> None:
        """Add to the files and bytes that are done."""
        fields = self._progress.tasks[self._task].fields
        done = fields["done"] + files
        self._progress.update(self._task, advance=size, done=done, files=f"{done:,}/{fields['of']:,} files")


@contextmanager
def file_progress(what: str) -> Iterator[FileBar]:
    """Show a bar of files on stderr while the block runs, if stderr is a terminal."""
    screen = console(stderr=True)
    text = TextColumn("{task.description} {task.fields[files]}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    shown = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal, speed_estimate_period=60)
    with shown:
        yield FileBar(shown, what, None, files="", of=0, done=0)


# --- lines


def write_json(value: Mapping[str, Any]) -> None:
    """Write a JSON object on one line, in ASCII if the encoding of stdout is not UTF-8."""
    ascii_only = (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    write_line(json.dumps(value, ensure_ascii=ascii_only))


def write_line(text: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(text + "\n")


def on_one_line(text: str) -> str:
    """Return the beginning of a text on one line, without characters that would move the cursor of a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text[:MATCHED_CHARACTERS]).split())


def harmless(line: str) -> str:
    """Return a line of a text without characters that would move the cursor of a terminal. Tabs remain."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() or char == "\t" else " " for char in line)


# --- sizes and times


def size(count: int) -> str:
    """Return a number of bytes as text, such as 1.2 MB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def seconds(spent: float) -> str:
    """Return a time as text, in seconds or milliseconds."""
    return f"{spent:.1f} s" if spent >= 0.1 else f"{1000 * spent:.1f} ms"


def setting(value: object) -> str:
    """Return a setting as text: numbers with commas, yes or no, mappings and lists on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value)) or "none"
    if value is None or isinstance(value, bool):
        return "yes" if value else "none" if value is None else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def counted(count: int, what: str) -> str:
    """Return a number and its noun, such as `1 query` or `5,183 queries`."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
