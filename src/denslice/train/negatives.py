"""Hard negatives: documents that BM25 or the model ranks high for a query and that are not judged relevant.

They are mined once and kept in a file, which later runs on the same collection can reuse.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.lines import located, parse_json_object, read_lines
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.index.index import Index
from denslice.train.brute_force import NOT_FOUND, BruteForce, scorings
from denslice.train.config import TrainConfig
from denslice.train.data import TrainCollection

MINED_BY = ("bm25", "model")


def hard_negatives(
    config: TrainConfig, folder: Path, collection: TrainCollection, model: BiEncoder, mine: bool
) -> list[list[int]]:
    """Return for each query of the folder the rows that hard negatives are drawn from, best first.

    They are mined if no file of an earlier run has them. Of several processes, only the first may `mine`.
    """
    if config.data.negatives == 0:
        return [[] for _ in collection.query_ids]
    path, settings = _file(config, folder), _settings(config, folder)
    if config.data.negatives_from in MINED_BY and mine and _settings_in(path) != settings:
        by_bm25 = config.data.negatives_from == "bm25"
        found = _by_bm25(config, folder, collection) if by_bm25 else _by_model(config, collection, model)
        write_negatives(path, settings, collection, found)
    return read_negatives(path, collection)


def write_negatives(
    path: Path, settings: dict[str, Any], collection: TrainCollection, rankings: Iterable[Sequence[int]]
) -> None:
    """Write rankings without their relevant rows: a line of settings, then one line for each query."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=5) as file:
        file.write(json.dumps({"settings": settings}) + "\n")
        for query, ranking in enumerate(rankings):
            rows = [row for row in ranking if row not in collection.relevant[query]]
            ids = [collection.doc_ids[row] for row in rows[: settings["depth"]]]
            file.write(json.dumps({"query": collection.query_ids[query], "negatives": ids}) + "\n")
    unfinished.replace(path)


def read_negatives(path: Path, collection: TrainCollection) -> list[list[int]]:
    """Read the rows for each query of the collection; a query that the file lacks has none."""
    rows = {name: row for row, name in enumerate(collection.doc_ids)}
    found: dict[str, list[int]] = {}
    for number, line in read_lines(path):
        try:
            entry = parse_json_object(line)
            if "settings" not in entry:
                found[entry["query"]] = [rows[name] for name in entry["negatives"]]
        except InputError as error:
            raise located(path, number, error) from None
        except KeyError as error:
            problem = f"{error} is no document of the collection, or the line lacks that key"
            raise located(path, number, problem) from None
    if not found:
        raise InputError(f"{path}: has no hard negatives; name another file in data.negatives_from")
    return [found.get(name, []) for name in collection.query_ids]


def _file(config: TrainConfig, folder: Path) -> Path:
    """Return the file with a folder's negatives. With several folders, each has a file of its own name."""
    by = config.data.negatives_from
    place = Path(config.output.folder) / f"negatives-{by}" if by in MINED_BY else Path(by)
    if config.data.folders:
        return place / f"{folder.name}.jsonl.gz"
    return place.with_name(f"{place.name}.jsonl.gz") if by in MINED_BY else place


def _settings(config: TrainConfig, folder: Path) -> dict[str, Any]:
    data = config.data
    settings = {"by": data.negatives_from, "folder": str(folder), "split": data.split, "depth": data.depth}
    return settings | ({"model": config.backbone} if data.negatives_from == "model" else {})


def _settings_in(path: Path) -> object:
    if not path.exists():
        return None
    _, line = next(read_lines(path), (0, "{}"))
    return parse_json_object(line).get("settings")


def _by_bm25(config: TrainConfig, folder: Path, collection: TrainCollection) -> Iterator[list[int]]:
    rows = {name: row for row, name in enumerate(collection.doc_ids)}
    wanted = set(collection.query_ids)
    with TemporaryDirectory(prefix="denslice-negatives-") as temporary:
        index = Index.create(Path(temporary, "bm25.idx"), "bm25")
        index.add(read_docs([folder]))
        queries = (query for query in read_queries(folder) if query.id in wanted)  # in the collection's order
        for ranking in index.rank(queries, _deep(config, collection)):
            yield [rows[name] for name in ranking.ids]


def _by_model(config: TrainConfig, collection: TrainCollection, model: BiEncoder) -> Iterator[list[int]]:
    searched = scorings(model)[-1]  # the joint score if the model has both parts
    searcher = BruteForce(model, config.evaluation.skip, config.evaluation.tokens)
    found = searcher.search(collection.queries, collection.docs, [searched], _deep(config, collection))
    for ranking in found[searched.name]:
        yield [row for row in ranking.tolist() if row != NOT_FOUND]


def _deep(config: TrainConfig, collection: TrainCollection) -> int:
    """Return a depth at which `data.depth` rows remain without the relevant ones."""
    return config.data.depth + max(len(grades) for grades in collection.relevant)
