"""Passages on the command line: where a hit matches, and the commands that show and list documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import assert_one_line, denslice, on_terminal, process, write_docs
from denslice import Index
from denslice.cli.hits_output import snippet
from denslice.cli.place_labels import place_label
from denslice.corpus.passages import cut
from denslice.records import Doc, Place
from denslice.search.matches import text_analyzer

PARAGRAPH = "The harbour lay quiet under the evening sky and nobody spoke of the storm. " * 8
GUIDE = (
    f"# Guide\n\n{PARAGRAPH}\n\n## Install\n\n{PARAGRAPH}\n\n### Linux\n\nUnpack the zeppelin archive.\n\n{PARAGRAPH}"
)
DOCS = [
    {"id": "guide", "title": "The guide", "text": GUIDE, "year": 2020},
    {"id": "short", "text": "A zeppelin flies.", "year": 2021},
]
LINUX = "Guide › Install › Linux, line 9, passage 2"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("passages")
    made = denslice("index", write_docs(folder / "docs.jsonl", DOCS), "--to", folder / "my.idx", "--encoder", "bm25")
    assert made.exit_code == 0, made.output
    return folder / "my.idx"


def test_the_guide_has_a_passage_for_each_heading() -> None:
    assert [place.heading for place in cut(GUIDE)] == ["Guide", "Guide › Install", "Guide › Install › Linux"]


# --- search


def test_a_question_needs_no_quotes_and_options_go_anywhere(index: Path) -> None:
    quoted = denslice("search", index, "unpack the archive", "-k", 1).stdout
    assert quoted.split("\t")[2] == "guide"
    assert denslice("search", index, "unpack", "the", "archive", "-k", 1).stdout == quoted
    assert denslice("search", "-k", 1, index, "unpack", "--mode", "lexical", "the", "archive").stdout == quoted
    assert denslice("search", index).exit_code == 2


def test_search_shows_the_passage_that_matches_best_and_its_place(index: Path) -> None:
    (first, second) = sorted(line.split("\t")[2:] for line in denslice("search", index, "zeppelin").stdout.splitlines())
    assert first[:2] == ["guide", "The guide"]
    assert first[2].startswith("### Linux Unpack the zeppelin archive.")
    assert first[3] == LINUX
    assert second == ["short", "", "A zeppelin flies.", ""]


def test_search_prints_passages_if_asked(index: Path) -> None:
    documents = denslice("search", index, "harbour").stdout.splitlines()
    passages = [line.split("\t") for line in denslice("search", index, "harbour", "--passages").stdout.splitlines()]
    assert len(documents) == 1
    assert [line[2] for line in passages] == ["guide"] * 3
    assert {line[5].rpartition(", ")[2] for line in passages} == {"passage 0", "passage 1", "passage 2"}


def test_json_has_the_passages_of_a_hit_with_their_lines(index: Path) -> None:
    (hit,) = map(json.loads, denslice("search", index, "archive", "--json").stdout.splitlines())
    best = hit["passages"][0]
    assert (best["number"], best["heading"], best["line"]) == (2, "Guide › Install › Linux", 9)
    assert best["text"] == hit["text"][best["start"] : best["end"]]
    assert "cut" not in hit


def test_json_of_a_passage_is_not_indexed_in_place_of_its_document(index: Path, tmp_path: Path) -> None:
    found = denslice("search", index, "archive", "--json", "--passages").stdout
    (hit,) = map(json.loads, found.splitlines())
    assert hit["text"] == hit["passages"][0]["text"]
    assert hit["passages"][0]["line"] == 9
    assert hit["cut"] == {"text": {"start": hit["passages"][0]["start"], "length": len(GUIDE)}}
    (tmp_path / "found.jsonl").write_text(found)
    assert_one_line(denslice("index", tmp_path / "found.jsonl", "--to", tmp_path / "my.idx"), "only a part of this doc")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hybrid") / "my.idx"
    Index.create(folder).add(DOCS)
    return folder


def test_the_dense_score_of_several_passages_is_explained_in_two_rows(hybrid: Path) -> None:
    lines = denslice("search", hybrid, "archive", "--explain", "--where", '{"id": "guide"}').stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[1:]] == ["dense, best passage 2", "dense, mean of all", "archiv"]
    lines = denslice("search", hybrid, "flies", "--explain", "--where", '{"id": "short"}').stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[1:]] == ["dense score", "fli"]


def test_a_passage_is_explained_if_passages_are_searched(hybrid: Path) -> None:
    lines = denslice("search", hybrid, "archive", "--explain", "--passages", "-k", 1).stdout.splitlines()
    assert lines[0].endswith(LINUX)
    assert [line.split("\t")[1] for line in lines[1:]] == ["dense score", "archiv"]


def test_json_explains_the_parts_of_a_dense_score(hybrid: Path) -> None:
    (hit,) = map(json.loads, denslice("search", hybrid, "archive", "--explain", "--json", "-k", 1).stdout.splitlines())
    why = hit["explanation"]
    assert why["passage"] == 2
    assert why["best"] + why["mean"] == pytest.approx(hit["dense"], rel=1e-3)


def test_a_terminal_shows_the_place_dimly_and_marks_the_words_of_its_passage(index: Path) -> None:
    shown = on_terminal("search", index, "zeppelin", "archive")
    assert f"\x1b[2m   {LINUX}\x1b[0m" in shown
    assert "Unpack the \x1b[1;35mzeppelin\x1b[0m \x1b[1;35marchive\x1b[0m." in shown


def test_a_narrow_terminal_leaves_out_outer_headings(index: Path) -> None:
    shown = on_terminal("search", index, "archive", columns=40)
    assert "\x1b[2m   … › Linux, line 9, passage 2\x1b[0m" in shown


def test_a_short_snippet_still_has_the_words_that_are_near_each_other() -> None:
    text = "cat " + "filler " * 30 + "a dog chases a cat " + "filler " * 30
    assert (
        "dog chases a cat"
        in snippet(text, {"cat", "dog", "chase"}, text_analyzer({"analysis": 2, "language": "english"}), 50).plain
    )


# --- labels of places


def test_the_label_of_a_place_has_headings_and_the_line_or_the_page() -> None:
    text = "a\nb\nc\nd"
    assert place_label(1, Place(4, 5), text) == "line 3, passage 1"
    assert place_label(1, Place(4, 5, "Install › Linux"), text) == "Install › Linux, line 3, passage 1"
    assert place_label(1, Place(4, 5, "Install", 7), text) == "Install, page 7, passage 1"
    assert place_label(0, Place(0, 2), text) == "line 1, passage 0"


def test_a_document_of_one_passage_needs_no_label() -> None:
    assert place_label(0, Place(0, 4), "text") == ""
    assert place_label(1, Place(0, 4), "text") == "line 1, passage 1"  # repeats all of the passage before it


@pytest.mark.parametrize("width", range(0, 60, 3))
def test_a_label_keeps_line_and_passage_and_fits_if_they_do(width: int) -> None:
    label = place_label(4, Place(1, 2, "Outer › Middle › Innermost heading"), "abc", width)
    assert label.endswith("line 1, passage 4")
    assert len(label) <= max(width, len("line 1, passage 4"))


def test_a_label_moves_no_cursor() -> None:
    label = place_label(1, Place(1, 2, "Red \x1b[31m\r\n\u202e狐狸"), "abc")
    assert label == "Red [31m 狐狸, line 1, passage 1"


# --- show


def test_show_prints_title_metadata_and_text(index: Path) -> None:
    shown = denslice("show", index, "guide")
    assert shown.stdout == f"guide  The guide\nyear: 2020\n\n{GUIDE}\n"
    assert shown.stderr == ""


def test_show_prints_a_passage_and_its_neighbours_under_their_places(index: Path) -> None:
    shown = denslice("show", index, "guide", "--around", 2).stdout
    assert [line for line in shown.splitlines() if line.startswith("──")] == [
        "── Guide › Install, line 5, passage 1",
        f"── {LINUX}",
    ]
    assert "# Guide\n" not in shown
    assert denslice("show", index, "guide", "--around", 0).stdout.count("──") == 2
    assert denslice("show", index, "guide", "--around", 1).stdout.count("──") == 3


def test_show_prints_once_what_a_passage_repeats_of_the_one_before_it(tmp_path: Path) -> None:
    text = "".join(f"On day {number} the harbour lay quiet and nobody spoke of the storm. " for number in range(30))
    places = cut(text)
    assert len(places) == 2
    assert places[1].start < places[0].end
    Index.create(tmp_path / "my.idx", "bm25").add([{"id": "log", "text": text}])
    shown = denslice("show", tmp_path / "my.idx", "log", "--around", 1).stdout
    assert shown.count("On day ") == 30


def test_show_around_the_one_passage_of_a_short_document_is_all_of_it(index: Path) -> None:
    shown = denslice("show", index, "short", "--around", 0).stdout
    assert shown == "short\nyear: 2021\n\n── passage 0\nA zeppelin flies.\n"


def test_show_names_what_is_not_there(index: Path) -> None:
    assert_one_line(denslice("show", index, "nobody"), f"no document 'nobody' in {index}")
    for number in (3, -1):
        told = f"document 'guide' has no passage {number}; it has 0 to 2"
        assert_one_line(denslice("show", index, "guide", "--around", number), told)


def test_show_prints_json_that_can_be_indexed_or_passages(index: Path) -> None:
    document = json.loads(denslice("show", index, "guide", "--json").stdout)
    assert Doc.from_dict(document) == Index.open(index).get("guide")
    passages = [
        json.loads(line) for line in denslice("show", index, "guide", "--around", 2, "--json").stdout.splitlines()
    ]
    assert [(one["number"], one["line"]) for one in passages] == [(1, 5), (2, 9)]
    assert all(one["text"] == GUIDE[one["start"] : one["end"]] for one in passages)


def test_show_moves_no_cursor_and_keeps_lines_and_tabs(tmp_path: Path) -> None:
    folder = tmp_path / "my.idx"
    Index.create(folder, "bm25").add([{"id": "a", "title": "x\x1b[2J", "text": "1\x1b[31m\n\t2", "note": "\x1b\r!"}])
    assert denslice("show", folder, "a").stdout == "a  x [2J\nnote: !\n\n1 [31m\n\t2\n"
    shown = on_terminal("show", folder, "a", "--around", 0)
    assert "\x1b[2m── passage 0\x1b[0m" in shown
    assert "\x1b[31m" not in shown
    assert "\x1b[2J" not in shown


# --- ls


def test_ls_prints_each_document_on_a_line_in_the_order_of_adding(index: Path) -> None:
    listed = denslice("ls", index).stdout
    assert listed == f"guide\tThe guide\t3\t{len(GUIDE)}\nshort\t\t1\t17\n"


def test_ls_takes_a_filter(index: Path) -> None:
    listed = denslice("ls", index, "--where", '{"year": {"gt": 2020}}', "--json").stdout
    assert json.loads(listed) == {"id": "short", "title": "", "passages": 1, "characters": 17}
    assert_one_line(denslice("ls", index, "--where", "[]"), "where is list")
    none = denslice("ls", index, "--where", '{"yeer": 2020}')
    told = ["warning: no document has the field 'yeer', which where names", "no document matches"]
    assert (none.exit_code, none.stdout, none.stderr.splitlines()) == (0, "", told)


def test_ls_of_an_empty_index_says_so_on_stderr(tmp_path: Path) -> None:
    Index.create(tmp_path / "my.idx", "bm25")
    listed = denslice("ls", tmp_path / "my.idx")
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert listed.stderr == f"{tmp_path / 'my.idx'} has no documents\n"


@pytest.mark.parametrize("columns", [40, 100])
def test_ls_is_aligned_on_a_terminal(index: Path, columns: int) -> None:
    header, guide, short = on_terminal("ls", index, columns=columns).replace("\x1b[0m", "").splitlines()[:3]
    assert header == "\x1b[2mid     title      passages  characters"
    assert guide == f"guide  The guide         3       {len(GUIDE):,}"
    assert short == "short                    1          17"


def test_ls_shortens_titles_to_a_narrow_terminal_and_leaves_out_a_column_without_any(tmp_path: Path) -> None:
    titled, untitled = tmp_path / "titled.idx", tmp_path / "untitled.idx"
    Index.create(titled, "bm25").add([{"id": "a", "title": "狐狸 " * 20, "text": "x"}])
    Index.create(untitled, "bm25").add([{"id": "a long name of a file", "text": "x"}])
    assert "狐狸 狐狸 狐 … " in on_terminal("ls", titled, columns=40).splitlines()[1]
    assert "a long name … " not in on_terminal("ls", untitled, columns=60)
    assert "title" not in on_terminal("ls", untitled, columns=60)


def test_ls_ends_quietly_when_nobody_reads_on(index: Path) -> None:
    running = process("ls", index)
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    with running.stderr:
        assert running.stderr.read() == ""
    assert running.wait(timeout=200) == 1


@pytest.mark.parametrize("command", [("show", "a"), ("ls",)])
def test_a_cluster_is_told_how_it_is_searched(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    assert_one_line(denslice(command[0], tmp_path, *command[1:]), "is a cluster of shards and not one index")


def test_a_run_has_no_passages(index: Path, tmp_path: Path) -> None:
    refused = denslice("run", index, tmp_path / "queries.tsv", "--out", tmp_path / "run", "--passages")
    assert refused.exit_code == 2
    assert "No such option" in refused.stderr
