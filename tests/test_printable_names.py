"""Any name of a file has one printable text, and no other name has it."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from denslice.corpus.printable_names import original_name, printable_name

file_names = st.binary(min_size=1, max_size=12).map(os.fsdecode)
tricky_names = st.text(st.sampled_from("%250AaF\n\udce9é\u200d"), max_size=8)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes/a b.md", "notes/a b.md"),
        ("Übung 🎉.txt", "Übung 🎉.txt"),
        ("two\nlines.txt", "two%0Alines.txt"),
        ("caf\udce9.txt", "caf%E9.txt"),  # Latin-1 on the disk
        ("no\u00a0break", "no%C2%A0break"),
        ("100%.txt", "100%.txt"),
        ("50%off", "50%off"),
        ("two%0Alines.txt", "two%250Alines.txt"),
        ("%0a", "%0a"),
        ("%%41", "%%2541"),
    ],
)
def test_only_what_cannot_be_printed_is_escaped(name: str, text: str) -> None:
    assert printable_name(name) == text
    assert original_name(text) == name


@given(file_names | tricky_names)
@example("%2\n")
def test_a_text_has_one_name_and_can_be_printed(name: str) -> None:
    text = printable_name(name)
    assert text.isprintable()
    assert original_name(text) == name


@given(file_names | tricky_names, file_names | tricky_names)
def test_the_text_of_a_path_is_that_of_its_parts(folder: str, name: str) -> None:
    assert printable_name(f"{folder}/{name}") == f"{printable_name(folder)}/{printable_name(name)}"
