"""Views for notebooks: an index, a ranking and an explanation as HTML, made of plain data.

Every text is escaped, and no view has a script. Colours are those of the web page and follow the reader's light or dark
theme. A notebook that drops the style still shows all texts and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from denslice.marked_text import Highlight

DENSE, WORDS = "dense", "words"  # the two kinds of parts of a score, which are the classes of their bars
STYLE = """<style>
.denslice {
  color-scheme: light dark; max-width: 54rem; font: 14px/1.5 system-ui, sans-serif; text-align: start;
  --raised: light-dark(#fff, #1c1e26); --track: light-dark(#eef0f6, #272a35); --line: light-dark(#e3e4ec, #2e313d);
  --ink: light-dark(#1c1d26, #eceef4); --quiet: light-dark(#5f6275, #a0a4b8); --error: light-dark(#b3261e, #ff8a80);
  --dense: light-dark(#7c6cf2, #9a8cff); --words: light-dark(#0e9f8e, #2cc4b1);
}
[data-jp-theme-light="true"] .denslice, .vscode-light .denslice { color-scheme: light; }
[data-jp-theme-light="false"] .denslice, .vscode-dark .denslice { color-scheme: dark; }
.denslice > div { background: var(--raised); color: var(--ink); border: 1px solid var(--line); border-radius: 10px;
  padding: .6rem .9rem; margin-bottom: .5rem; overflow-wrap: anywhere; }
.denslice .head { display: flex; gap: .75rem; align-items: baseline; }
.denslice .head b { flex: 1; min-width: 0; font-weight: 620; }
.denslice .number { font-variant-numeric: tabular-nums; font-weight: 650; white-space: nowrap; text-align: right; }
.denslice .quiet { color: var(--quiet); font-size: .93em; }
.denslice .whole { display: flex; height: 7px; margin: .35rem 0; background: var(--track); border-radius: 99px;
  overflow: hidden; }
.denslice .whole i, .denslice .bar i { display: block; box-shadow: inset -1px 0 var(--raised); }
.denslice .bar i { height: .75rem; min-width: 2px; border-radius: 3px; }
.denslice i.dense { background: var(--dense); }
.denslice i.words { background: var(--words); }
.denslice i.minus { background: repeating-linear-gradient(45deg, var(--error) 0 4px, transparent 4px 7px); }
.denslice mark { color: inherit; background: color-mix(in srgb, var(--words) 30%, transparent);
  border-bottom: 2px solid var(--words); border-radius: 3px 3px 0 0; padding: 0 .08em; }
.denslice table { width: 100%; border-collapse: collapse; margin: .3rem 0 0; color: inherit; font-size: inherit; }
.denslice tr, .denslice tr:nth-child(even), .denslice tr:hover { background: none; }
.denslice th, .denslice td { text-align: start; padding: .12rem .75rem .12rem 0; border: 0; font-weight: 500; }
.denslice td.bar { width: 50%; }
.denslice td.number { font-weight: 600; padding-right: 0; text-align: right; }
.denslice tfoot th, .denslice tfoot td { border-top: 1px solid var(--line); font-weight: 650; }
</style>"""


@dataclass(frozen=True, slots=True)
class HitView:
    """What a notebook shows of a hit. `length` is that of the text which the snippet is a part of."""

    title: Highlight
    id: str
    score: float
    lexical: float
    dense: float
    snippet: Highlight
    length: int
    place: str = ""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of a score: what a word or the dense vector adds. `kind` is DENSE or WORDS."""

    name: str
    kind: str
    share: float
    product: str = ""


def ranking_html(hits: Sequence[HitView], found: int, notes: Sequence[str] = ()) -> str:
    """Return the first hits of a ranking that has `found` hits, best first, below notes on the whole ranking."""
    longest = max((max(hit.lexical, 0.0) + max(hit.dense, 0.0) for hit in hits), default=0.0)
    shown = [_hit(rank, hit, longest) for rank, hit in enumerate(hits, 1)] or ["<div>No document was found.</div>"]
    more = [f"{found - len(hits):,} more hits are not shown."] if found > len(hits) else []
    return _view(_notes(notes), *shown, _notes(more))


def explanation_html(id: str, score: float, parts: Sequence[ScorePart], lost: Sequence[ScorePart], note: str) -> str:
    """Return a table of the parts of a score with their bars. `lost` are words that a slicing dropped."""
    longest = max((abs(part.share) for part in parts), default=0.0)
    rows = [_row(part, _bar(part, longest), number(part.share)) for part in parts]
    rows += [_row(part, "dropped by the slicing", number(0.0)) for part in lost]
    total = f'<tr><th>score</th><td></td><td></td><td class="number">{number(score)}</td></tr>'
    table = f"<table><tbody>{''.join(rows)}</tbody><tfoot>{total}</tfoot></table>"
    return _view(f"<div>{_head(_text(id), number(score))}{_quiet(note)}{table}</div>")


def card_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a title and facts below it, each with its name."""
    rows = "".join(
        f"<tr><th class='quiet'>{escape(name)}</th><td>{_text(fact)}</td></tr>" for name, fact in facts.items()
    )
    return _view(f"<div>{_head(_text(title))}<table style='width: auto'><tbody>{rows}</tbody></table></div>")


def number(value: float) -> str:
    """Return a score or weight as people read it."""
    return f"{value:.{2 if abs(value) < 100 else 1}f}"


def _view(*blocks: str) -> str:
    """Return a view of its blocks. The two other classes keep notebooks from reading dollars in texts as formulas."""
    return f'{STYLE}<div class="denslice tex2jax_ignore mathjax_ignore">{"".join(blocks)}</div>'


def _hit(rank: int, hit: HitView, longest: float) -> str:
    parts = [ScorePart("dense", DENSE, hit.dense), ScorePart("lexical", WORDS, hit.lexical)]
    shares = ", ".join(f"{part.name} {number(part.share)}" for part in parts if part.share)
    pieces = "".join(_bar(part, longest) for part in parts if part.share > 0)
    bar = f'<div class="whole" role="img" aria-label="{shares}">{pieces}</div>'
    title = f'<span dir="auto">{hit.title.html()}</span>' if hit.title.text else _text(hit.id)
    below = " · ".join(filter(None, [hit.id if hit.title.text else "", hit.place, shares]))
    return f"<div>{_head(title, number(hit.score), rank)}{bar}{_snippet(hit)}{_quiet(below)}</div>"


def _snippet(hit: HitView) -> str:
    snippet = hit.snippet
    before = "… " if snippet.start > 0 else ""
    after = " …" if snippet.start + len(snippet.text) < hit.length else ""
    return f'<div dir="auto">{before}{snippet.html()}{after}</div>' if snippet.text else ""


def _head(title: str, score: str = "", rank: int | None = None) -> str:
    """Return the first line of a block; the title is HTML already."""
    ranked = "" if rank is None else f'<span class="quiet">{rank}</span>'
    return f'<div class="head">{ranked}<b>{title}</b><span class="number">{score}</span></div>'


def _row(part: ScorePart, bar: str, share: str) -> str:
    cells = f'<td class="quiet">{escape(part.product)}</td><td class="number">{share}</td>'
    return f'<tr><th scope="row">{_text(part.name)}</th><td class="bar quiet">{bar}</td>{cells}</tr>'


def _bar(part: ScorePart, longest: float) -> str:
    width = min(100.0, 100 * abs(part.share) / longest) if longest else 0.0
    kind = part.kind if part.share >= 0 else "minus"
    return f'<i class="{kind}" style="width: {width:.1f}%" title="{escape(part.name)} {number(part.share)}"></i>'


def _text(text: str) -> str:
    """Return a text whose direction does not change that of the text around it."""
    return f'<span dir="auto">{escape(text)}</span>'


def _quiet(text: str) -> str:
    return f'<div class="quiet" dir="auto">{escape(text)}</div>' if text else ""


def _notes(notes: Sequence[str]) -> str:
    return "".join(f"<div>{_quiet(note)}</div>" for note in notes)
