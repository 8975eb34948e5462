"""Output of hits: their names, places, snippets and explanations, on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from denslice.cli.output import DIM_STYLE, NAME_STYLE, console, on_one_line, write_json, write_line
from denslice.cli.place_labels import line_of, place_label
from denslice.encoders.mini import EARLIER
from denslice.index.followed_paths import file_of
from denslice.index.index import Index
from denslice.rankings import Explanation, Hit, Passage, Ranking, Term
from denslice.search.matches import MATCHED_CHARACTERS, TextAnalyzer, excerpt, matches, text_analyzer

SNIPPET_LEAD = 30  # characters of a snippet before its first match, or fewer of a short one
PLAIN_SNIPPET = 160  # characters of a snippet in a pipe
BAR_WIDTH = 20  # characters of the longest bar
LOST_LABEL = "lost by the slicing"
COLLISION_LABEL = " (hash collision)"  # follows a phrase that is not in the query but has the same token
DENSE_LABEL, BEST_LABEL, MEAN_LABEL = "dense score", "dense, best passage {}", "dense, mean of all"
CONDITIONS_LABEL = "conditions"
SHOWN_VALUES = 20  # values of a facet in a terminal or a pipe
MATCH_STYLE = "bold magenta"


@dataclass(frozen=True)
class ShownHit:
    """A hit with the whole text of its document, and the explanation of its score if one is shown."""

    hit: Hit
    text: str
    why: Explanation | None = None
    link: str = ""  # the address of its file

    @property
    def best(self) -> Passage:
        """The passage that matches best."""
        return self.hit.passages[0]

    def place(self, width: int | None = None) -> str:
        """Return where the best passage is, or nothing if it is the whole document."""
        return place_label(self.best.number, self.best, self.text, width)


def shown_hits(index: Index, ranking: Ranking, explain: bool) -> list[ShownHit]:
    """Return the hits of a ranking, best first, with what their output needs."""
    why: Sequence[Explanation | None] = ranking.explanations() if explain else [None] * len(ranking)
    text_of = {hit.id: hit.text for hit in ranking}
    if ranking.passages:  # then the text of a hit is that of one passage
        text_of = {id: doc.text for id in text_of if (doc := index.get(id))}
    manifest = index.reader.snapshot.manifest
    files = [file_of(manifest, hit.meta) for hit in ranking]
    links = ["" if file is None else file.as_uri() for file in files]
    shown = zip(ranking, why, links, strict=True)
    return [ShownHit(hit, text_of[hit.id], one, link) for hit, one, link in shown]


def write_ranking(index: Index, ranking: Ranking, explain: bool, as_json: bool, is_page: bool) -> None:
    """Write a ranking to stdout: its hits, then its facets. What follows it is noted on stderr if it is a page."""
    hits = shown_hits(index, ranking, explain)
    if index.info().earlier_model:
        told = f"{EARLIER}: words alone decide"
        typer.echo(f"{told}; run `denslice upgrade {on_one_line(str(index.path))}`, which encodes it again", err=True)
    if ranking.corrections:
        told = ", ".join(on_one_line(str(one)) for one in ranking.corrections)
        typer.echo(f"{told}: no document has what was typed; --no-fuzzy searches for nothing else", err=True)
    if not hits:
        typer.echo("no document matches", err=True)
    elif as_json:
        for hit in hits:
            write_json(json_hit(hit))
    else:
        show_hits(hits, ranking.tokens(), text_analyzer(index.info().encoder_options, index.info().languages))
    if ranking.facets:
        write_facets(ranking, as_json)
    if is_page and ranking.cursor:
        typer.echo(f"more follow: --cursor {ranking.cursor}", err=True)


# --- hits


def show_hits(hits: Sequence[ShownHit], tokens: set[str], analyze: TextAnalyzer) -> None:
    """Print the hits on a terminal, or write them to a pipe. The tokens are marked in their snippets."""
    out = console()
    if out.is_terminal:
        print_hits(out, hits, tokens, analyze)
    else:
        write_hits(hits, tokens, analyze)


def print_hits(out: Console, hits: Sequence[ShownHit], tokens: set[str], analyze: TextAnalyzer) -> None:
    """Print the hits on a terminal: name, place, two lines of text, and a bar for each term if they are explained."""
    longest = max((abs(share) for one in hits if one.why for share in _shares(one.why)), default=1.0)
    indent = len(str(len(hits))) + 2
    scores = max((len(f"{one.hit.score:.2f}") for one in hits), default=0)
    width = out.width - indent
    for at, one in enumerate(hits):
        number, score = f"{at + 1:>{indent - 2}}  ", (f"{one.hit.score:>{scores}.2f}  ", DIM_STYLE)
        _print_line(out, Text.assemble(number, score, *_name(one)))
        if place := one.place(width):
            _print_line(out, Text(" " * indent + place, DIM_STYLE))
        for line in snippet(one.best.text, tokens, analyze, 2 * width - SNIPPET_LEAD // 2).wrap(out, width):
            line.rstrip()
            out.print(Text(" " * indent) + line)
        for line in _bars(one.why, longest) if one.why else ():
            _print_line(out, Text(" " * (indent + 2)) + line)


def _print_line(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ellipsis")


def write_hits(hits: Sequence[ShownHit], tokens: set[str], analyze: TextAnalyzer) -> None:
    """Write the hits to a pipe: rank, score, id, title, snippet and place between tabs, then a line for each term."""
    for rank, one in enumerate(hits, 1):
        text = snippet(one.best.text, tokens, analyze, PLAIN_SNIPPET).plain
        columns = [str(rank), f"{one.hit.score:.4f}", one.hit.id, on_one_line(one.hit.title), text, one.place()]
        write_line("\t".join(columns))
        if one.why:
            _write_terms(one.why)


def _write_terms(why: Explanation) -> None:
    if why.conditions:
        write_line(f"\t{CONDITIONS_LABEL}\t{_conditions(why)}")
    for label, share in _dense_parts(why):
        write_line(f"\t{label}\t{share:.2f}")
    for term in why.terms:
        write_line(f"\t{_label(term)}\t{_product(term)}")
    for term in why.lost:
        write_line(f"\t{_label(term)}\t{_product(term)}\t{LOST_LABEL}")


def json_hit(one: ShownHit) -> dict[str, Any]:
    """Return the hit as a JSON object: its passages with their lines, and its terms if it is explained.

    A hit that is one passage of several says so in `cut`, so that nobody indexes it in place of its document.
    """
    fields = one.hit.to_dict()
    for passage, at in zip(fields["passages"], one.hit.passages, strict=True):
        passage["line"] = line_of(at, one.text)
    if len(one.hit.text) < len(one.text):
        fields["cut"] = {"text": {"start": one.best.start, "length": len(one.text)}}
    if one.why is not None:
        fields["terms"] = [asdict(term) for term in one.why.terms]
        fields["lost"] = [asdict(term) for term in one.why.lost]
        fields["explanation"] = {
            "best": one.why.best,
            "mean": one.why.mean,
            "passage": one.why.passage,
            "conditions": list(one.why.conditions),
            "corrections": list(one.why.corrections),
        }
    return fields


# --- facets


def write_facets(ranking: Ranking, as_json: bool) -> None:
    """Write how many documents match, and a line for each field with its values and their counts."""
    if as_json:
        fields = {field: _value_counts(counts) for field, counts in ranking.facets.items()}
        return write_json({"matching": ranking.matching, "facets": fields})
    write_line(f"matching: {ranking.matching:,}")
    for field, counts in ranking.facets.items():
        shown = [f"{_value(value)} ({count:,})" for value, count in islice(counts.items(), SHOWN_VALUES)]
        more = [f"{len(counts) - SHOWN_VALUES:,} more"] if len(counts) > SHOWN_VALUES else []
        write_line(f"{on_one_line(field)}: {', '.join([*shown, *more])}")
    return None


def _value_counts(counts: Mapping[Any, int]) -> list[dict[str, Any]]:
    return [{"value": value, "count": count} for value, count in counts.items()]


def _value(value: object) -> str:
    return on_one_line(value if isinstance(value, str) else json.dumps(value))


# --- snippets


def snippet(text: str, tokens: set[str], analyze: TextAnalyzer, width: int) -> Text:
    """Return about `width` characters of the text with the most different tokens, which are marked."""
    flat = on_one_line(text)
    start, end = excerpt(flat, tokens, analyze, width, min(SNIPPET_LEAD, width // 5))
    before, after = "… " if start else "", " …" if end < len(flat) or len(text) > MATCHED_CHARACTERS else ""
    shown = Text(before + flat[start:end] + after)
    for span in matches(flat[start:end], tokens, analyze):
        shown.stylize(MATCH_STYLE, span.start + len(before), span.end + len(before))
    return shown


# --- explanations


def _name(one: ShownHit) -> list[tuple[str, str]]:
    """Return the id, which a click opens if it is a file, and the title; the title alone if it begins with the id."""
    title, style = on_one_line(one.hit.title), f"{NAME_STYLE} link {one.link}" if one.link else NAME_STYLE
    if title.startswith(one.hit.id):
        return [(title, style)]
    return [(one.hit.id, style), (f"  {title}" if title else "", "")]


def _shares(why: Explanation) -> list[float]:
    return [*(share for _, share in _dense_parts(why)), *(term.contribution for term in why.terms)]


def _dense_parts(why: Explanation) -> list[tuple[str, float]]:
    """Return the dense score with its label, or its two parts in a document of several passages."""
    if why.best or why.mean:
        return [(BEST_LABEL.format(why.passage), why.best), (MEAN_LABEL, why.mean)]
    return [(DENSE_LABEL, why.dense)] if why.dense else []


def _bars(why: Explanation, longest: float) -> list[Text]:
    """Return a line for the dense score and for each term: its name, a bar of its share, and how it is computed."""
    rows = [(label, share, "magenta", f"{share:.2f}") for label, share in _dense_parts(why)]
    rows += [(_label(term), term.contribution, "cyan", _product(term)) for term in why.terms]
    lost = [(_label(term), _product(term)) for term in why.lost]
    width = max(map(len, [*(name for name, *_ in rows), *(name for name, _ in lost)]), default=0)
    lines = [Text(f"{CONDITIONS_LABEL}: {_conditions(why)}", DIM_STYLE)] if why.conditions else []
    for name, share, colour, told in rows:
        bar = "█" * max(1, round(BAR_WIDTH * abs(share) / longest))
        lines.append(Text.assemble(f"{name:<{width}}  ", (f"{bar:<{BAR_WIDTH}}", colour), f"  {told}"))
    lines += [Text(f"{name:<{width}}  {LOST_LABEL:<{BAR_WIDTH}}  {told}", DIM_STYLE) for name, told in lost]
    return lines


def _conditions(why: Explanation) -> str:
    return on_one_line(" ".join(why.conditions))


def _label(term: Term) -> str:
    return on_one_line(term.token) + (COLLISION_LABEL if term.collision else "")


def _product(term: Term) -> str:
    return f"{term.query_weight:.2f} × {term.doc_weight:.2f} = {term.contribution:.2f}"
