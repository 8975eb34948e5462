"""Builds of a cluster folder from files, in stages that can be resumed: parts → words and slicing → shards.

Workers read and encode parts in parallel, each with its own token ids. Then the words of all parts are numbered in
reading order, as one index would number them, and the first documents determine the slicing, if there is one. Then each
shard is written. A part or a shard gets its final name when it is complete, so a build that resumes skips it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from denslice import encoders
from denslice.cluster import ray_engine
from denslice.cluster.cluster_folder import BUILD_FOLDER, Layout
from denslice.cluster.input_parts import VECTORS_SUFFIX, InputPart, columns, cut, read_part, read_ready, stamps
from denslice.cluster.shard import Head, new_shard
from denslice.cluster.spool import Spool, write_spool
from denslice.errors import DensliceError, InputError
from denslice.index.doc_batches import DocBatch, cut_docs, encode_batches
from denslice.index.from_files import texts_only
from denslice.index.index import Index
from denslice.index.quick_pass import Counter
from denslice.index.writer import SAMPLE
from denslice.options import IndexKeywords
from denslice.records import Doc
from denslice.store import lock
from denslice.store.files import load_array, replace_file, save_array
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import Encoded, Ints, stacked

PLAN_FILE = "plan.json"
RayRow = dict[str, Any]


@dataclass(frozen=True)
class Workers:
    """The resources that Ray reserves for each worker. With a GPU, encoding workers keep their model between parts."""

    cpus: float = 1.0
    gpus: float = 0.0


@dataclass(frozen=True)
class BuildPlan:
    """A build: its inputs, the options of the index and the number of shards."""

    folder: str
    chosen: IndexKeywords
    shards: int
    parts: tuple[InputPart, ...]
    stamps: Mapping[str, list[int]]

    @property
    def layout(self) -> Layout:
        """The paths of the cluster."""
        return Layout(Path(self.folder), self.shards)

    @property
    def work(self) -> Path:
        """The folder with the state of the build."""
        return Path(self.folder) / BUILD_FOLDER

    def spool(self, number: int) -> Path:
        """Return the folder of an encoded part."""
        return self.work / "parts" / f"{number:06d}"

    def ids(self, number: int) -> Path:
        """Return the file that maps the token ids of a part to those of the collection."""
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
    """Build a cluster of the inputs, or resume an interrupted build of the same inputs; return how many documents.

    Ray must be connected. The folder and the inputs must have the same paths on every machine.
    """
    ray_engine.check_room(workers.cpus, workers.gpus)
    to = to.resolve()
    work = to / BUILD_FOLDER
    _check_free(to)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{to}: cannot create a cluster here ({error.strerror})") from error
    with lock.writing(work, wait=0.0):  # held until the build ends
        plan = _planned(inputs, to, chosen, shards, part_bytes)
        head = Head(plan.layout.head)
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
        raise InputError(f"{to}: is a file, and a cluster is a folder; choose another name")
    if to.exists() and any(to.iterdir()) and not (to / BUILD_FOLDER).is_dir():
        raise InputError(f"{to}: the folder has other files in it; choose another name")


def _planned(inputs: Sequence[str], to: Path, chosen: IndexKeywords, shards: int, part_bytes: int | None) -> BuildPlan:
    """Return the plan. If it cannot be made, remove what was created for it."""
    try:
        return _plan(inputs, to, chosen, shards, part_bytes)
    except BaseException:
        if not (to / BUILD_FOLDER / PLAN_FILE).exists():
            shutil.rmtree(to / "head", ignore_errors=True)
            shutil.rmtree(to / BUILD_FOLDER, ignore_errors=True)
            with suppress(OSError):
                to.rmdir()
        raise


def _plan(inputs: Sequence[str], to: Path, chosen: IndexKeywords, shards: int, part_bytes: int | None) -> BuildPlan:
    """Return the plan in the folder if it is of the same build, or write a new one."""
    if shards < 1:
        raise InputError(f"shards must be a whole number of at least 1, not {shards!r}")
    settings, parts = _with_columns(inputs, chosen), tuple(cut(inputs, shards, part_bytes))
    plan = BuildPlan(str(to), settings, shards, parts, stamps(parts))
    path = to / BUILD_FOLDER / PLAN_FILE
    if path.exists():
        return _same_build(_read_plan(path, to), plan)
    shutil.rmtree(to / "head", ignore_errors=True)
    Index.create(to / "head", **settings)
    replace_file(path, json.dumps({name: value for name, value in asdict(plan).items() if name != "folder"}).encode())
    return plan


def _with_columns(inputs: Sequence[str], chosen: IndexKeywords) -> IndexKeywords:
    """Return the chosen settings, with encoder and vocabulary size if the inputs are ready vectors."""
    ready = [name.endswith(VECTORS_SUFFIX) for name in inputs]
    if not any(ready):
        return chosen
    if not all(ready):
        other = inputs[ready.index(False)]
        raise InputError(f"{other}: is not {VECTORS_SUFFIX}; index texts and ready vectors into separate clusters")
    if chosen.get("encoder", "vectors") != "vectors":
        raise InputError(f"{inputs[0]}: holds ready vectors; leave out --encoder {chosen['encoder']}")
    return {"encoder": "vectors", "vocab": columns(inputs), **chosen}


def _read_plan(path: Path, to: Path) -> BuildPlan:
    try:
        saved = json.loads(path.read_bytes())
        parts = tuple(InputPart(**{**part, "files": tuple(part["files"])}) for part in saved.pop("parts"))
        return BuildPlan(str(to), parts=parts, **saved)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); remove {to} and build again") from error


def _same_build(saved: BuildPlan, wanted: BuildPlan) -> BuildPlan:
    """Return the saved plan. Raise InputError if it is of another build than the wanted one."""
    for name, before, now in (
        ("other settings", saved.chosen, wanted.chosen),
        ("another number of shards", saved.shards, wanted.shards),
        ("other inputs", saved.stamps, wanted.stamps),
    ):
        if before != now:
            advice = "finish that one, or remove the folder"
            raise InputError(f"{saved.folder}: an interrupted build here has {name}; {advice}")
    return saved


# --- encoding


def _encode_parts(plan: BuildPlan, workers: Workers, counter: Counter) -> None:
    """Read and encode every part that is not complete."""
    left = [number for number in range(len(plan.parts)) if not plan.spool(number).exists()]
    counter.advance(sum(Spool(plan.spool(at)).docs for at in range(len(plan.parts)) if at not in set(left)))
    for docs in _on_workers(encode_part, plan, left, workers):
        counter.advance(docs)


def encode_part(plan: BuildPlan, number: int) -> int:
    """Read one part, write it encoded to its spool, and return how many documents it has."""
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
    docs = read_part(part)
    docs = docs if "encoder" in plan.chosen else texts_only(docs)
    yield from encode_batches(cut_docs(docs, manifest.passages), encoder)


# --- words and slicing


def _settle(plan: BuildPlan, head: Head) -> None:
    """Number the words of all parts in reading order, and determine the slicing, if any, from the first documents."""
    words = Growth(Vocabulary())
    spools = [Spool(plan.spool(number)) for number in range(len(plan.parts))]
    plan.ids(0).parent.mkdir(exist_ok=True)
    for number, spool in enumerate(spools if head.grows else ()):
        save_array(plan.ids(number), np.array([words.place(word) for word in spool.words()], dtype=np.int64))
    dimensions = next((spool.dimensions for spool in spools if spool.docs), None)
    sample = stacked(list(_sample(plan, spools))) if head.is_sliced else None
    head.settle(words.new_words, sample, dimensions)


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
    """Write every shard that is not complete, and return how many documents all shards have."""
    numbers = range(plan.shards)
    plan.layout.shard(0).parent.mkdir(exist_ok=True)
    left = [number for number in numbers if not plan.layout.shard(number).exists()]
    for _ in _on_workers(write_shard, plan, left, workers):
        pass
    for remains in plan.layout.shard(0).parent.glob(".*"):
        shutil.rmtree(remains, ignore_errors=True)
    return sum(Snapshot(plan.layout.shard(number)).docs for number in numbers)


def write_shard(plan: BuildPlan, number: int) -> int:
    """Write one shard from the spools, and return how many documents it has."""
    spools = (Spool(plan.spool(part)).of(number, _ids(plan, part)) for part in range(len(plan.parts)))
    return new_shard(plan.layout.head, plan.layout.shard(number), (batch for batch in spools if batch[0]))


# --- workers


class Worker:
    """Runs one function of a plan for many rows. It is an actor, so a model that it loaded stays loaded."""

    def __init__(self, work: Callable[[BuildPlan, int], int], folder: str) -> None:
        self.work = work
        self.plan = _read_plan(Path(folder) / BUILD_FOLDER / PLAN_FILE, Path(folder))

    def __call__(self, row: RayRow) -> RayRow:
        """Return the result of one row, or the message of an expected error, which Ray would wrap if it was raised."""
        try:
            return {"done": self.work(self.plan, row["number"]), "error": ""}
        except DensliceError as error:
            return {"done": 0, "error": str(error)}
        except OSError as error:
            return {"done": 0, "error": f"{error.filename or self.plan.folder}: {error.strerror or error}"}


def _run_once(row: RayRow, work: Callable[[BuildPlan, int], int], folder: str) -> RayRow:
    return Worker(work, folder)(row)


def _on_workers(
    work: Callable[[BuildPlan, int], int], plan: BuildPlan, numbers: list[int], workers: Workers
) -> Iterator[int]:
    """Yield the results of `work` for the numbers as workers finish. Ray repeats the work of a lost worker."""
    if not numbers:
        return
    ray = ray_engine.load()
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.from_items([{"number": number} for number in numbers], override_num_blocks=len(numbers))
    if workers.gpus:
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=len(numbers))
        given = {"compute": pool, "fn_constructor_args": (work, plan.folder), "num_gpus": workers.gpus}
        rows = rows.map(Worker, **given)
    else:
        rows = rows.map(partial(_run_once, work=work, folder=plan.folder), num_cpus=workers.cpus)
    for row in rows.iter_rows():
        if row["error"]:
            raise InputError(row["error"])
        yield row["done"]
