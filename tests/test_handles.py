"""Few file handles, and what else the system refuses: told as what it is, and never as damage."""

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from denslice import Index, IndexFormatError, UnavailableError, open_index
from forked import Child
from many_commits import handles, run

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index with every kind of file."""
    with Index.create(tmp_path / "my.idx", "bm25", slices=8) as index:
        for start in range(0, 30, 5):
            index.add([{"id": f"{n}", "text": f"apple number{n}"} for n in range(start, start + 5)])
        index.delete(["3"])
    return tmp_path / "my.idx"


@pytest.mark.skipif(sys.platform != "linux", reason="counts handles in /proc")
def test_a_server_takes_commits_of_one_document_with_few_handles(tmp_path: Path) -> None:
    seen = run(tmp_path, 80)
    assert seen.segments < 25


def test_an_open_segment_holds_two_handles(path: Path) -> None:
    with Index.create(path.with_name("one.idx"), "bm25") as index:
        index.add([{"id": "1", "text": "apple"}])
        index.search("apple")
        before = handles()
        index.add([{"id": "2", "text": "apple"}])  # a word that is known: no piece of the vocabulary
        index.search("apple")
        assert handles() <= before + 2


def opened_until_none_is_left() -> Iterator[int]:
    """Handles, all that this process may still have."""
    with suppress(OSError):
        while True:
            yield os.open(os.devnull, os.O_RDONLY)


def without_handles(work: Callable[[], object], free: int) -> str:
    """How the work ends in a process that may open so many files more."""

    def limited() -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        taken = list(opened_until_none_is_left())
        for handle in taken[:free]:
            os.close(handle)
        try:
            work()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is looked at)
            return f"{type(error).__name__}: {error}"
        return "came through"

    return Child(limited).result()


def test_handles_that_run_out_while_opening_are_not_called_damage(path: Path) -> None:
    open_index(path).search("apple")
    told = [without_handles(lambda: open_index(path).search("apple"), free) for free in range(40)]
    assert told[-1] == "came through"
    refused = told[: told.index("came through")]
    assert len(refused) > 3
    assert {one.partition(":")[0] for one in refused} == {"UnavailableError"}
    assert not [one for one in refused if "damaged" in one]
    assert any("ulimit -n" in one for one in refused)


def test_handles_that_run_out_while_writing_leave_the_index_as_it_was(path: Path) -> None:
    add = lambda: open_index(path).add([{"id": "x", "text": "pear"}])  # noqa: E731
    open_index(path).search("apple")
    told = [without_handles(add, free) for free in range(0, 60, 3)]
    assert "came through" in told
    refused = [one for one in told if one != "came through"]
    assert refused
    assert not [one for one in refused if "damaged" in one], refused
    with open_index(path) as index:
        index.verify()
        assert len(index) == 30


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_not_called_damage(path: Path) -> None:
    file = next(path.glob("segments/*/words.arrays"))
    file.chmod(0)
    with pytest.raises(UnavailableError, match="Permission denied"):
        open_index(path)


def test_a_missing_file_is_damage(path: Path) -> None:
    next(path.glob("segments/*/words.arrays")).unlink()
    with pytest.raises(IndexFormatError, match=r"words\.arrays: is missing; the index is damaged"):
        open_index(path)


def test_an_index_lives_on_a_file_system_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object, **named: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    with open_index(path) as index:
        index.add([{"id": "x", "text": "pear"}])
        index.delete(["1"])
        index.merge()
        index.backup(path.with_name("copy.idx"))
        assert index.search("pear").ids == ("x",)
    with open_index(path.with_name("copy.idx")) as copy:
        copy.verify()
        assert (len(copy), copy.search("pear").ids) == (29, ("x",))
