"""The tables and the plot of docs/slicing.md, made from a line that has every query's nDCG@10."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from denslice.reproduce.table_page import markdown
from journal import cited, lines
from recall_plot import quality_by_slices

Key = TypeVar("Key")
Floats = npt.NDArray[np.float64]
RESAMPLES = 1_000


@dataclass(frozen=True)
class Setting:
    """One cell of the tables: how documents are sliced, whether queries are too, and from which share it is learned."""

    slicing: str
    slices: int
    query: str
    learned_from: float = 1.0  # the part of the documents added first


@dataclass(frozen=True, eq=False)
class Result:
    """What one setting reaches on one collection; `lost` is the share of document weights that the slicing dropped."""

    data: str
    setting: Setting
    ndcg: Floats  # (queries,) nDCG@10 of each
    recall: float
    lost: float


@dataclass(frozen=True, eq=False)
class Sliced:
    """A run of the benchmark: what bm25s reaches by collection, BM25 without collisions, and every setting."""

    peers: Mapping[str, float]
    undensified: Sequence[Result]
    results: Sequence[Result]

    def as_json(self) -> dict[str, Any]:
        """Return the figures of a line."""
        peers = {name: round(value, 5) for name, value in self.peers.items()}
        return {"bm25s": peers} | {
            name: [_as_json(one) for one in some]
            for name, some in (("undensified", self.undensified), ("results", self.results))
        }

    @classmethod
    def from_json(cls, figures: Mapping[str, Any]) -> Sliced:
        """Return the run of a line's figures."""
        return cls(figures["bm25s"], *([_result(one) for one in figures[name]] for name in ("undensified", "results")))


def _as_json(one: Result) -> dict[str, Any]:
    values = [round(value, 4) for value in one.ndcg.tolist()]
    shares = {"recall": round(one.recall, 5), "lost": round(one.lost, 5)}
    return {"data": one.data} | asdict(one.setting) | shares | {"ndcg@10_of_queries": values}


def _result(line: Mapping[str, Any]) -> Result:
    setting = Setting(line["slicing"], line["slices"], line["query"], line["learned_from"])
    return Result(line["data"], setting, np.array(line["ndcg@10_of_queries"]), line["recall"], line["lost"])


def slicing_tables() -> dict[str, str]:
    """Return the tables of the page, from the newest line."""
    line = lines("slicings")[-1]
    return tables(Sliced.from_json(line["figures"])) | {"source": cited("slicings", [line])}


def slicing_plots() -> dict[str, bytes]:
    """Return the plot of the page by its file name."""
    return {"slicing.svg": quality_by_slices(percent_curves(Sliced.from_json(lines("slicings")[-1]["figures"])))}


def tables(sliced: Sliced) -> dict[str, str]:
    """Return every table by name, as Markdown."""
    undensified, results = sliced.undensified, sliced.results
    whole = [one for one in results if one.setting.learned_from == 1]
    learned = [one for one in results if (one.setting.slicing, one.setting.query) == ("learned", "full")]
    return {
        "parity": _parity(sliced.peers, undensified),
        "mean": _grid(whole, lambda some: "{:.1f} ± {:.1f}".format(*percent(some, undensified))),
        "pairs": _pairs(whole, undensified),
        "sets": _sets(whole, undensified),
        "recall": _grid(whole, lambda some: f"{100 * _mean_recall(some) / _mean_recall(undensified):.1f}"),
        "lost": _lost_table([one for one in whole if one.setting.query == "full"]),
        "parts": _parts(learned, undensified),
    }


def percent_curves(sliced: Sliced) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return slices and percent of undensified nDCG@10, by kind of slicing and query."""
    whole = [one for one in sliced.results if one.setting.learned_from == 1]
    return {
        kind: [(slices, percent(these, sliced.undensified)[0]) for slices, these in _by_slices(some).items()]
        for kind, some in _by(whole, lambda one: (one.setting.slicing, one.setting.query)).items()
    }


def percent(some: Sequence[Result], undensified: Sequence[Result]) -> tuple[float, float]:
    """Return mean nDCG@10 over collections as a percentage of the undensified, and half its 95 % interval."""
    ours, whole = _resampled(some), _resampled(undensified)
    return 100 * _mean_ndcg(some) / _mean_ndcg(undensified), float(196 * (ours / whole).std())


def difference(some: Sequence[Result], others: Sequence[Result], undensified: Sequence[Result]) -> tuple[float, float]:
    """Return how far mean nDCG@10 lies above others', in percent of the undensified, and half its 95 % interval."""
    ours, theirs, whole = _resampled(some), _resampled(others), _resampled(undensified)
    points = 100 * (_mean_ndcg(some) - _mean_ndcg(others)) / _mean_ndcg(undensified)
    return points, float(196 * ((ours - theirs) / whole).std())


def _resampled(some: Sequence[Result]) -> Floats:
    """Return mean nDCG@10 (RESAMPLES,) over queries drawn again within each collection, the same at each call."""
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, len(one.ndcg), (RESAMPLES, len(one.ndcg))) for one in some]
    means: Floats = np.mean([one.ndcg[draw].mean(axis=1) for one, draw in zip(some, draws, strict=True)], axis=0)
    return means


def _parity(references: Mapping[str, float], undensified: Sequence[Result]) -> str:
    rows = [
        [one.data, f"{len(one.ndcg)}", f"{theirs:.4f}", f"{one.ndcg.mean():.4f}", f"{one.ndcg.mean() - theirs:+.4f}"]
        for one, theirs in zip(undensified, references.values(), strict=True)
    ]
    theirs = float(np.mean(list(references.values())))
    ours = _mean_ndcg(undensified)
    rows.append(["mean", "", f"{theirs:.4f}", f"{ours:.4f}", f"{ours - theirs:+.4f}"])
    return markdown(["", "queries", "bm25s", "denslice, no collisions", "difference"], rows)


def _grid(results: Sequence[Result], cell: Callable[[Sequence[Result]], str]) -> str:
    """Lay out kinds of slicing and query as rows, numbers of slices as columns; a cell gets the results of each set."""
    rows = [
        [slicing, query, *map(cell, _by_slices(some).values())]
        for (slicing, query), some in _by(results, lambda one: (one.setting.slicing, one.setting.query)).items()
    ]
    return markdown(["slicing", "query", *_heads(results)], rows)


def _pairs(results: Sequence[Result], undensified: Sequence[Result]) -> str:
    """Lay out the differences that conclusions rest on, each setting against its rival on the same queries."""
    found = _by(results, lambda one: (one.setting.slicing, one.setting.query))
    pairs = [((kind, "full"), ("stride", "full")) for kind in ("random", "learned")]
    pairs += [((kind, "full"), (kind, "sliced")) for kind in dict.fromkeys(kind for kind, _ in found)]
    rows = []
    for ours, theirs in pairs:
        sides = zip(_by_slices(found[ours]).values(), _by_slices(found[theirs]).values(), strict=True)
        cells = ["{:+.1f} ± {:.1f}".format(*difference(one, other, undensified)) for one, other in sides]
        rows.append([f"{' '.join(ours)} − {' '.join(theirs)}", *cells])
    return markdown(["", *_heads(results)], rows)


def _sets(results: Sequence[Result], undensified: Sequence[Result]) -> str:
    rows = []
    for reference in undensified:
        here = [one for one in results if one.data == reference.data]
        for slicing, some in _by(here, lambda one: one.setting.slicing).items():
            rows.append([reference.data, slicing, *(f"{one.ndcg.mean():.3f}" for one in some)])
        rows.append([reference.data, "undensified", *[f"{reference.ndcg.mean():.3f}"] * (len(rows[-1]) - 2)])
    columns = _by(results, lambda one: (one.setting.slices, one.setting.query))
    return markdown(["", "slicing", *(f"{slices} {query}" for slices, query in columns)], rows)


def _lost_table(results: Sequence[Result]) -> str:
    by_slicing = _by(results, lambda one: one.setting.slicing)
    rows = [[slicing, *map(_lost, _by_slices(some).values())] for slicing, some in by_slicing.items()]
    return markdown(["slicing", *_heads(results)], rows)


def _parts(results: Sequence[Result], undensified: Sequence[Result]) -> str:
    """Lay out nDCG@10 in percent and the weights lost, by the share of documents a slicing was learned from."""
    rows = []
    for part, some in _by(results, lambda one: one.setting.learned_from).items():
        cells = [f"{percent(these, undensified)[0]:.1f} ({_lost(these)} lost)" for these in _by_slices(some).values()]
        rows.append([f"{part:.0%}", *cells])
    return markdown(["learned from", *_heads(results)], rows)


def _lost(some: Sequence[Result]) -> str:
    return f"{np.mean([one.lost for one in some]):.1%}"


def _mean_ndcg(some: Sequence[Result]) -> float:
    return float(np.mean([one.ndcg.mean() for one in some]))


def _mean_recall(some: Sequence[Result]) -> float:
    return float(np.mean([one.recall for one in some]))


def _by(results: Sequence[Result], key: Callable[[Result], Key]) -> dict[Key, list[Result]]:
    groups: dict[Key, list[Result]] = {}
    for one in results:
        groups.setdefault(key(one), []).append(one)
    return groups


def _by_slices(results: Sequence[Result]) -> dict[int, list[Result]]:
    return _by(results, lambda one: one.setting.slices)


def _heads(results: Sequence[Result]) -> list[str]:
    return [f"M = {slices}" for slices in _by_slices(results)]
