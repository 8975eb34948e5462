"""What the paper's own setting would take on one H200: worked out from lines of benchmarks/results, and shown.

    PYTHONPATH=src python benchmarks/msmarco.py ACL-DATA MS-MARCO-PASSAGES TOKENIZER

counts word pieces and appends a line to benchmarks/results/tokens.jsonl. The table in docs/reproduction.md is made of
that line and the others by benchmarks/pages.py. Nothing here was run on MS MARCO.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import journal
from denslice.corpus.documents import read_docs
from denslice.reproduce import figure3, table1, table2, table3
from denslice.reproduce.cell_settings import Setting
from denslice.reproduce.encoding import Encodings, Facts
from denslice.reproduce.measuring import REPEATS, TIMED
from denslice.reproduce.paper_figures import PASSAGES
from denslice.reproduce.reproduce_command import CANDIDATES, SLICES, THETAS
from denslice.reproduce.table_page import Grid
from journal import RESULTS

TEXTS = 20_000
LENGTHS = {"acl": 256, "msmarco": 150}  # where configs/acl and configs/paper cut passages
STEPS, BATCH, QUERIES = 100_000, 96, 6_980
VOCAB = 30_522
MINILM, BERT = (6, 384), (12, 768)  # layers and width
HEADS = {
    "splade": ("splade", "none"),
    "unicoil": ("unicoil", "none"),
    "dense": ("none", "cls"),
    "splade-dense": ("splade", "cls"),
    "unicoil-dense": ("unicoil", "cls"),
}
CORES = 16  # of the machine that the H200 was in; searches were measured on 2
TIMINGS = TIMED * REPEATS  # searches of a cell that are timed, one after the other
TABLE2 = journal.ROOT / "docs" / "reproduction" / "acl-title-abstract" / "table2.json"


def main() -> None:
    """Counts word pieces, and appends the line."""
    from tokenizers import Tokenizer

    arguments = _arguments()
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    figures = {}
    for name, folder in (("acl", arguments.acl), ("msmarco", arguments.msmarco)):
        texts = [doc.contents for doc in islice(read_docs([folder]), TEXTS)]
        sizes = np.array([len(found.ids) for found in tokenizer.encode_batch(texts)])
        cut = float(np.minimum(sizes, LENGTHS[name]).mean())
        figures[name] = {"texts": len(sizes), "pieces": round(float(sizes.mean()), 1), "pieces_cut": round(cut, 1)}
    configuration = {"acl": str(arguments.acl), "msmarco": str(arguments.msmarco), "lengths": LENGTHS}
    print(figures, journal.append("tokens", ("tokenizers",), configuration, figures))


def table() -> str:
    """The estimate: for each step what it takes, and the arithmetic."""
    tokens = _newest("tokens")["figures"]
    shorter = tokens["acl"]["pieces_cut"] / tokens["msmarco"]["pieces_cut"]
    rows = [["step", "time", "worked out as"]]
    rows += [_training(name, shorter) for name in HEADS]
    rows += [_encoding(name, shorter) for name in HEADS]
    rows += _measuring()
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "| --- | --- | --- |", *lines[1:], "", _sizes()])


def work(lexical: str, layers: int, width: int) -> float:
    """Multiplications a word piece costs: the body's, and those of SPLADE's head, without attention's own."""
    body = layers * (4 * width**2 + 8 * width**2)
    return body + (width * VOCAB + width**2 if lexical == "splade" else 0)


def _training(name: str, shorter: float) -> list[str]:
    log = (RESULTS / "acl" / name / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rates = [json.loads(line).get("passages_per_s") for line in log]
    rate = median(one for one in rates if one)
    larger = work(HEADS[name][0], *BERT) / work(HEADS[name][0], *MINILM)
    passages = STEPS * BATCH * 2
    seconds = passages / (rate * shorter / larger)
    told = f"{passages:,} passages ÷ ({rate:,.0f} a second × {shorter:.2f} ÷ {larger:.1f})"
    return [f"training {name}", _hours(seconds), f"{told}; `benchmarks/results/acl/{name}/log.jsonl`, median"]


def _encoding(name: str, shorter: float) -> list[str]:
    lexical, dense = HEADS[name]
    line = _newest("encode_gpu")
    same = [one for one in line["figures"] if (one["lexical"], one["dense"]) == (lexical, dense)]
    rate = max(one["passages_a_second"] for one in same)
    larger = work(lexical, *BERT) / work(lexical, *MINILM)
    seconds = PASSAGES / (rate * shorter / larger)
    told = f"{PASSAGES:,} ÷ ({rate:,.0f} a second × {shorter:.2f} ÷ {larger:.1f})"
    return [f"encoding with {name}", _hours(seconds), f"{told}; `benchmarks/results/encode_gpu.jsonl:1`"]


def _measuring() -> list[list[str]]:
    """Cells and indexes of the four commands, at the stand-in's weights a passage, on CORES cores."""
    line = _newest("search_cpu")["figures"]
    searched = next(one["queries_a_second"] for one in line["all_cores"] if one["k"] == 1000)
    alone = next(one["p50_ms"] for one in line["one_thread"] if one["k"] == 1000) / 1000
    weights = line["documents"] * line["weights_a_document"]
    rows = []
    for what, settings in _commands().items():
        indexes = {setting.index for setting in settings}
        build = sum(line["build"]["build_s"] * _all_weights(index.model) / weights for index in indexes)
        words = [_all_weights(setting.index.model) / weights for setting in settings if setting.index.mode != "dense"]
        search = sum(share * (QUERIES / (searched * CORES / 2) + TIMINGS * alone) for share in words)
        scans = [setting for setting in settings if setting.index.mode != "lexical" and setting.is_exact]
        search += len(scans) * _dense_seconds() * (QUERIES / CORES + TIMINGS)
        indexed = f"{len(indexes)} index{'es' if len(indexes) > 1 else ''} built {_hours(build)}"
        told = f"{indexed}, {len(settings)} cells searched {_hours(search)}"
        from_table = f", {TABLE2.relative_to(journal.ROOT)}" if scans else ""
        rows.append([what, _hours(build + search), f"{told}; `benchmarks/results/search_cpu.jsonl:1`{from_table}"])
    return rows


def _all_weights(model: str) -> float:
    return PASSAGES * _weights(model)


def _dense_seconds() -> float:
    """A scan of all passages' dense vectors on one core, from one that was measured on the stand-in, or 0."""
    told = json.loads(TABLE2.read_text(encoding="utf-8"))
    cells = [one for one in told["cells"] if one["mode"] == "dense" and one["engine"] == "denslice"]
    if not cells:  # no dense model has been measured
        return 0.0
    cell = cells[0]
    numbers = told["collection"]["docs"] * told["models"][cell["model"]]["dimensions"]
    return float(cell["p50_ms"]) / 1000 * PASSAGES * 768 / numbers


def _sizes() -> str:
    line = _newest("search_cpu")["figures"]
    splade, unicoil = _weights("splade"), _weights("unicoil")
    each = line["bytes_a_document"] / line["weights_a_document"]
    dense = 2 * 768
    kept = {
        "splade": 4 * splade,
        "unicoil": 4 * unicoil,
        "dense": dense,
        "splade-dense": 4 * _weights("splade-dense") + dense,
        "unicoil-dense": 4 * _weights("unicoil-dense") + dense,
    }
    work_folder = PASSAGES * sum(kept.values()) / 1e9
    largest = PASSAGES * (each * _weights("splade-dense") + dense) / 1e9
    flat = PASSAGES * 768 * 4 / 1e9
    return (
        f"**Disk**: the work folder {work_folder:.0f} GB (4 bytes a weight, 2 a dimension: "
        + ", ".join(f"{name} {size:,.0f}" for name, size in kept.items())
        + f" bytes a passage), and while a cell is measured one index, the largest {largest:.0f} GB "
        f"({each:.1f} bytes a weight). **Memory**: {flat:.0f} GB for Faiss's flat index, which holds "
        f"768 float32 a passage; without its rows the largest index, {largest:.0f} GB, should fit beside "
        "some 4 GB for ids and a segment in the making."
    )


def _commands() -> dict[str, list[Setting]]:
    models = {
        name: Encodings(name, Facts("", *heads, VOCAB, 570, 768, 1.0), Path(), Path()) for name, heads in HEADS.items()
    }
    thetas, candidates = list(map(float, THETAS.split(","))), list(map(int, CANDIDATES.split(",")))
    every = Grid(list(map(int, SLICES.split(","))), thetas, candidates)
    return {
        "table1": table1.settings([models["unicoil"], models["splade"]], every),
        "table2": [one for one in table2.settings(list(models.values()), every) if one.engine == "denslice"],
        "table3": table3.settings([models["splade"]], Grid([768], thetas, candidates)),
        "figure3": figure3.settings([models["splade"]], every),
    }


def _weights(name: str) -> float:
    """Weights of a passage that the model of the stand-in has, cut to MS MARCO's length for uniCOIL."""
    if HEADS[name][0] == "none":
        return 0.0
    lines = [json.loads(line) for line in (RESULTS / "train_acl.jsonl").read_text(encoding="utf-8").splitlines()]
    return float(next(line["weights"]["docs"] for line in lines if (line["model"], line["split"]) == (name, "test")))


def _newest(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[-1])


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("acl", type=Path, help="acl-title-abstract")
    parser.add_argument("msmarco", type=Path, help="a folder of passages of MS MARCO, such as msmarco-dl20-rel")
    parser.add_argument("tokenizer", help="BERT's tokenizer.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
