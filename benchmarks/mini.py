"""Makes the embedded model: training data, training runs, and what each gave on dev splits.

    PYTHONPATH=src python benchmarks/mini.py data COLLECTIONS DATA      # folders to train and to measure on
    PYTHONPATH=src python benchmarks/mini.py vary DATA                  # more kinds of pairs from them
    PYTHONPATH=src python benchmarks/mini.py try DATA BACKBONE OUT --configs broad wide loose
    PYTHONPATH=src python benchmarks/mini.py mix BACKBONE MODEL OUT/gentle=0.5 OUT/bold=0.15 OUT/together=0.425 \\
        OUT/broader=0.425 --head OUT/gentle=1 OUT/bold=0.3
    denslice export MODEL --to src/denslice/mini --texts DATA/…/corpus.jsonl

`try` trains each config in a process of its own, all at once, then measures the untrained model, every trained one
and sums of what they changed (weights halfway back to the untrained ones hold on to what it knew, and several runs'
mean is better than each) for several λ, on the dev splits. OUT gets results.jsonl, the runs' logs, and what each run
changed, in 8 bits.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from journal import ROOT

LAMBDAS = (10, 20, 25, 30, 35, 40, 50, 70)
BLENDS = (0.7, 1.0)  # how far from the untrained weights to the trained ones
SUMS = (0.8, 1.0, 1.2)  # how far along the mean of several runs
FEW = 3000  # documents beside the relevant ones that dev queries are measured against
DEV = ("acl", "medquad", "scifact", "scitldr", "squad-sentences", "squad-passages")  # domains that are trained on
UNSEEN = ("fiqa-judged", "nfcorpus", "reuters-headline", "wikiqa-page")  # never trained on, dev splits only
PLAIN = ("nfcorpus-plain", "reuters-headline-plain")  # never trained on either, as short texts without punctuation
HELD_OUT = {"scifact": 0.25, "squad-train-sent": 0.1}  # share of training queries kept for measuring
PIECE = 15_000_000  # bytes in a file
GROUP = 5  # sentences of SQuAD put together as a passage
Rows = list[dict[str, Any]]
Shares = dict[str, float]  # of a run's folder
Change = Callable[[dict[str, Any]], dict[str, Any]]


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
    vary(out)


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


def vary(data: Path) -> None:
    """More kinds of pairs: short texts without punctuation, queries of a few words, sentences out of their document."""
    for name in ("acl", "scitldr"):
        change(data / name, data / f"{name}-plain", lambda row: cut_plain(row), lambda row: told(row, words(row)), 0.5)
    for name in UNSEEN[1:3]:
        change(data / name, data / f"{name}-plain", lambda row: cut_plain(row), lambda row: told(row, words(row)), 1.0)
    for name in ("acl", "medquad", "squad-passages"):
        change(data / name, data / f"{name}-keywords", lambda row: row, keywords, 0.4)
    for name in ("acl", "medquad"):
        take_sentences(data / name, data / f"{name}-sentences", 0.5)


def change(folder: Path, out: Path, doc: Change, query: Change, share: float) -> None:
    """The collection with changed documents and queries; a share of its queries, and documents that one of them has."""
    names = [path.stem for path in (folder / "qrels").iterdir()]
    qrels = {name: [line for line in qrels_of(folder, name) if is_in(line[0][::-1], share)] for name in names}
    wanted = {line[1] for lines in qrels.values() for line in lines}
    docs = [doc(row) for row in rows_of(folder / "corpus.jsonl") if share == 1.0 or row["_id"] in wanted]
    write(out, docs, [query(row) for row in rows_of(folder / "queries.jsonl")], qrels)


def take_sentences(folder: Path, out: Path, share: float) -> None:
    """A sentence as the query for the rest of its document, which mostly is about the same thing."""
    docs, queries, qrels = [], [], []
    trained = {line[1] for line in qrels_of(folder, "train")}
    for row in rows_of(folder / "corpus.jsonl"):
        sentences = re.split(r"(?<=[.?!]) +", row["text"])
        if row["_id"] not in trained or not is_in(row["_id"][::-1], share) or len(sentences) < 4:
            continue
        chosen = crc32(row["_id"].encode()) % len(sentences)
        queries.append(told(row, sentences[chosen][:300]))
        docs.append(told(row, " ".join(sentences[:chosen] + sentences[chosen + 1 :])))
        qrels.append([row["_id"], row["_id"], "1"])
    write(out, docs, queries, {"train": qrels})


def cut_plain(row: dict[str, Any]) -> dict[str, Any]:
    """The first 20 to 60 words of a document, nothing but letters."""
    count = 20 + crc32(row["_id"].encode()) % 41
    return told(row, " ".join(words(row).split()[:count]))


def keywords(row: dict[str, Any]) -> dict[str, Any]:
    """Two to five of a query's longer words, in any order."""
    seed = crc32(row["_id"].encode())
    longer = sorted(
        {word for word in words(row).split() if len(word) > 3}, key=lambda word: crc32(word.encode()) ^ seed
    )
    return told(row, " ".join(longer[: 2 + seed % 4]) or row["text"])


def words(row: dict[str, Any]) -> str:
    return " ".join(re.findall(r"[a-z]+", f"{row.get('title', '')} {row['text']}".lower()))


def told(row: dict[str, Any], text: str) -> dict[str, Any]:
    return {"_id": row["_id"], "text": text}


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


def try_configs(data: Path, backbone: Path, out: Path, names: list[str], budget: float) -> None:
    """Trains every config, all at once, and measures what came of it."""
    import torch

    from denslice.encoders.torch.bi_encoder import BiEncoder
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
    dev = read_dev(data, BiEncoder.load(begin))

    def measure(shares: dict[str, float]) -> None:
        label = "+".join(f"{share:g} {name}" for name, share in shares.items()) or "untrained"
        line = measure_line(label, shares, summed(begin, work, shares), dev)
        with (out / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    measure({})
    done = [name for name, process in runs.items() if finished(name, process, deadline)]
    for name in names:
        (out / f"{name}.log").write_text((work / f"{name}.txt").read_text())
    for name in done:
        pack(begin, BiEncoder.load(work / name / "model"), out / name)
    tell("packed")
    tries = [{name: share} for name in done for share in BLENDS]
    tries += [{name: round(share / len(some), 4) for name in some} for some in subsets(done) for share in SUMS]
    for shares in tries:
        if time.monotonic() < deadline - 10:
            measure(shares)


def subsets(names: list[str]) -> list[tuple[str, ...]]:
    """All of them first, then all but one, and so on down to two."""
    return [some for count in range(len(names), 1, -1) for some in combinations(names, count)]


def summed(begin: Path, work: Path, shares: dict[str, float]) -> Any:
    """The untrained model with a share of what each run changed."""
    from denslice.encoders.torch.bi_encoder import BiEncoder

    model = BiEncoder.load(begin)
    held = {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}
    for run, share in shares.items():
        trained = BiEncoder.load(work / run / "model").state_dict()
        for name, value in model.state_dict().items():
            if name in held:
                held[name] += share * (trained[name] - value)
    model.load_state_dict(held, strict=False)
    return model


def mine(data: Path, begin: Path, work: Path, folders: tuple[str, ...]) -> Path:
    """Hard negatives by the untrained model, for all runs."""
    from denslice.encoders.torch.bi_encoder import BiEncoder
    from denslice.train.config import DataConfig, OutputConfig, TrainConfig
    from denslice.train.data import CollectionReader, Source
    from denslice.train.negatives import hard_negatives

    began = time.monotonic()
    model = BiEncoder.load(begin).to(device())
    chosen = DataConfig(folders=folders, negatives=2, negatives_from="model", depth=40)
    config = TrainConfig(model.config, str(begin), data=chosen, output=OutputConfig(str(work)))
    reader = CollectionReader(model.tokenizer, model.config)
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


def pack(begin: Path, model: Any, out: Path) -> None:
    """What a run changed, in 8 bits with a scale for each row, compressed; and the head it began with, as it was."""
    import torch

    from denslice.encoders.torch.bi_encoder import BiEncoder

    out.mkdir(parents=True, exist_ok=True)
    was = {name: value for name, value in BiEncoder.load(begin).state_dict().items() if value.is_floating_point()}
    packed: dict[str, Any] = {}
    for name, value in was.items():
        change = model.state_dict()[name].cpu() - value
        scale = change.abs().amax(-1, keepdim=True) / 127 if change.dim() else change.abs() / 127
        packed[f"{name}:change"] = (change / scale.clamp_min(1e-30)).round().to(torch.int8).numpy()
        packed[f"{name}:scale"] = scale.numpy()
        if name.startswith("token_head."):
            packed[f"{name}:start"] = value.numpy()
    buffer = io.BytesIO()
    np.savez(buffer, **packed)
    squeezed = lzma.compress(buffer.getvalue(), preset=1)
    for piece, at in enumerate(range(0, len(squeezed), PIECE)):
        (out / f"changes.{piece}").write_bytes(squeezed[at : at + PIECE])
    (out / "model.json").write_text(json.dumps(model.config.to_json()))


def unpacked(folder: Path) -> dict[str, Any]:
    """The arrays that `pack` wrote."""
    squeezed = b"".join(path.read_bytes() for path in sorted(folder.glob("changes.*")))
    with np.load(io.BytesIO(lzma.decompress(squeezed))) as arrays:
        return dict(arrays)


def mix(backbone: Path, out: Path, body: Shares, head: Shares, search: dict[str, Any]) -> None:
    """The untrained model plus a share of what each run changed; runs that give to the head began with the same one."""
    import torch

    from denslice.encoders.model_config import ModelConfig
    from denslice.encoders.torch.bi_encoder import BiEncoder

    settings = json.loads((Path(next(iter(head))) / "model.json").read_text())
    model = BiEncoder.load(backbone, ModelConfig.from_json({**settings, **search}))
    runs = {folder: unpacked(Path(folder)) for folder in {**body, **head}}
    held = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    for name in held:
        shares = head if name.startswith("token_head.") else body
        if f"{name}:start" in runs[next(iter(shares))]:
            held[name] = torch.from_numpy(runs[next(iter(shares))][f"{name}:start"])
        changes = [
            share * runs[folder][f"{name}:change"] * runs[folder][f"{name}:scale"] for folder, share in shares.items()
        ]
        held[name] = held[name] + torch.from_numpy(np.sum(changes, axis=0, dtype=np.float32))
    model.load_state_dict(held, strict=False)
    model.save(out)


# --- measuring


def read_dev(data: Path, model: Any) -> dict[str, Any]:
    """The dev split of every collection."""
    from denslice.train.data import CollectionReader, Source

    reader = CollectionReader(model.tokenizer, model.config)
    return {
        name: reader.collection(Source.of_folder(data / name, "dev"), limit=500, few=FEW)
        for name in (*DEV, *UNSEEN, *PLAIN)
    }


def measure_line(label: str, shares: dict[str, float], model: Any, dev: dict[str, Any]) -> dict[str, Any]:
    """nDCG@10 of the parts and of their sum for each λ, by collection and as means over kinds of collections."""
    began = time.monotonic()
    model = model.to(device()).eval()
    found = {collection: measured(model, texts) for collection, texts in dev.items()}
    kinds = {"mean": (*DEV, *UNSEEN), "seen": DEV, "unseen": UNSEEN, "plain": PLAIN}
    means = {
        kind: {key: round(float(np.mean([found[one][key] for one in ones])), 4) for key in found[ones[0]]}
        for kind, ones in kinds.items()
    }
    brief = " ".join(f"{lam}:" + "/".join(f"{means[kind][str(lam)]:.4f}" for kind in kinds) for lam in (20, 30, 40, 50))
    parts = " ".join(
        f"{part} {'/'.join(f'{means[kind][part]:.4f}' for kind in kinds)}" for part in ("lexical", "dense")
    )
    tell(f"{label}: {parts} {brief} ({time.monotonic() - began:.0f} s)")
    best = max(LAMBDAS, key=lambda lam: means["mean"][str(lam)])
    line = {"label": label, "shares": shares, "ndcg": found, **means}
    return {**line, "best": {"lam": best, "mean": means["mean"][str(best)]}}


def measured(model: Any, texts: Any) -> dict[str, float]:
    """nDCG@10 of each part and of the sums, every query against every document."""
    import torch

    from denslice.train.brute_force import BruteForce, Scoring

    class Sums(BruteForce):
        """Scores with several λ in one pass: a view's `slices` stands for λ."""

        def _scores(self, queries: Any, docs: Any, view: Scoring) -> torch.Tensor:
            if view.lexical and view.dense:
                return queries.lexical(None) @ docs.lexical(None).T + view.slices * (queries.dense @ docs.dense.T)
            return super()._scores(queries, docs, view)

    from denslice.train.measures import measures

    views = [Scoring(True, False), Scoring(False, True), *(Scoring(True, True, lam) for lam in LAMBDAS)]
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
    varied = commands.add_parser("vary")
    varied.add_argument("data", type=Path)
    trial = commands.add_parser("try")
    trial.add_argument("data", type=Path)
    trial.add_argument("backbone", type=Path)
    trial.add_argument("out", type=Path)
    trial.add_argument("--configs", nargs="+", default=["gentle"])
    trial.add_argument("--budget", type=float, default=560)
    mixing = commands.add_parser("mix")
    mixing.add_argument("backbone", type=Path)
    mixing.add_argument("out", type=Path)
    mixing.add_argument("shares", nargs="+", metavar="PACK=SHARE")
    mixing.add_argument("--head", nargs="+", metavar="PACK=SHARE", help="where the head is to come from other runs")
    mixing.add_argument("--lam", type=float, default=40.0)
    mixing.add_argument("--b", type=float, default=0.3)
    mixing.add_argument("--phrases", type=float, default=0.3)
    given = parser.parse_args()
    if given.command == "data":
        make_data(given.collections, given.out)
    elif given.command == "vary":
        vary(given.data)
    elif given.command == "mix":
        body, head = (
            {k: float(v) for k, v in (one.split("=") for one in some)}
            for some in (given.shares, given.head or given.shares)
        )
        mix(given.backbone, given.out, body, head, {"lam": given.lam, "b": given.b, "phrases": given.phrases})
    else:
        try_configs(given.data, given.backbone, given.out, given.configs, given.budget)


if __name__ == "__main__":
    main()
