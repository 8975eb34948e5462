"""Training data: triples, BEIR folders and hard negatives, as batches of token ids."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder, load_tokenizer
from denslice.errors import InputError
from denslice.train.config import read_config
from denslice.train.data import CollectionReader, Pairs, Source, TrainCollection, read_teacher
from denslice.train.negatives import hard_negatives, read_negatives
from denslice.train.prefetch import prefetch
from denslice.train.tokens import joined, padded, padded_texts
from denslice.train.triples import Triples
from tiny import DOCS, QRELS, QUERIES, make_backbone, make_folder, write_config

MODEL = ModelConfig(lexical="unicoil", max_length=16, query_length=16)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("tiny") / "bert")


@pytest.fixture(scope="module")
def tokenizer(bert: Path) -> Any:
    return load_tokenizer(bert)


@pytest.fixture
def collection(tmp_path: Path, tokenizer: Any) -> TrainCollection:
    return CollectionReader(tokenizer, MODEL).collection(Source.of_folder(make_folder(tmp_path / "beir"), "train"))


def texts(tokenizer: Any, rows: Any) -> list[str]:
    return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]


# --- triples


def test_triples_of_texts_are_read_in_order_and_from_the_start_again(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "triples.tsv"
    path.write_text("cat\tthe cat\tthe dog\ndog\ta dog\ta cat\nbird\tbird sings\tfish\n")
    first, second = islice(Triples(path, tokenizer, MODEL).batches(0, 2), 2)
    assert texts(tokenizer, first.queries) == ["cat", "dog"]
    assert texts(tokenizer, first.passages) == ["the cat", "the dog", "a dog", "a cat"]
    assert texts(tokenizer, second.queries) == ["bird", "cat"]
    assert first.teacher is None


def test_triples_of_ids_take_their_texts_from_collection_and_queries(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "triples.tsv").write_text("7\t1\t2\n")
    (tmp_path / "collection.tsv").write_text("1\tthe cat\n2\tthe dog\n")
    (tmp_path / "queries.tsv").write_text("7\tcat tree\n")
    paths = [tmp_path / f"{name}.tsv" for name in ("triples", "collection", "queries")]
    batch = next(Triples(paths[0], tokenizer, MODEL, *paths[1:]).batches(0, 1))
    assert texts(tokenizer, batch.queries) == ["cat tree"]
    assert texts(tokenizer, batch.passages) == ["the cat", "the dog"]


def test_triples_go_on_where_they_were(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "triples.tsv"
    path.write_text("".join(f"{word}\tthe {word}\ta stone\n" for word in ("cat", "dog", "bird", "fish", "tree")))
    source = Triples(path, tokenizer, MODEL)
    unbroken = [texts(tokenizer, batch.queries) for batch in islice(source.batches(0, 2), 6)]
    assert [texts(tokenizer, batch.queries) for batch in islice(source.batches(6, 2), 3)] == unbroken[3:]


def test_an_empty_file_of_triples_is_an_error(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "triples.tsv").write_text("\n")
    with pytest.raises(InputError, match=r"triples.tsv: has no triples"):
        Triples(tmp_path / "triples.tsv", tokenizer, MODEL)


def test_a_bad_line_of_triples_is_an_error_that_names_it(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "triples.tsv"
    path.write_text("cat\tthe cat\n")
    with pytest.raises(InputError, match=r"triples.tsv:1: 2 columns between tabs, expected 3"):
        Triples(path, tokenizer, MODEL)
    path.write_text("cat\tthe cat\tdog\n\ncat\tthe cat\n")
    with pytest.raises(InputError, match=r"triples.tsv:3: 2 columns between tabs, expected 3, as in line 1"):
        next(Triples(path, tokenizer, MODEL).batches(0, 2))


def test_an_id_that_is_not_in_the_collection_is_an_error(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "triples.tsv").write_text("7\t1\t9\n")
    (tmp_path / "collection.tsv").write_text("1\tthe cat\n")
    (tmp_path / "queries.tsv").write_text("7\tcat tree\n")
    paths = [tmp_path / f"{name}.tsv" for name in ("triples", "collection", "queries")]
    with pytest.raises(InputError, match=r"triples.tsv:1: document '9' is not in the collection"):
        Triples(paths[0], tokenizer, MODEL, *paths[1:])


def test_triples_may_carry_a_teachers_scores(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "triples.tsv").write_text("9.5\t1.5\tcat\tthe cat\tthe dog\n8\t-2\tdog\ta dog\ta cat\n")
    batch = next(Triples(tmp_path / "triples.tsv", tokenizer, MODEL).batches(0, 2))
    nan = math.nan
    np.testing.assert_array_equal(batch.teacher, [[9.5, 1.5, nan, nan], [nan, nan, 8, -2]])


def test_the_same_querys_other_positive_is_marked(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "triples.tsv").write_text("cat\tthe cat\tdog\ncat\ta cat\tdog\nfish\tfish swims\tthe cat\n")
    batch = next(Triples(tmp_path / "triples.tsv", tokenizer, MODEL).batches(0, 3))
    assert batch.relevant.astype(int).tolist() == [[0, 0, 1, 0, 0, 1], [1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]]


# --- texts as token ids


def test_rows_of_texts_are_chosen_in_any_order_and_padded_to_one_length() -> None:
    texts = joined([[5, 6, 7], [], [8] * 9, [9]])
    chosen = texts.only([2, 0, 1, 0])
    assert [row.tolist() for row in chosen] == [[8] * 9, [5, 6, 7], [], [5, 6, 7]]
    found = padded_texts(chosen, 1)
    assert found.ids.tolist() == [row + [1] * (16 - len(row)) for row in ([8] * 9, [5, 6, 7], [], [5, 6, 7])]
    assert found.mask.sum(1).tolist() == [9, 3, 0, 3]
    assert padded(list(chosen), 1).ids.tolist() == found.ids.tolist()
    assert padded([], 1).ids.shape == (0, 8)


# --- BEIR folders


def test_a_folder_gives_each_query_its_relevant_document_and_hard_negatives(
    collection: TrainCollection, tokenizer: Any
) -> None:
    hard = [[(row + 1) % 6] for row in range(5)]
    batch = next(Pairs(collection, hard, 1, seed=0).batches(0, 5))
    by_text = {text: name for name, text in QUERIES.items()}
    asked = [by_text[text] for text in texts(tokenizer, batch.queries)]
    assert sorted(asked) == sorted(QUERIES)
    assert texts(tokenizer, list(batch.passages)[::2]) == [DOCS[QRELS[query]] for query in asked]
    rows = [collection.query_ids.index(query) for query in asked]
    assert texts(tokenizer, list(batch.passages)[1::2]) == [list(DOCS.values())[(row + 1) % 6] for row in rows]


def test_a_hard_negative_that_is_another_querys_positive_stays_a_negative_of_its_own(
    collection: TrainCollection,
) -> None:
    batch = next(Pairs(collection, [[4]] * 5, 1, seed=0).batches(0, 5))
    rows = [row.tolist() for row in batch.queries]
    q5 = rows.index(collection.queries[4].tolist())
    expected = np.zeros((5, 10), dtype=bool)
    expected[q5, 1::2] = True  # d5 is relevant to q5 wherever it stands
    assert batch.relevant.tolist() == expected.tolist()


def test_every_round_has_every_query_once_and_the_order_depends_on_the_seed(collection: TrainCollection) -> None:
    def order(seed: int) -> list[tuple[int, ...]]:
        batches = islice(Pairs(collection, [[]] * 5, 0, seed).batches(0, 1), 10)
        return [tuple(batch.queries[0].tolist()) for batch in batches]

    first, again, other = order(1), order(1), order(2)
    assert first == again
    assert first != other
    assert (
        sorted(first[:5])
        == sorted(first[5:])
        == sorted({tuple(row.tolist()) for row in map(collection.queries.__getitem__, range(5))})
    )


def test_a_folder_goes_on_where_it_was(collection: TrainCollection) -> None:
    pairs = Pairs(collection, [[0, 1, 2, 3, 4, 5]] * 5, 2, seed=3)
    unbroken = [[p.tolist() for p in batch.passages] for batch in islice(pairs.batches(0, 2), 6)]
    assert [[p.tolist() for p in batch.passages] for batch in islice(pairs.batches(6, 2), 3)] == unbroken[3:]


def test_a_query_without_hard_negatives_gets_others_that_are_not_relevant(collection: TrainCollection) -> None:
    for batch in islice(Pairs(collection, [[]] * 5, 3, seed=0).batches(0, 5), 20):
        own = np.arange(5)
        assert not batch.relevant[own[:, None], own[:, None] * 4 + np.arange(1, 4)].any()


def test_a_share_of_a_batch_is_texts_of_one_process_and_marks_of_all(collection: TrainCollection) -> None:
    batch = next(Pairs(collection, [[5]] * 5, 1, seed=0).batches(0, 4))
    first, second = batch.share(0, 2), batch.share(1, 2)
    assert [row.tolist() for row in [*first.queries, *second.queries]] == [row.tolist() for row in batch.queries]
    assert [len(first.passages), len(second.passages)] == [4, 4]
    assert first.relevant is batch.relevant


def test_a_split_the_folder_has_not_is_an_error(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(InputError, match=r"qrels/test.tsv: no such file; the folder has no split 'test'"):
        Source.of_folder(make_folder(tmp_path / "beir"), "test")


def test_a_judged_document_that_is_missing_is_an_error(tmp_path: Path, tokenizer: Any) -> None:
    folder = make_folder(tmp_path / "beir")
    (folder / "qrels" / "train.tsv").write_text("q1\td9\t1\n")
    with pytest.raises(InputError, match=r"train.tsv: document 'd9' is not in the collection"):
        CollectionReader(tokenizer, MODEL).collection(Source.of_folder(folder, "train"))


def test_a_few_documents_are_the_relevant_ones_and_some_others(tmp_path: Path, tokenizer: Any) -> None:
    folder = make_folder(tmp_path / "beir")
    few = CollectionReader(tokenizer, MODEL).collection(Source.of_folder(folder, "train"), limit=2, few=1)
    assert (few.query_ids, few.doc_ids) == (["q1", "q2"], ["d1", "d2", "d3"])
    assert few.relevant == [{0: 1}, {1: 1}]


def test_a_teachers_file_gives_scores_by_query_and_document(tmp_path: Path, collection: TrainCollection) -> None:
    (tmp_path / "teacher.tsv").write_text("q1\td1\t7.5\nq1\td6\t2\n")
    pairs = Pairs(collection, [[5]] * 5, 1, 0, read_teacher(tmp_path / "teacher.tsv"))
    batch = next(pairs.batches(0, 5))
    at = [row.tolist() for row in batch.queries].index(collection.queries[0].tolist())
    assert batch.teacher is not None
    assert batch.teacher[at, 2 * at : 2 * at + 2].tolist() == [7.5, 2.0]
    assert np.isnan(np.delete(batch.teacher, at, axis=0)).all()


# --- hard negatives


def test_bm25_mines_negatives_that_share_words_and_are_not_relevant(tmp_path: Path, bert: Path, tokenizer: Any) -> None:
    folder = make_folder(tmp_path / "beir")
    config = read_config(write_config(tmp_path), backbone=str(bert))
    collection = CollectionReader(tokenizer, MODEL).collection(Source.of_folder(folder, "train"))
    model = BiEncoder.load(bert, MODEL)
    mined = hard_negatives(config, folder, collection, model, mine=True)
    names = [[collection.doc_ids[row] for row in rows] for rows in mined]
    assert names == [["d6"], [], [], ["d2", "d5"], ["d6"]]  # q1: tree; q4: river; q5: stone
    path = tmp_path / "out" / "negatives-bm25.jsonl.gz"
    assert read_negatives(path, collection) == mined
    written = path.stat().st_mtime_ns
    assert hard_negatives(config, folder, collection, model, mine=True) == mined
    assert path.stat().st_mtime_ns == written  # mined once


def test_the_model_mines_what_it_ranks_high_itself(tmp_path: Path, bert: Path, tokenizer: Any) -> None:
    folder = make_folder(tmp_path / "beir")
    data = f'folder = "{folder}"\nnegatives_from = "model"\ndepth = 3'
    config = read_config(write_config(tmp_path, data=data), backbone=str(bert))
    collection = CollectionReader(tokenizer, config.model).collection(Source.of_folder(folder, "train"))
    mined = hard_negatives(config, folder, collection, BiEncoder.load(bert, config.model), mine=True)
    assert [len(rows) for rows in mined] == [3] * 5
    assert all(row not in collection.relevant[query] for query, rows in enumerate(mined) for row in rows)


def test_a_negative_that_is_not_in_the_collection_is_an_error(tmp_path: Path, collection: TrainCollection) -> None:
    path = tmp_path / "negatives.jsonl"
    path.write_text('{"query": "q1", "negatives": ["d2"]}\n{"query": "q2", "negatives": ["d9"]}\n')
    with pytest.raises(InputError, match=r"negatives.jsonl:2: 'd9' is no document"):
        read_negatives(path, collection)


# --- prefetching


def test_prefetched_items_come_in_order_and_errors_in_their_place() -> None:
    def items() -> Any:
        yield from range(20)
        raise InputError("the twenty-first")

    made = prefetch(items())
    assert list(islice(made, 20)) == list(range(20))
    with pytest.raises(InputError, match=r"the twenty-first"):
        next(made)
