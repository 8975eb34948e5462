"""The tables of docs/words-measured.md: lexical search beside other engines, and queries with typos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from denslice.reproduce.table_page import markdown
from journal import Line, cited, lines

XQUAD = "xquad-"
TYPOS = ("clean, no fuzzy", "clean, fuzzy", "typos, no fuzzy", "typos, fuzzy")


def word_tables() -> dict[str, str]:
    """Return every table of the page."""
    quality, peers, typos = (lines(name)[-1] for name in ("word_quality", "word_peers", "typos"))
    return {
        "languages": quality_table(quality, [name for name in _collections(quality) if name.startswith(XQUAD)]),
        "english": quality_table(quality, [name for name in _collections(quality) if not name.startswith(XQUAD)]),
        "times": f"{times_table(peers)}\n\n{cited('word_peers', [peers])} {_load(peers)}",
        "builds": builds_table(peers),
        "matching": matching_table(peers),
        "typos": f"{typos_table(typos)}\n\n{cited('typos', [typos])}",
        "corrected": corrected_table(typos),
    }


def quality_table(line: Line, collections: Sequence[str]) -> str:
    """Return nDCG@10 by engine and collection, with the mean of the engines that have them all."""
    found = line["figures"]["ndcg@10"]
    ways = dict.fromkeys(way for name in collections for way in found[name])
    rows = []
    for way in ways:
        values = [found[name].get(way) for name in collections]
        known = [value for value in values if value is not None]
        mean = f"{fmean(known):.3f}" if len(known) == len(values) else ""
        rows.append([way, *("–" if value is None else f"{value:.3f}" for value in values), mean])
    head = [name.removeprefix(XQUAD) for name in collections]
    return f"{markdown(['', *head, 'mean'], rows)}\n\n{cited('word_quality', [line])}"


def times_table(line: Line) -> str:
    """Return p50 and p95 of each engine by kind of question."""
    measured, engines = line["figures"]["ms"], list(line["figures"]["builds"])
    rows = [[kind, *(_both(some.get(name)) for name in engines)] for kind, some in measured.items()]
    return markdown(["ms, p50 (p95)", *engines], rows)


def builds_table(line: Line) -> str:
    """Return seconds and megabytes of each engine's index."""
    builds = line["figures"]["builds"]
    rows = [[name, f"{one['seconds']:.1f}", f"{one['bytes'] / 1e6:,.0f}"] for name, one in builds.items()]
    return markdown(["", "build, seconds", "index, MB"], rows)


def matching_table(line: Line) -> str:
    """Return how many documents match in each engine, and how many of them denslice alone or the engine alone finds."""
    rows = []
    for kind, found in line["figures"]["matching"].items():
        for name, one in found.items():
            if name not in ("compared", "denslice"):
                counts = [f"{found['denslice']['mean']:,.1f}", f"{one['mean']:,.1f}"]
                alone = [f"{one[side][0]:,}" for side in ("fewer", "more")]
                rows.append([kind, name, str(found["compared"]), *counts, *alone])
    head = ["", "engine", "questions", "denslice, mean", "engine, mean", "denslice alone", "engine alone"]
    return markdown(head, rows)


def typos_table(line: Line) -> str:
    """Return quality and times of clean and misspelt queries, by collection and encoder."""
    rows = []
    for name, encoder, one in _measured(line):
        values = [f"{one['ndcg@10'][case]:.3f}" for case in TYPOS]
        kept = [f"{100 * one['ndcg@10'][f'kept, {way}']:.1f} %" for way in ("no fuzzy", "fuzzy")]
        times = [_both(one["ms"][case]) for case in TYPOS]
        rows.append([name, encoder, f"{one['queries']:,}", *values, *kept, *times])
    head = [*TYPOS, "kept, no fuzzy", "kept, fuzzy", *(f"ms, {case}" for case in TYPOS)]
    return markdown(["collection", "encoder", "queries", *head], rows)


def corrected_table(line: Line) -> str:
    """Return how many words of clean queries are corrected, and how many of them are real words."""
    rows = []
    for name, encoder, one in _measured(line):
        clean = one["clean"]
        names = ("queries_with_corrections", "rankings_changed", "words_corrected", "real_words_corrected")
        real = ", ".join(list(clean["real"])[:6])
        rows.append([name, encoder, *(f"{clean[figure]:,}" for figure in names), real])
    head = ["queries with corrections", "rankings changed", "words corrected", "of them real", "such as"]
    return markdown(["collection", "encoder", *head], rows)


def _measured(line: Line) -> list[tuple[str, str, Mapping[str, Any]]]:
    figures = line["figures"].items()
    return [(name.partition(":")[0], encoder, one) for name, some in figures for encoder, one in some.items()]


def _collections(line: Line) -> list[str]:
    return list(line["figures"]["ndcg@10"])


def _load(line: Line) -> str:
    before, after = (line["figures"][f"load_{when}"] for when in ("before", "after"))
    return f"Load average {before:.1f} before and {after:.1f} after, on {line['hardware']['cores']} cores."


def _both(times: Mapping[str, float] | None) -> str:
    return f"{times['p50']:.2f} ({times['p95']:.2f})" if times else "–"
