"""The tables of docs/training.md, from the lines in results/: means over seeds, and differences with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.reproduce import paper_figures
from denslice.reproduce.table_page import markdown
from denslice.train.measures import unpacked
from journal import Line, cited, lines
from seed_intervals import Interval, interval

ALONE = ("splade", "unicoil", "dense")
JOINT = ("splade-dense", "unicoil-dense")
NARROW = tuple(f"{name}-{width}" for width in (256, 128) for name in JOINT)
MODELS = (*ALONE, *JOINT, *NARROW, "splade-free")
SHORT = ("splade-short", "splade-short-free")  # with and without sparsity control, trained on a CPU
PARTS = ("lexical", "dense", "joint")
SLICES = (768, 256, 128)


class Scored(NamedTuple):
    """A model and one of its scores, such as `joint` or `lexical-768`."""

    model: str
    score: str


def train_tables() -> dict[str, str]:
    """Return the tables by name."""
    runs = newest()
    made = {"models": models(runs), "beaten": beaten(runs), "slices": slices(runs), "narrow": narrow(runs)}
    return made | {"control": control(newest(SHORT))}


def newest(names: Sequence[str] = MODELS) -> dict[str, dict[int, Line]]:
    """Return the newest line of each of these models and each seed, on the test split."""
    found: dict[str, dict[int, Line]] = {name: {} for name in names}
    for line in lines("train_acl"):
        if line["split"] == "test" and line["model"] in found:
            found[line["model"]][line["config"]["seed"]] = line
    return {name: dict(sorted(by_seed.items())) for name, by_seed in found.items() if by_seed}


def models(runs: dict[str, dict[int, Line]]) -> str:
    """Return the effectiveness of each model and its parts with every weight: the mean and the range over seeds."""
    rows = []
    for name, by_seed in runs.items():
        some = list(by_seed.values())
        for part in (part for part in PARTS if part in some[0]["measures"]):
            each = [line["measures"][part]["RR@10"] for line in some]
            span = f"{min(each):.4f} to {max(each):.4f}" if len(each) > 1 else ""
            means = [f"{fmean(line['measures'][part][m] for line in some):.4f}" for m in ("nDCG@10", "R@1000")]
            weights = f"{fmean(line['weights']['docs'] for line in some):,.0f}" if part == "lexical" else ""
            rows.append([name, part, ", ".join(map(str, by_seed)), f"{fmean(each):.4f}", span, *means, weights])
    head = ["model", "score", "seeds", "RR@10", "range", "nDCG@10", "R@1000", "weights a passage"]
    every = [line for by_seed in runs.values() for line in by_seed.values()]
    return f"{markdown(head, rows)}\n\n{cited('train_acl', every)}"


def beaten(runs: dict[str, dict[int, Line]]) -> str:
    """Return how far joint models are ahead of their parts, and of models that were trained alone."""
    pairs = []
    for name in JOINT:
        whole = Scored(name, "joint")
        pairs += [(whole, Scored(name, part)) for part in ("lexical", "dense")]
        pairs += [(whole, Scored(other, "dense" if other == "dense" else "lexical")) for other in ALONE]
        sliced = Scored(name, "joint-768")
        pairs += [(sliced, Scored(other, "lexical-768")) for other in ALONE if other != "dense"]
        small = Scored(f"{name}-128", "joint-128")
        pairs += [(small, Scored(name.partition("-")[0], "lexical-768")), (small, Scored("dense", "dense"))]
    return markdown(
        ["model", "compared with", "seeds", "RR@10", ""], [row for pair in pairs for row in _row(runs, *pair)]
    )


def slices(runs: dict[str, dict[int, Line]]) -> str:
    """Return mean RR@10 by number of slices, and the share of the unsliced score that is left."""
    ways = [(m, full) for m in SLICES for full in ("", "-full")]
    rows = []
    for name, by_seed in runs.items():
        for part in ("lexical", "joint"):
            if name not in NARROW and part in next(iter(by_seed.values()))["measures"]:
                whole = _mean(by_seed, part)
                cells = [_mean(by_seed, f"{part}-{m}{full}") for m, full in ways]
                rows.append([name, part, f"{whole:.4f}", *(f"{c:.4f} ({100 * c / whole:.1f} %)" for c in cells)])
    head = [f"{m}, {'full' if full else 'sliced'} query" for m, full in ways]
    return markdown(["model", "score", "all weights", *head], rows)


def narrow(runs: dict[str, dict[int, Line]]) -> str:
    """Return joint models with as many dense dimensions as slices, beside the paper's figures for the same widths."""
    rows = []
    for name in (name for name in NARROW if name in runs):
        lexical, _, width = name.partition("-dense-")
        whole, sliced = (_mean(runs[name], score) for score in ("joint", f"joint-{width}"))
        heads = (lexical, "cls")
        published = paper_figures.TABLE2[heads, int(width), int(width)].rr
        share = f"{100 * sliced / whole:.1f} %"
        rows.append([name, width, width, f"{whole:.4f}", f"{sliced:.4f}", share, f"{published:.3f}"])
    head = ["model", "slices", "dimensions", "RR@10, all weights", "sliced", "left", "paper, MS MARCO dev: MRR@10"]
    return markdown(head, rows) if rows else "These models have not been trained yet."


def control(runs: dict[str, dict[int, Line]]) -> str:
    """Return RR@10 of a SPLADE with sparsity control and of one without, with every weight and by number of slices."""
    if not set(SHORT) <= runs.keys():
        return "These models have not been trained yet."
    ways = [(m, full) for m in SLICES for full in ("", "-full")]
    scores = ["lexical", *(f"lexical-{m}{full}" for m, full in ways)]
    rows = []
    for name, by_seed in runs.items():
        whole, *sliced = (_mean(by_seed, score) for score in scores)
        weights = fmean(line["weights"]["docs"] for line in by_seed.values())
        shares = [f"{cell:.4f} ({100 * cell / whole:.1f} %)" for cell in sliced]
        rows.append([name, f"{weights:,.0f}", f"{whole:.4f}", *shares])
    controlled, free = SHORT
    found = [difference(runs, Scored(free, score), Scored(controlled, score)) for score in scores]
    rows.append(["without − with", "", *(f"{one.mean:+.4f} ± {one.half:.4f}" for one in found)])
    more = [lost_more(runs, Scored(free, score), Scored(controlled, score)) for score in scores[1:]]
    rows.append(["lost more without", "", "", *(f"{one.mean:+.4f} ± {one.half:.4f}" for one in more)])
    head = [f"{m}, {'full' if full else 'sliced'} query" for m, full in ways]
    head = ["model", "weights a passage", "RR@10, all weights", *head]
    every = [line for by_seed in runs.values() for line in by_seed.values()]
    return f"{markdown(head, rows)}\n\n{cited('train_acl', every)}"


def difference(runs: dict[str, dict[int, Line]], one: Scored, other: Scored) -> Interval:
    """Return by how much one score's RR@10 is higher than another's, over the seeds that both models have."""
    seeds = _seeds(runs, one, other)
    return interval(np.array([_reciprocal(runs, one, seed) - _reciprocal(runs, other, seed) for seed in seeds]))


def lost_more(runs: dict[str, dict[int, Line]], one: Scored, other: Scored) -> Interval:
    """Return how much more RR@10 one model loses with slices than another, over the seeds that both models have."""
    lost = [
        [_reciprocal(runs, Scored(of.model, "lexical"), seed) - _reciprocal(runs, of, seed) for of in (one, other)]
        for seed in _seeds(runs, one, other)
    ]
    return interval(np.array([first - second for first, second in lost]))


def _seeds(runs: dict[str, dict[int, Line]], one: Scored, other: Scored) -> list[int]:
    return sorted(runs.get(one.model, {}).keys() & runs.get(other.model, {}).keys())


def _row(runs: dict[str, dict[int, Line]], one: Scored, other: Scored) -> list[list[str]]:
    """Return a row, or none if the models have no seed in common."""
    seeds = _seeds(runs, one, other)
    if not seeds:
        return []
    found = difference(runs, one, other)
    told = f"{found.mean:+.4f} ± {found.half:.4f}"
    return [[_name(one), _name(other), str(len(seeds)), told, found.verdict]]


def _reciprocal(runs: dict[str, dict[int, Line]], one: Scored, seed: int) -> npt.NDArray[np.float64]:
    """Return the reciprocal rank of each query, 0 beyond rank 10."""
    ranks = unpacked(runs[one.model][seed]["ranks"][one.score]).astype(np.float64)  # from 1; 0 if none was found
    return np.where((ranks > 0) & (ranks <= 10), 1 / np.maximum(ranks, 1), 0.0)


def _mean(by_seed: dict[int, Line], score: str) -> float:
    return fmean(line["measures"][score]["RR@10"] for line in by_seed.values())


def _name(one: Scored) -> str:
    return f"{one.model}, {one.score}" if one.score not in ("lexical", "dense") or one.model in JOINT else one.model


def training_speeds() -> Sequence[tuple[str, float]]:
    """Return passages a second of training each model, the mean over its seeds."""
    runs = newest()
    return [(name, fmean(line["passages_per_s"] for line in by_seed.values())) for name, by_seed in runs.items()]
