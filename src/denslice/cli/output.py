"""Output of the command line: hits with snippets and explanations, sizes, and progress on stderr.

Texts of documents are written as rich.text.Text or plainly, never as markup, so that `[bold]` is printed unchanged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from denslice.records import Explanation, Hit, Ranking, Term
from denslice.search.matches import MATCHED_CHARACTERS, TextAnalyzer, excerpt, matches

SNIPPET_LEAD = 30  # characters of a snippet before its first match
PLAIN_SNIPPET = 160  # characters of a snippet in a pipe
BAR_WIDTH = 20  # characters of the longest bar
LOST_LABEL = "lost by the slicing"
COLLISION_LABEL = " (hash collision)"  # follows a phrase that is not in the query but has the same token
DENSE_LABEL = "dense score"
MATCH_STYLE, NAME_STYLE, DIM_STYLE = "bold magenta", "bold cyan", "dim"

Element = TypeVar("Element")


def console(stderr: bool = False) -> Console:
    """Return a console that prints text unchanged, with colours only on a terminal."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


# --- progress


class Bar:
    """A progress bar, which the library moves by calling `advance`."""

    def __init__(self, progress: Progress, what: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)

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


# --- hits


def show_hits(ranking: Ranking, explained: Sequence[Explanation] | None, analyze: TextAnalyzer) -> None:
    """Print the hits on a terminal, or write them to a pipe."""
    out = console()
    if out.is_terminal:
        print_hits(out, ranking, explained, analyze)
    else:
        write_hits(ranking, explained, analyze)


def print_hits(out: Console, ranking: Ranking, explained: Sequence[Explanation] | None, analyze: TextAnalyzer) -> None:
    """Print the hits on a terminal: name, two lines of text, and a bar for each term if they are explained."""
    longest = max((share for why in explained or () for share in _shares(why)), default=1.0)
    indent = len(str(len(ranking))) + 2
    scores = max((len(f"{hit.score:.2f}") for hit in ranking), default=0)
    tokens, width = ranking.tokens(), out.width - indent
    for at, hit in enumerate(ranking):
        number, score = f"{at + 1:>{indent - 2}}  ", (f"{hit.score:>{scores}.2f}  ", DIM_STYLE)
        out.print(Text.assemble(number, score, *_name(hit)), no_wrap=True, overflow="ellipsis")
        for line in snippet(hit.text, tokens, analyze, 2 * width - SNIPPET_LEAD // 2).wrap(out, width):
            line.rstrip()
            out.print(Text(" " * indent) + line)
        for line in _bars(explained[at], longest) if explained else ():
            out.print(Text(" " * (indent + 2)) + line, no_wrap=True, overflow="ellipsis")


def write_hits(ranking: Ranking, explained: Sequence[Explanation] | None, analyze: TextAnalyzer) -> None:
    """Write the hits to a pipe: rank, score, id, title and snippet between tabs, then a line for each term."""
    tokens = ranking.tokens()
    for at, hit in enumerate(ranking):
        text = snippet(hit.text, tokens, analyze, PLAIN_SNIPPET)
        write_line("\t".join([str(at + 1), f"{hit.score:.4f}", hit.id, _flat(hit.title), text.plain]))
        if explained:
            _write_terms(explained[at])


def _write_terms(why: Explanation) -> None:
    if why.dense:
        write_line(f"\t{DENSE_LABEL}\t{why.dense:.2f}")
    for term in why.terms:
        write_line(f"\t{_label(term)}\t{_product(term)}")
    for term in why.lost:
        write_line(f"\t{_label(term)}\t{_product(term)}\t{LOST_LABEL}")


def write_json(value: Mapping[str, Any]) -> None:
    """Write a JSON object on one line, in ASCII if the encoding of stdout is not UTF-8."""
    ascii_only = (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    write_line(json.dumps(value, ensure_ascii=ascii_only))


def json_hit(hit: Hit, why: Explanation | None) -> dict[str, Any]:
    """Return the hit as a JSON object, with its terms if it is explained."""
    fields = hit.to_dict()
    if why is not None:
        fields["terms"] = [asdict(term) for term in why.terms]
        fields["lost"] = [asdict(term) for term in why.lost]
    return fields


def write_line(text: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(text + "\n")


# --- snippets


def snippet(text: str, tokens: set[str], analyze: TextAnalyzer, width: int) -> Text:
    """Return about `width` characters of the text with the most different tokens, which are marked."""
    flat = _flat(text)
    start, end = excerpt(flat, tokens, analyze, width, SNIPPET_LEAD)
    before, after = "… " if start else "", " …" if end < len(flat) or len(text) > MATCHED_CHARACTERS else ""
    shown = Text(before + flat[start:end] + after)
    for span in matches(flat[start:end], tokens, analyze):
        shown.stylize(MATCH_STYLE, span.start + len(before), span.end + len(before))
    return shown


def _flat(text: str) -> str:
    """Return the beginning of a text on one line, without characters that would move the cursor of a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text[:MATCHED_CHARACTERS]).split())


# --- explanations


def _name(hit: Hit) -> list[tuple[str, str]]:
    """Return the id and title of the hit, or the title alone if it begins with the id."""
    title = _flat(hit.title)
    if title.startswith(hit.id):
        return [(title, NAME_STYLE)]
    return [(hit.id, NAME_STYLE), (f"  {title}" if title else "", "")]


def _shares(why: Explanation) -> list[float]:
    return [abs(why.dense), *(term.contribution for term in why.terms)]


def _bars(why: Explanation, longest: float) -> list[Text]:
    """Return a line for the dense score and for each term: its name, a bar of its share, and how it is computed."""
    rows = [(DENSE_LABEL, why.dense, "magenta", f"{why.dense:.2f}")] if why.dense else []
    rows += [(_label(term), term.contribution, "cyan", _product(term)) for term in why.terms]
    lost = [(_label(term), _product(term)) for term in why.lost]
    width = max(map(len, [*(name for name, *_ in rows), *(name for name, _ in lost)]), default=0)
    lines = []
    for name, share, colour, told in rows:
        bar = "█" * max(1, round(BAR_WIDTH * abs(share) / longest))
        lines.append(Text.assemble(f"{name:<{width}}  ", (f"{bar:<{BAR_WIDTH}}", colour), f"  {told}"))
    lines += [Text(f"{name:<{width}}  {LOST_LABEL:<{BAR_WIDTH}}  {told}", DIM_STYLE) for name, told in lost]
    return lines


def _label(term: Term) -> str:
    return _flat(term.token) + (COLLISION_LABEL if term.collision else "")


def _product(term: Term) -> str:
    return f"{term.query_weight:.2f} × {term.doc_weight:.2f} = {term.contribution:.2f}"


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
    """Return a setting as text: numbers with commas, mappings and lists on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value)) or "none"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def counted(count: int, what: str) -> str:
    """Return a number and its noun, such as `1 query` or `5,183 queries`."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
