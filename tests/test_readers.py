"""Readers in other processes see whole commits only, while a writer adds and merges; and many threads may read."""

import gc
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from denslice import Index, open_index
from denslice.store.files import load_array, save_array

SCRIPT = Path(__file__).with_name("readers.py")


def test_four_readers_never_see_half_a_commit() -> None:
    command = [sys.executable, str(SCRIPT), "--commits", "20", "--docs", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,001 documents in 20 commits, 2 merges" in done.stdout
    assert done.stdout.count("rounds") == 4


def test_threads_at_different_depths_open_arrays_at_once(tmp_path: Path) -> None:
    """Python 3.11's parser, which reads an array's header, minds being left for another thread in the middle."""
    save_array(tmp_path / "some.npy", np.arange(10))
    failed: list[SystemError] = []

    def deeper(depth: int) -> None:
        if depth:
            deeper(depth - 1)
            return
        try:
            for _ in range(300):
                load_array(tmp_path / "some.npy")
        except SystemError as error:
            failed.append(error)

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(20)
    gc.callbacks.append(_callback)
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=deeper, args=(20 * number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(_callback)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
    assert failed == []


def _callback(phase: str, info: dict[str, int]) -> None:
    """Python code that runs wherever memory is asked for, so that another thread can take over there."""
    sum(range(50))


def test_a_reader_starts_again_if_a_file_goes_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    for number in range(3):
        index.add([{"id": str(number), "text": f"fox {number}"}])
    connect, merged = sqlite3.connect, list[int]()

    def late(*place: Any, **options: Any) -> Any:
        if not merged:
            merged.append(0)
            merged[0] = index.merge()  # it removes the file that is about to be opened
        return connect(*place, **options)

    monkeypatch.setattr("denslice.store.docs_sqlite.sqlite3.connect", late)
    assert sorted(open_index(tmp_path / "my.idx").search("fox").ids) == ["0", "1", "2"]
    assert merged == [3]
