"""A folder that is replaced, moved or removed under a reader: it answers from one index, and then from the other."""

import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import serving
from denslice import Index, InputError, open_index
from denslice.errors import DensliceError
from denslice.serve.limits import Limits
from many_commits import handles
from waiting import wait_until


def made(path: Path, word: str) -> Path:
    """An index at generation 1 all of whose documents say this word."""
    with Index.create(path, "bm25", filterable=["of"]) as index:
        index.add([{"id": f"{n}", "text": f"fruit {word} number{n}", "of": word} for n in range(20)])
        assert index.generation == 1
    return path


def by_moving(live: Path, new: Path) -> None:
    """As a deployment does it."""
    live.rename(live.with_name("old.idx"))
    new.rename(live)


def by_removing(live: Path, new: Path) -> None:
    """As someone in a hurry does it."""
    shutil.rmtree(live)
    shutil.copytree(new, live)


def by_building_again(live: Path, new: Path) -> None:
    """The same name, made anew."""
    shutil.rmtree(live)
    made(live, "pear")


REPLACE = [by_moving, by_removing, by_building_again]


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """The index that is read."""
    return made(tmp_path / "live.idx", "apple")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The one that takes its place."""
    return made(tmp_path / "new.idx", "pear")


@pytest.mark.parametrize("replace", REPLACE)
def test_refresh_notices_another_index_of_the_same_generation(
    live: Path, new: Path, replace: Callable[[Path, Path], None]
) -> None:
    index = open_index(live)
    replace(live, new)
    assert index.refresh() is True
    assert index.refresh() is False
    assert index.search("apple").ids == ()
    assert {hit.text.split()[1] for hit in index.search("fruit", 50)} == {"pear"}


@pytest.mark.parametrize("replace", REPLACE)
def test_a_reader_that_has_not_looked_at_anything_yet_answers_from_the_index_it_opened(
    live: Path, new: Path, replace: Callable[[Path, Path], None]
) -> None:
    index = open_index(live)
    replace(live, new)
    hits = index.search("apple", 50)
    assert len(hits) == 20
    assert {hit.text.split()[1] for hit in hits} == {"apple"}
    assert index.search("pear").ids == ()
    assert len(index.search("fruit", 50, where={"of": "apple"})) == 20
    assert index.get("3") is not None
    assert [term.token for term in index.explain("apple", "3").terms] == ["appl"]
    assert len(list(index.docs())) == 20
    index.verify()


@pytest.mark.parametrize("replace", REPLACE)
def test_a_ranking_not_looked_at_yet_keeps_its_texts(
    live: Path, new: Path, replace: Callable[[Path, Path], None]
) -> None:
    index = open_index(live)
    ranking = index.search("fruit", 50)
    replace(live, new)
    index.refresh()
    assert {hit.text.split()[1] for hit in ranking} == {"apple"}


@pytest.mark.parametrize("replace", REPLACE)
def test_who_writes_to_a_folder_that_was_replaced_is_told_so(
    live: Path, new: Path, replace: Callable[[Path, Path], None]
) -> None:
    index = open_index(live)
    replace(live, new)
    for write in (partial(index.add, [{"id": "x", "text": "x"}]), partial(index.delete, ["1"]), index.merge):
        with pytest.raises(InputError, match="another index has taken its place"):
            write()
    assert len(open_index(live)) == 20
    index.refresh()
    assert index.add([{"id": "x", "text": "x"}]) == 1


def test_an_index_that_is_replaced_while_documents_are_read_takes_none_of_them(live: Path, new: Path) -> None:
    def docs() -> Iterator[dict[str, str]]:
        yield {"id": "x", "text": "x"}
        by_moving(live, new)

    with pytest.raises(InputError, match="another index has taken its place"):
        open_index(live).add(docs())
    assert (len(open_index(live)), len(open_index(live.with_name("old.idx")))) == (20, 20)


def test_a_folder_that_is_gone_is_not_called_damaged(live: Path) -> None:
    index = open_index(live)
    shutil.rmtree(live)
    assert len(index.search("apple")) == 10
    with pytest.raises(InputError, match="no such index"):
        index.refresh()
    assert len(index.search("apple")) == 10


def test_a_relative_path_outlives_a_change_of_the_working_directory(
    live: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(live.parent)
    index = open_index("live.idx")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [hit.id for hit in index.search("number3 apple", 1)] == ["3"]
    assert index.refresh() is False
    assert index.add([{"id": "x", "text": "plum"}]) == 1
    index.verify()
    assert index.search("plum").ids == ("x",)


def opened(path: Path) -> Index | None:
    """The index there, or None where there is none just now."""
    try:
        return open_index(path)
    except DensliceError as error:
        if "damaged" in str(error):
            raise
        return None


def test_an_index_opened_while_folders_swap_is_all_of_one(live: Path, new: Path) -> None:
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            live.rename(live.with_name("other.idx"))
            new.rename(live)
            live.with_name("other.idx").rename(new)
            time.sleep(0.003)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[str] = set()
    checked, deadline = 0, time.monotonic() + 60  # a busy machine may stop the thread while no folder is there
    try:
        while (checked < 100 or len(seen) < 2) and time.monotonic() < deadline:
            index = opened(live)
            if index is None:
                continue
            checked += 1
            words = {hit.text.split()[1] for hit in index.search("fruit", 50)}
            assert len(words) == 1
            assert {doc.meta["of"] for doc in index.docs()} == words
            seen |= words
    finally:
        done.set()
        swapping.join()
    assert seen == {"apple", "pear"}


def test_a_copy_that_went_on_by_itself_is_told_from_its_original(live: Path, tmp_path: Path) -> None:
    shutil.copytree(live, tmp_path / "copy.idx")
    index, copy = open_index(live), open_index(tmp_path / "copy.idx")
    index.add([{"id": "x", "text": "plum"}])
    copy.add([{"id": "y", "text": "fig"}])
    assert index.generation == copy.generation
    by_moving(live, tmp_path / "copy.idx")
    assert index.refresh() is True
    assert (index.search("plum").ids, index.search("fig").ids) == ((), ("y",))


def test_a_pickled_index_opens_again_and_refuses_another_one(live: Path, new: Path) -> None:
    told = pickle.dumps(open_index(live))
    again: Index = pickle.loads(told)
    assert len(again.search("apple", 50)) == 20
    by_moving(live, new)
    with pytest.raises(InputError, match="another index is there than the one that was pickled"):
        pickle.loads(told)


def test_an_index_is_a_context_and_says_what_it_is(live: Path) -> None:
    with open_index(live) as index:
        index.search("apple")  # whatever is loaded once stays open
    before = handles()
    with open_index(live) as index:
        assert repr(index) == f"<Index {str(live)!r}: 20 documents, bm25, generation 1>"
        ranking = index.search("apple")
        assert handles() > before
    assert repr(index) == "<Index, closed>"
    with pytest.raises(InputError, match="closed"):
        index.search("apple")
    index.close()
    assert ranking[0].text.startswith("fruit apple")
    del ranking
    assert handles() == before


@pytest.mark.parametrize("replace", REPLACE)
def test_a_server_moves_on_to_an_index_of_the_same_generation(
    live: Path, new: Path, replace: Callable[[Path, Path], None]
) -> None:
    with serving.live(open_index(live), Limits(refresh_seconds=0.05)) as server:
        assert found(server, "apple") == {"apple"}
        replace(live, new)
        wait_until(lambda: found(server, "pear") == {"pear"})
        assert found(server, "apple") == set()
        wait_until(lambda: server.ask("/readyz").status == 200)  # a look while it was replaced may have failed


def found(server: serving.Live, word: str) -> set[str]:
    """The words that hits for a word are of, explained."""
    hits = server.search(word, k=20, explain=True).json()["results"][0]["hits"]
    return {hit["text"].split()[1] for hit in hits}
