"""What the command line shows: hits with their snippets and explanations, sizes, and progress on stderr.

Text of documents goes through rich.text.Text or plain writes, never through markup: `[bold]` prints as it stands.
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
from denslice.search.matches import LOOKED_AT, Words, excerpt, matches

LEAD = 30  # characters a snippet shows before its first match
PLAIN_SNIPPET = 160
BAR = 20  # characters of the longest bar
LOST = "lost by the slicing"
COLLISION = " (hash collision)"  # after a phrase that only shares its token with the query's
DENSE = "dense score"  # the dense part of a score
MATCH, NAME, DIM = "bold magenta", "bold cyan", "dim"

Item = TypeVar("Item")


def console(stderr: bool = False) -> Console:
    """A console that takes text as it is; colours only on a terminal."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


# --- progress


class Bar:
    """A count that goes up; `advance` is what the library calls."""

    def __init__(self, progress: Progress, what: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)

    def expect(self, total: int | None) -> None:
        """Says where the count will end, if that is known."""
        self._progress.update(self._task, total=total)

    def advance(self, count: int) -> None:
        """Moves on by so many."""
        self._progress.advance(self._task, count)

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, counted as they pass."""
        for item in items:
            yield item
            self.advance(1)


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Bar]:
    """A bar on stderr while the block runs, if stderr is a terminal; afterwards it is gone."""
    screen = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    shown = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True, disable=not screen.is_terminal)
    with shown:
        yield Bar(shown, what, total)


# --- hits


def show_hits(ranking: Ranking, explained: Sequence[Explanation] | None, words: Words) -> None:
    """Print the hits, with what each term added to the score if they are explained; for people, or for a pipe."""
    out = console()
    if out.is_terminal:
        print_hits(out, ranking, explained, words)
    else:
        write_hits(ranking, explained, words)


def print_hits(out: Console, ranking: Ranking, explained: Sequence[Explanation] | None, words: Words) -> None:
    """Print the hits for people: name, two lines of text, and a bar for each term if they are explained."""
    longest = max((share for why in explained or () for share in _shares(why)), default=1.0)
    indent = len(str(len(ranking))) + 2
    scores = max((len(f"{hit.score:.2f}") for hit in ranking), default=0)
    tokens, width = ranking.tokens(), out.width - indent
    for at, hit in enumerate(ranking):
        number, score = f"{at + 1:>{indent - 2}}  ", (f"{hit.score:>{scores}.2f}  ", DIM)
        out.print(Text.assemble(number, score, *_name(hit)), no_wrap=True, overflow="ellipsis")
        for line in snippet(hit.text, tokens, words, 2 * width - LEAD // 2).wrap(out, width):
            line.rstrip()
            out.print(Text(" " * indent) + line)
        for line in _bars(explained[at], longest) if explained else ():
            out.print(Text(" " * (indent + 2)) + line, no_wrap=True, overflow="ellipsis")


def write_hits(ranking: Ranking, explained: Sequence[Explanation] | None, words: Words) -> None:
    """Write the hits for pipes: rank, score, id, title and snippet between tabs; terms follow on lines of their own."""
    tokens = ranking.tokens()
    for at, hit in enumerate(ranking):
        text = snippet(hit.text, tokens, words, PLAIN_SNIPPET)
        write_line("\t".join([str(at + 1), f"{hit.score:.4f}", hit.id, _flat(hit.title), text.plain]))
        if explained:
            _write_terms(explained[at])


def _write_terms(why: Explanation) -> None:
    if why.dense:
        write_line(f"\t{DENSE}\t{why.dense:.2f}")
    for term in why.terms:
        write_line(f"\t{_label(term)}\t{_product(term)}")
    for term in why.lost:
        write_line(f"\t{_label(term)}\t{_product(term)}\t{LOST}")


def write_json(value: Mapping[str, Any]) -> None:
    """One JSON object on a line; ASCII only where stdout cannot take more."""
    ascii_only = (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    write_line(json.dumps(value, ensure_ascii=ascii_only))


def json_hit(hit: Hit, why: Explanation | None) -> dict[str, Any]:
    """The hit as a JSON object, with its terms if it is explained."""
    fields = hit.to_dict()
    if why is not None:
        fields["terms"] = [asdict(term) for term in why.terms]
        fields["lost"] = [asdict(term) for term in why.lost]
    return fields


def write_line(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")


# --- snippets


def snippet(text: str, tokens: set[str], words: Words, width: int) -> Text:
    """About `width` characters of the text where it holds the most different tokens, which are marked."""
    flat = _flat(text)
    start, end = excerpt(flat, tokens, words, width, LEAD)
    before, after = "… " if start else "", " …" if end < len(flat) or len(text) > LOOKED_AT else ""
    shown = Text(before + flat[start:end] + after)
    for span in matches(flat[start:end], tokens, words):
        shown.stylize(MATCH, span.start + len(before), span.end + len(before))
    return shown


def _flat(text: str) -> str:
    """The beginning of a text on one line, without characters that would move a terminal's cursor or break a column."""
    return " ".join("".join(char if char.isprintable() else " " for char in text[:LOOKED_AT]).split())


# --- explanations


def _name(hit: Hit) -> list[tuple[str, str]]:
    """What to call the hit: its id and title, or the title alone where that begins with the id."""
    title = _flat(hit.title)
    if title.startswith(hit.id):
        return [(title, NAME)]
    return [(hit.id, NAME), (f"  {title}" if title else "", "")]


def _shares(why: Explanation) -> list[float]:
    return [abs(why.dense), *(term.contribution for term in why.terms)]


def _bars(why: Explanation, longest: float) -> list[Text]:
    """A line for the dense part and one for each term: token, a bar as long as its share, the product it comes from."""
    width = max((len(_label(term)) for term in (*why.terms, *why.lost)), default=0)
    width = max(width, len(DENSE)) if why.dense else width
    lines = []
    if why.dense:
        bar = "█" * max(1, round(BAR * abs(why.dense) / longest))
        lines.append(Text.assemble(f"{DENSE:<{width}}  ", (f"{bar:<{BAR}}", "magenta"), f"  {why.dense:.2f}"))
    for term in why.terms:
        bar = "█" * max(1, round(BAR * term.contribution / longest))
        lines.append(Text.assemble(f"{_label(term):<{width}}  ", (f"{bar:<{BAR}}", "cyan"), f"  {_product(term)}"))
    for term in why.lost:
        lines.append(Text(f"{_label(term):<{width}}  {LOST:<{BAR}}  {_product(term)}", DIM))
    return lines


def _label(term: Term) -> str:
    return _flat(term.token) + (COLLISION if term.collision else "")


def _product(term: Term) -> str:
    return f"{term.query_weight:.2f} × {term.doc_weight:.2f} = {term.contribution:.2f}"


# --- sizes and times


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def seconds(spent: float) -> str:
    """A time for people."""
    return f"{spent:.1f} s" if spent >= 0.1 else f"{1000 * spent:.1f} ms"


def setting(value: object) -> str:
    """A setting for people: numbers with commas, mappings and lists on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def counted(count: int, what: str) -> str:
    """`1 query`, `5,183 queries`: the number and its noun."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
