"""Files to a cluster folder, in stages that can each be taken up again: parts → words and slicing → shards.

Workers read and encode parts side by side, each with token ids of its own. When all are there, their words are
numbered in reading order, as one index would have met them, and the first documents make the slicing. Then each shard
is written. What is finished is never done over: a part and a shard get their names when they are whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from denslice import encoders
from denslice.cluster import ray_engine
from denslice.cluster.cluster_folder import BUILDING, Layout
from denslice.cluster.input_parts import READY, InputPart, columns, cut, read_part, read_ready, stamps
from denslice.cluster.shard import Head, new_shard
from denslice.cluster.spool import Spool, write_spool
from denslice.errors import DensliceError, InputError
from denslice.index.from_files import Counter, texts_only
from denslice.index.index import Index
from denslice.index.writer import SAMPLE, DocBatch, encode_batches
from denslice.options import IndexKeywords
from denslice.records import Doc
from denslice.store import lock
from denslice.store.files import load_array, replace_file, save_array
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import Encoded, Ints, stacked

PLAN = "plan.json"
Row = dict[str, Any]


@dataclass(frozen=True)
class Workers:
    """What Ray sets aside for each worker. With a GPU, those that encode keep their model from part to part."""

    cpus: float = 1.0
    gpus: float = 0.0


@dataclass(frozen=True)
class BuildPlan:
    """A build: what is read, how it is encoded, and over how many shards it goes."""

    folder: str
    chosen: IndexKeywords
    shards: int
    parts: tuple[InputPart, ...]
    stamps: Mapping[str, list[int]]

    @property
    def layout(self) -> Layout:
        """Where the cluster's parts are."""
        return Layout(Path(self.folder), self.shards)

    @property
    def work(self) -> Path:
        """Where the build keeps what it has done."""
        return Path(self.folder) / BUILDING

    def spool(self, number: int) -> Path:
        """Where an encoded part is."""
        return self.work / "parts" / f"{number:06d}"

    def ids(self, number: int) -> Path:
        """The collection's token id of each word of a part."""
        return self.work / "ids" / f"{number:06d}.npy"


def build_cluster(
    inputs: Sequence[str],
    to: Path,
    chosen: IndexKeywords,
    shards: int,
    counter: Counter,
    workers: Workers = Workers(),  # noqa: B008
    part_bytes: int | None = None,
) -> int:
    """Builds a cluster of the inputs, or goes on where a build of the same ones was interrupted; how many documents.

    Ray must be connected. The folder, and the inputs, must have these names on every machine.
    """
    ray_engine.check_room(workers.cpus, workers.gpus)
    to = to.resolve()
    work = to / BUILDING
    _check_free(to)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{to}: cannot make a cluster here ({error.strerror})") from error
    with lock.writing(work, wait=0.0):  # a build holds it to its end
        plan = _planned(inputs, to, chosen, shards, part_bytes)
        head = Head.open(plan.layout.head)
        if not head.is_settled:
            counter.expect(None)
            _encode_parts(plan, workers, counter)
            _settle(plan, head)
        count = _write_shards(plan, Workers(workers.cpus))
        plan.layout.write()
    shutil.rmtree(work)
    return count


# --- the plan


def _check_free(to: Path) -> None:
    if to.exists() and not to.is_dir():
        raise InputError(f"{to}: is a file; a cluster is a folder, choose another name")
    if to.exists() and any(to.iterdir()) and not (to / BUILDING).is_dir():
        raise InputError(f"{to}: is a folder with other things in it; choose another name")


def _planned(inputs: Sequence[str], to: Path, chosen: IndexKeywords, shards: int, part_bytes: int | None) -> BuildPlan:
    """The plan; if none can be made, nothing is left of it."""
    try:
        return _plan(inputs, to, chosen, shards, part_bytes)
    except BaseException:
        if not (to / BUILDING / PLAN).exists():
            shutil.rmtree(to / "head", ignore_errors=True)
            shutil.rmtree(to / BUILDING, ignore_errors=True)
            with suppress(OSError):
                to.rmdir()
        raise


def _plan(inputs: Sequence[str], to: Path, chosen: IndexKeywords, shards: int, part_bytes: int | None) -> BuildPlan:
    """The plan that was begun here, if it is the same build, or a new one."""
    if shards < 1:
        raise InputError(f"shards must be a whole number of at least 1, not {shards!r}")
    settings = _with_columns(inputs, chosen)
    parts = tuple(cut(inputs, shards, part_bytes))
    path = to / BUILDING / PLAN
    if path.exists():
        return _begun(_read_plan(path, to), BuildPlan(str(to), settings, shards, parts, stamps(parts)))
    shutil.rmtree(to / "head", ignore_errors=True)
    Index.create(to / "head", **settings)
    plan = BuildPlan(str(to), settings, shards, parts, stamps(parts))
    replace_file(path, json.dumps(_told(plan)).encode())
    return plan


def _with_columns(inputs: Sequence[str], chosen: IndexKeywords) -> IndexKeywords:
    """The chosen settings; ready vectors tell the encoder and the number of columns."""
    ready = [name.endswith(READY) for name in inputs]
    if not any(ready):
        return chosen
    if not all(ready):
        raise InputError(f"{inputs[ready.index(False)]}: is not {READY}; index ready vectors by themselves")
    if chosen.get("encoder", "vectors") != "vectors":
        raise InputError(f"{inputs[0]}: holds ready vectors, which --encoder {chosen['encoder']} cannot take")
    return {"encoder": "vectors", "vocab": columns(inputs), **chosen}


def _docs(parts: Sequence[InputPart], chosen: IndexKeywords) -> Iterator[Doc]:
    docs = chain.from_iterable(map(read_part, parts))
    return docs if "encoder" in chosen else texts_only(docs)


def _told(plan: BuildPlan) -> dict[str, Any]:
    return {
        "chosen": dict(plan.chosen),
        "shards": plan.shards,
        "parts": [part.to_json() for part in plan.parts],
        "stamps": dict(plan.stamps),
    }


def _read_plan(path: Path, to: Path) -> BuildPlan:
    try:
        told = json.loads(path.read_bytes())
        parts = tuple(InputPart.from_json(part) for part in told.pop("parts"))
        return BuildPlan(str(to), parts=parts, **told)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); remove {to} and build anew") from error


def _begun(there: BuildPlan, asked: BuildPlan) -> BuildPlan:
    """The plan that is there; InputError if it is for another build than is asked for."""
    for name, was, now in (
        ("settings were", there.chosen, asked.chosen),
        ("number of shards was", there.shards, asked.shards),
        ("inputs were", there.stamps, asked.stamps),
    ):
        if was != now:
            told = f"other {name} chosen when a build was begun here; finish that one, or remove the folder"
            raise InputError(f"{there.folder}: {told}")
    return there


# --- encoding


def _encode_parts(plan: BuildPlan, workers: Workers, counter: Counter) -> None:
    """Reads and encodes every part that is not done yet."""
    left = [number for number in range(len(plan.parts)) if not plan.spool(number).exists()]
    counter.advance(sum(Spool(plan.spool(at)).docs for at in range(len(plan.parts)) if at not in set(left)))
    for docs in _on_workers(encode_part, plan, left, workers):
        counter.advance(docs)


def encode_part(plan: BuildPlan, number: int) -> int:
    """Reads and encodes one part into its spool; how many documents it has."""
    to = plan.spool(number)
    if not to.exists():
        words = Growth(Vocabulary())
        batches = list(_encoded(plan, plan.parts[number], words))
        write_spool(to, batches, words.new_words, plan.shards)
    return Spool(to).docs


def _encoded(plan: BuildPlan, part: InputPart, words: Growth) -> Iterator[DocBatch]:
    if part.is_ready:
        ids, weights = read_ready(part)
        yield [Doc(id) for id in ids], Encoded(weights)
        return
    manifest = Snapshot(plan.layout.head).manifest
    encoder = encoders.load(manifest.encoder, manifest.encoder_options, words)
    yield from encode_batches(_docs([part], plan.chosen), encoder)


# --- words and slicing


def _settle(plan: BuildPlan, head: Head) -> None:
    """Numbers the words of all parts in reading order, and makes the slicing from the first documents."""
    words = Growth(Vocabulary())
    spools = [Spool(plan.spool(number)) for number in range(len(plan.parts))]
    plan.ids(0).parent.mkdir(exist_ok=True)
    grows = not head.info().encoder_options.get("vocab")
    for number, spool in enumerate(spools):
        if grows:
            theirs = spool.words()
            save_array(plan.ids(number), np.fromiter(map(words.place, theirs), np.int64, len(theirs)))
    dimensions = next((spool.dimensions for spool in spools if spool.docs), None)
    head.settle(words.new_words, stacked(list(_sample(plan, spools))), dimensions)


def _sample(plan: BuildPlan, spools: Sequence[Spool]) -> Iterator[Any]:
    docs = 0
    for number, spool in enumerate(spools):
        yield spool.weights(_ids(plan, number))
        docs += spool.docs
        if docs >= SAMPLE:
            return


def _ids(plan: BuildPlan, number: int) -> Ints | None:
    path = plan.ids(number)
    return load_array(path) if path.exists() else None


# --- shards


def _write_shards(plan: BuildPlan, workers: Workers) -> int:
    """Writes every shard that is not done yet; how many documents all have."""
    numbers = range(plan.shards)
    plan.layout.shard(0).parent.mkdir(exist_ok=True)
    left = [number for number in numbers if not plan.layout.shard(number).exists()]
    for _ in _on_workers(write_shard, plan, left, workers):
        pass
    for remains in plan.layout.shard(0).parent.glob(".*"):
        shutil.rmtree(remains, ignore_errors=True)
    return sum(Snapshot(plan.layout.shard(number)).docs for number in numbers)


def write_shard(plan: BuildPlan, number: int) -> int:
    """Writes one shard from the spools; how many documents it has."""
    spools = (Spool(plan.spool(part)).of(number, _ids(plan, part)) for part in range(len(plan.parts)))
    return new_shard(plan.layout.head, plan.layout.shard(number), (batch for batch in spools if batch[0]))


# --- workers


class Worker:
    """Does one thing with one plan, for as long as it lives: what it has loaded, it keeps."""

    def __init__(self, work: Callable[[BuildPlan, int], int], folder: str) -> None:
        self.work = work
        self.plan = _read_plan(Path(folder) / BUILDING / PLAN, Path(folder))

    def __call__(self, row: Row) -> Row:
        """What came of one item; an expected failure is told, so that it is not taken for a broken worker."""
        try:
            return {"done": self.work(self.plan, row["number"]), "error": ""}
        except DensliceError as error:
            return {"done": 0, "error": str(error)}
        except OSError as error:
            return {"done": 0, "error": f"{error.filename or self.plan.folder}: {error.strerror or error}"}


def _once(row: Row, work: Callable[[BuildPlan, int], int], folder: str) -> Row:
    return Worker(work, folder)(row)


def _on_workers(
    work: Callable[[BuildPlan, int], int], plan: BuildPlan, numbers: list[int], workers: Workers
) -> Iterator[int]:
    """What `work` gives for each number, as workers finish; a worker that is lost is replaced, and its work redone."""
    if not numbers:
        return
    ray = ray_engine.load()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    rows = ray.data.from_items([{"number": number} for number in numbers], override_num_blocks=len(numbers))
    if workers.gpus:
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=len(numbers))
        given = {"compute": pool, "fn_constructor_args": (work, plan.folder), "num_gpus": workers.gpus}
        rows = rows.map(Worker, **given)
    else:
        rows = rows.map(partial(_once, work=work, folder=plan.folder), num_cpus=workers.cpus)
    for row in rows.iter_rows():
        if row["error"]:
            raise InputError(row["error"])
        yield row["done"]
