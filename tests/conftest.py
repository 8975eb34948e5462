"""What holds for every test: the same examples, a thread for each library that has its own, no waits for the disk."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
import typer.main
from hypothesis import settings

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded: models as small as those of the tests are slower on more
settings.register_profile("same", derandomize=True)  # every run tries the same examples
settings.register_profile("other", max_examples=1_000, print_blob=True)  # --hypothesis-profile other tries new ones
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with few tests come first: theirs take longest, and so workers that share the files end together."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (tests[item.path], item.path))


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look at it again after each test that calls it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _commands_are_made_once() -> Iterator[None]:
    """A command line is made once and not for each command, which is not what a test waits for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_forced_to_disk() -> Iterator[None]:
    """A commit here does not wait for the disk, which was most of its time; in processes that tests start, it does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield
