"""Makes the embedded model: training data, training runs, and what each gave on dev splits.

    PYTHONPATH=src python benchmarks/mini.py data COLLECTIONS DATA      # folders to train and to measure on
    PYTHONPATH=src python benchmarks/mini.py try DATA BACKBONE OUT --configs gentle bold --keep gentle bold
    PYTHONPATH=src python benchmarks/mini.py mix BACKBONE MODEL OUT/gentle=1.0 OUT/bold=0.3
    denslice export MODEL --to src/denslice/mini --texts DATA/…/corpus.jsonl

`try` trains each config in a process of its own, all at once, then measures the untrained model, every trained one
and blends of the two (weights halfway back to the untrained ones hold on to what it knew) for several λ, on the dev
splits. OUT gets results.jsonl, the runs' logs, and the weights of the runs to keep as float16.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from journal import ROOT

LAMBDAS = (10, 20, 25, 30, 35, 40, 50, 70)
BLENDS = (0.4, 0.7, 1.0)  # how far from the untrained weights to the trained ones
FEW = 3000  # documents beside the relevant ones that dev queries are measured against
DEV = ("acl", "medquad", "scifact", "scitldr", "squad-sentences", "squad-passages")  # domains that are trained on
UNSEEN = ("fiqa-judged", "nfcorpus", "reuters-headline", "wikiqa-page")  # never trained on, dev splits only
HELD_OUT = {"scifact": 0.25, "squad-train-sent": 0.1}  # share of training queries kept for measuring
PIECE = 8_000_000  # weights in a file
GROUP = 5  # sentences of SQuAD put together as a passage
Rows = list[dict[str, Any]]


# --- data


def make_data(collections: Path, out: Path) -> None:
    """The folders that are trained and measured on, from collections in BEIR's layout."""
    for name in ("medquad", "scitldr", *UNSEEN):
        copy_splits(collections / name, out / name, ("train", "dev") if name not in UNSEEN else ("dev",))
    acl = collections / "acl-title-abstract"
    some = {row["_id"] for row in rows_of(acl / "corpus.jsonl") if is_recent(row["_id"]) and is_in(row["_id"], 0.4)}
    copy_splits(acl, out / "acl", ("train", "dev"), some)
    for name, share in HELD_OUT.items():
        hold_out(collections / name, out / ("scifact" if name == "scifact" else "squad-sentences"), share)
    group_sentences(out / "squad-sentences", out / "squad-passages")


def is_recent(name: str) -> bool:
    """Whether an ACL paper is from 2016 on, from when its licence is CC BY."""
    found = re.match(r"(\d{4})\.|[A-Z](\d\d)-", name)
    if not found:
        return False
    return int(found[1]) >= 2016 if found[1] else 16 <= int(found[2]) <= 30


def is_in(name: str, share: float) -> bool:
    """Whether a name is in this share of all, the same ones every time."""
    return crc32(name.encode()) % 1000 < 1000 * share


def copy_splits(folder: Path, out: Path, splits: tuple[str, ...], docs: set[str] | None = None) -> None:
    """The collection with these splits, and of these documents alone."""
    kept = [row for row in rows_of(folder / "corpus.jsonl") if docs is None or row["_id"] in docs]
    names = {row["_id"] for row in kept}
    qrels = {split: [line for line in qrels_of(folder, split) if line[1] in names] for split in splits}
    write(out, kept, list(rows_of(folder / "queries.jsonl")), qrels)


def hold_out(folder: Path, out: Path, share: float) -> None:
    """The collection with some of its training queries as a dev split, the same ones every time."""
    qrels: dict[str, list[list[str]]] = {"train": [], "dev": []}
    for line in qrels_of(folder, "train"):
        qrels["dev" if is_in(line[0], share) else "train"].append(line)
    write(out, list(rows_of(folder / "corpus.jsonl")), list(rows_of(folder / "queries.jsonl")), qrels)


def group_sentences(folder: Path, out: Path) -> None:
    """Sentences that follow one another as one passage, relevant where one of them is."""
    sentences = list(rows_of(folder / "corpus.jsonl"))
    group = {row["_id"]: f"p{at // GROUP}" for at, row in enumerate(sentences)}
    texts: dict[str, list[str]] = {}
    for row in sentences:
        texts.setdefault(group[row["_id"]], []).append(row["text"])
    docs = [{"_id": name, "title": "", "text": " ".join(parts)} for name, parts in texts.items()]
    qrels = {
        split: [[query, group[doc], grade] for query, doc, grade in qrels_of(folder, split)]
        for split in ("train", "dev")
    }
    write(out, docs, list(rows_of(folder / "queries.jsonl")), qrels)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def qrels_of(folder: Path, split: str) -> list[list[str]]:
    return [line.split("\t") for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]]


def write(out: Path, docs: Rows, queries: Rows, qrels: dict[str, list[list[str]]]) -> None:
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    asked = {line[0] for lines in qrels.values() for line in lines}
    for name, rows in (("corpus", docs), ("queries", [row for row in queries if row["_id"] in asked])):
        kept = ({key: row[key] for key in ("_id", "title", "text") if key in row} for row in rows)
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept))
    for split, lines in qrels.items():
        told = "".join("\t".join(line) + "\n" for line in [["query-id", "corpus-id", "score"], *lines])
        (out / "qrels" / f"{split}.tsv").write_text(told)
    print(f"{out.name}: {len(docs):,} documents, {len(asked):,} queries", file=sys.stderr)


# --- training


def try_configs(data: Path, backbone: Path, out: Path, names: list[str], budget: float, keep: list[str]) -> None:
    """Trains every config, all at once, and measures what came of it."""
    import torch

    from denslice.encoders.model import BiEncoder
    from denslice.train.config import read_config

    deadline = time.monotonic() + budget
    out.mkdir(parents=True, exist_ok=True)
    work = out.parent / f"{out.name}-work"
    begin = work / "start"
    config = read_config(ROOT / "configs" / "mini" / f"{names[0]}.toml")
    torch.manual_seed(config.seed)  # a new head is drawn from it
    BiEncoder.load(backbone, config.model).save(begin)
    negatives = mine(data, begin, work, config.data.folders)
    runs = {name: start(name, data, begin, work, negatives) for name in names}
    lines = [measure_line("untrained", 0.0, model := BiEncoder.load(begin), dev := read_dev(data, model))]
    for name, process in runs.items():
        if not finished(name, process, deadline):
            continue
        trained = BiEncoder.load(work / name / "model")
        for share in BLENDS:
            if time.monotonic() < deadline - 25:
                lines.append(measure_line(name, share, blend(begin, trained, share), dev))
    with (out / "results.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    for name in keep:
        pack(BiEncoder.load(work / name / "model"), out / name)
    for name in names:
        (out / f"{name}.log").write_text((work / f"{name}.txt").read_text())


def mine(data: Path, begin: Path, work: Path, folders: tuple[str, ...]) -> Path:
    """Hard negatives by the untrained model, for all runs."""
    from denslice.encoders.model import BiEncoder
    from denslice.train.config import DataConfig, OutputConfig, TrainConfig
    from denslice.train.data import Reader, Source
    from denslice.train.negatives import hard_negatives

    began = time.monotonic()
    model = BiEncoder.load(begin).to(device())
    chosen = DataConfig(folders=folders, negatives=2, negatives_from="model", depth=40)
    config = TrainConfig(model.config, str(begin), data=chosen, output=OutputConfig(str(work)))
    reader = Reader(model.tokenizer, model.config)
    for name in folders:
        hard_negatives(config, data / name, reader.collection(Source.of_folder(data / name, "train")), model, mine=True)
    tell(f"negatives: {time.monotonic() - began:.0f} s")
    return work / "negatives-model"


def start(name: str, data: Path, begin: Path, work: Path, negatives: Path) -> subprocess.Popen[bytes]:
    """A training run in a process of its own."""
    text = (ROOT / "configs" / "mini" / f"{name}.toml").read_text()
    text = re.sub(r"folders = \[(.*)\]", lambda found: f"folders = {json.dumps(placed(found[1], data))}", text)
    text = text.replace("models/mini-start", str(begin))
    config = work / f"{name}.toml"
    config.write_text(text)
    options = ["--negatives", str(negatives), "--out", str(work / name)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "2"}
    with (work / f"{name}.txt").open("wb") as output:
        command = [sys.executable, "-m", "denslice.train", str(config), *options]
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)


def finished(name: str, process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Waits for a run, not for too long; whether it came to its end."""
    try:
        process.wait(timeout=max(1.0, deadline - time.monotonic() - 45))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    tell(f"{name}: exit {process.returncode}")
    return process.returncode == 0


def placed(names: str, data: Path) -> list[str]:
    return [str(data / name) for name in json.loads(f"[{names}]")]


def blend(begin: Path, trained: Any, share: float) -> Any:
    """A model between the untrained one (0) and the trained one (1)."""
    from denslice.encoders.model import BiEncoder

    model = BiEncoder.load(begin)
    goal = trained.state_dict()
    held = {
        name: value + share * (goal[name] - value)
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }
    model.load_state_dict(held, strict=False)
    return model


def pack(model: Any, out: Path) -> None:
    """The weights as float16 in pieces that are easy to carry."""
    out.mkdir(parents=True, exist_ok=True)
    arrays = {
        name: value.cpu().numpy().astype(np.float16)
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }
    flat = np.concatenate([values.ravel() for values in arrays.values()])
    for piece, at in enumerate(range(0, len(flat), PIECE)):
        np.save(out / f"weights-{piece}.npy", flat[at : at + PIECE])
    shapes = {name: values.shape for name, values in arrays.items()}
    (out / "weights.json").write_text(json.dumps({"shapes": shapes, "model": model.config.to_json()}))


def unpacked(folder: Path) -> dict[str, Any]:
    """The weights that `pack` wrote, as float32."""
    import torch

    flat = np.concatenate([np.load(path) for path in sorted(folder.glob("weights-*.npy"))]).astype(np.float32)
    shapes = json.loads((folder / "weights.json").read_text())["shapes"]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    parts = np.split(flat, ends[:-1])
    return {name: torch.from_numpy(part.reshape(shapes[name])) for name, part in zip(shapes, parts, strict=True)}


def mix(backbone: Path, out: Path, shares: dict[str, str], lam: float) -> None:
    """The untrained model plus a share of what each run changed. Runs begin with the same head, whose first layer is
    not known here any more and is taken as the runs' mean.
    """
    from denslice.encoders.model import BiEncoder
    from denslice.encoders.model_config import ModelConfig

    settings = json.loads((Path(next(iter(shares))) / "weights.json").read_text())["model"]
    model = BiEncoder.load(backbone, ModelConfig.from_json({**settings, "lam": lam}))
    begin = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    runs = [(unpacked(Path(folder)), float(share)) for folder, share in shares.items()]
    total = sum(share for _, share in runs)
    for name, value in begin.items():
        if name.startswith("token_head.0."):
            begin[name] = sum(share / total * weights[name] for weights, share in runs)
        else:
            begin[name] = value + sum(share * (weights[name] - value) for weights, share in runs)
    model.load_state_dict(begin, strict=False)
    model.save(out)


# --- measuring


def read_dev(data: Path, model: Any) -> dict[str, Any]:
    """The dev split of every collection."""
    from denslice.train.data import Reader, Source

    reader = Reader(model.tokenizer, model.config)
    return {
        name: reader.collection(Source.of_folder(data / name, "dev"), limit=500, few=FEW) for name in (*DEV, *UNSEEN)
    }


def measure_line(name: str, share: float, model: Any, dev: dict[str, Any]) -> dict[str, Any]:
    """nDCG@10 of the parts and of their sum for each λ, by collection; and the best λ by the mean over all."""
    began = time.monotonic()
    model = model.to(device()).eval()
    found = {collection: measured(model, texts) for collection, texts in dev.items()}
    means = {key: round(float(np.mean([found[one][key] for one in dev])), 4) for key in next(iter(found.values()))}
    seen = {key: round(float(np.mean([found[one][key] for one in DEV])), 4) for key in means}
    unseen = {key: round(float(np.mean([found[one][key] for one in UNSEEN])), 4) for key in means}
    lam = max(LAMBDAS, key=lambda lam: means[str(lam)])
    line = {"config": name, "share": share, "ndcg": found, "mean": means, "seen": seen, "unseen": unseen}
    line["best"] = {"lam": lam, "mean": means[str(lam)]}
    told = " ".join(f"{lam}:{means[str(lam)]:.4f}/{unseen[str(lam)]:.4f}" for lam in LAMBDAS)
    tell(
        f"{name} {share}: lexical {means['lexical']:.4f}/{unseen['lexical']:.4f} dense {means['dense']:.4f}/"
        f"{unseen['dense']:.4f} {told} ({time.monotonic() - began:.0f} s)"
    )
    return line


def measured(model: Any, texts: Any) -> dict[str, float]:
    """nDCG@10 of each part and of the sums, every query against every document."""
    import torch

    from denslice.train.evaluate import Searcher, View

    class Sums(Searcher):
        """Scores with several λ in one pass: a view's `slices` stands for λ."""

        def _scores(self, queries: Any, docs: Any, view: View) -> torch.Tensor:
            if view.lexical and view.dense:
                return queries.lexical(None) @ docs.lexical(None).T + view.slices * (queries.dense @ docs.dense.T)
            return super()._scores(queries, docs, view)

    from denslice.train.measures import measures

    views = [View(True, False), View(False, True), *(View(True, True, lam) for lam in LAMBDAS)]
    found = Sums(model, 0, 131_072).search(texts.queries, texts.docs, views, 10)
    scored = {name.removeprefix("joint-"): measures(rows, texts.relevant)["nDCG@10"] for name, rows in found.items()}
    return {name: round(value, 4) for name, value in scored.items()}


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    data = commands.add_parser("data")
    data.add_argument("collections", type=Path)
    data.add_argument("out", type=Path)
    trial = commands.add_parser("try")
    trial.add_argument("data", type=Path)
    trial.add_argument("backbone", type=Path)
    trial.add_argument("out", type=Path)
    trial.add_argument("--configs", nargs="+", default=["gentle"])
    trial.add_argument("--budget", type=float, default=560)
    trial.add_argument("--keep", nargs="+", default=[], help="configs whose weights are packed")
    mixing = commands.add_parser("mix")
    mixing.add_argument("backbone", type=Path)
    mixing.add_argument("out", type=Path)
    mixing.add_argument("shares", nargs="+", metavar="PACK=SHARE")
    mixing.add_argument("--lam", type=float, default=40.0)
    given = parser.parse_args()
    if given.command == "data":
        make_data(given.collections, given.out)
    elif given.command == "mix":
        mix(given.backbone, given.out, dict(share.split("=") for share in given.shares), given.lam)
    else:
        try_configs(given.data, given.backbone, given.out, given.configs, given.budget, given.keep)


if __name__ == "__main__":
    main()
