"""The paper's tables and figure through the command line, on a tiny collection with tiny models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import tiny
from denslice.__main__ import app
from denslice.densify import densify, split_by_slice
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError, MissingExtraError
from denslice.evaluate.evaluation import as_run, evaluate
from denslice.gip import gip
from denslice.rankings import Ranking
from denslice.reproduce import definition, figure3, figure3_plot, measuring, paper_figures, table1, table2, table3
from denslice.reproduce.cells import Cells, Figures, IndexSetting, Setting, as_in_paper, whole, with_full_query
from denslice.reproduce.collection import Collection, read_collection
from denslice.reproduce.collided_terms import term_classes
from denslice.reproduce.definition import NotTheDefinitionError
from denslice.reproduce.encoded_rows import read_all
from denslice.reproduce.encoding import TOKENS, Encodings, NamedModel, encode
from denslice.reproduce.measuring import MEASURES, Measuring, build
from denslice.reproduce.ranked_vectors import ModelVectors
from denslice.slicing import Slicing
from denslice.vectors import Encoded, lexical_csr

HEADS = {
    "splade": ModelConfig(lexical="splade", max_length=32, query_length=32),
    "cls": ModelConfig(dense="cls", max_length=32, query_length=32),
    "joint": ModelConfig(lexical="splade", dense="cls", lam=0.5, max_length=32, query_length=32),
}


def denslice(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def no_progress(count: int) -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_forced_to_disk() -> Iterator[None]:
    """Forcing files to disk would be most of the time these tests take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the collection, a work folder in which every model has encoded it, and no model any more."""
    folder = tmp_path_factory.mktemp("reproduce")
    tiny.make_folder(folder / "tiny")
    backbone = tiny.make_backbone(folder / "backbone")
    collection = read_collection(str(folder / "tiny"), "dev")
    for name, config in HEADS.items():
        BiEncoder.load(backbone, config).save(folder / "models" / name)
        encode(collection, NamedModel(name, str(folder / "models" / name)), folder / "work")
    (folder / "models").rename(folder / "gone")
    return folder


def reproduced(place: Path, what: str, *options: object) -> Result:
    """A command over all models, whose folders are gone."""
    models = [part for name in ("bm25", *HEADS) for part in ("--models", f"{name}={name}" if name != "bm25" else name)]
    data = ["--data", place / "tiny", "--split", "dev", "--work", place / "work"]
    return denslice("reproduce", what, *data, *models, "--slices", "8,4", *options)


def made(place: Path, what: str, *options: object) -> dict[str, Any]:
    """The JSON that the command wrote."""
    result = reproduced(place, what, "--to", place / "out", *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() in shown(place, what)
    written: dict[str, Any] = json.loads((place / "out" / f"{what}.json").read_text())
    return written


def shown(place: Path, what: str) -> str:
    """Return the part of the page that belongs to the command."""
    return (
        (place / "out" / "tables.md").read_text().partition(f"<!-- table:{what} -->")[2].partition("<!-- /table -->")[0]
    )


def rows(place: Path, what: str) -> list[list[str]]:
    """Return the table that the command put into the page, with its head."""
    found = [line for line in shown(place, what).splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found]


@pytest.fixture
def collection(place: Path) -> Collection:
    return read_collection(str(place / "tiny"), "dev")


def encodings(place: Path, collection: Collection, name: str) -> Encodings:
    return encode(collection, NamedModel(name, name), place / "work")


# --- the tables


def test_table_1_has_every_model_with_all_weights_and_with_each_number_of_slices(place: Path) -> None:
    told = made(place, "table1")
    assert [(cell["model"], cell["slices"], cell["slicing"], cell["query"]) for cell in told["cells"]] == [
        (model, *way)
        for model in ("bm25", "splade", "joint")
        for way in [
            (None, "stride", "full"),
            (8, "stride", "sliced"),
            (8, "learned", "full"),
            (4, "stride", "sliced"),
            (4, "learned", "full"),
        ]
    ]
    assert all(set(cell["means"]) == set(MEASURES) for cell in told["cells"])
    head, *table = rows(place, "table1")
    assert len(table) == 15
    assert {len(row) for row in table} == {len(head)}
    assert told["cells"][0]["means"]["RR@10"] == 1.0  # bm25 finds every one of these
    assert [cell["lost"] for cell in told["cells"] if cell["slices"] is None] == [0.0, 0.0, 0.0]


def test_table_2_has_dense_lexical_and_joint_models_with_size_and_time(place: Path) -> None:
    told = made(place, "table2")
    kinds = [(cell["model"], cell["mode"], cell["slices"], cell["theta"], cell["engine"]) for cell in told["cells"]]
    assert kinds[:2] == [("cls", "dense", None, 0.0, "denslice"), ("cls", "dense", None, 0.0, "faiss")]
    assert kinds[-4:] == [("joint", "hybrid", m, theta, "denslice") for m in (8, 4) for theta in (0.1, 0.0)]
    assert len(kinds) == len(set(kinds)) == 4 + 3 * 4 + 4
    assert all(cell["bytes"] > 0 and 0 < cell["p50_ms"] <= cell["p95_ms"] for cell in told["cells"])
    by_engine = [cell["means"] for cell in told["cells"][:2]]
    assert by_engine[0] == pytest.approx(by_engine[1])
    assert "its dense part alone" in shown(place, "table2")


def test_table_2_goes_without_faiss_and_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("denslice.reproduce.flat.is_there", lambda: False)
    told = made(place, "table2")
    assert {cell["engine"] for cell in told["cells"]} == {"denslice"}
    assert "pip install faiss-cpu" in shown(place, "table2")


def test_table_3_has_four_slicings_with_the_query_sliced_and_full(place: Path) -> None:
    told = made(place, "table3", "--slices", "6")
    head, *table = rows(place, "table3")
    assert [row[2:4] for row in table[:8]] == [
        [kind, query] for query in ("sliced", "full") for kind in table3.SLICINGS
    ]
    assert len(table) == 3 * 8
    assert {cell["seed"] for cell in told["cells"] if cell["slicing"] == "random"} == {0, 1, 2}
    assert head[-3] == "weights lost"


def test_figure_3_is_drawn_with_text_as_text(place: Path) -> None:
    told = made(place, "figure3", "--theta", "0,0.1,0.4", "--candidates", "paper,1000,2000")
    thetas = {(cell["theta"], cell["rerank"]) for cell in told["cells"]}
    assert thetas == {(theta, rerank) for theta in (0.0, 0.1, 0.4) for rerank in (True, False)}
    assert {cell["candidates"] for cell in told["cells"] if cell["rerank"] and cell["theta"]} == {1, 1000, 2000}
    for model in ("bm25", "splade", "joint"):
        drawing = (place / "out" / f"figure3-{model}.svg").read_text()
        for text in ("MRR@10", "R@1000", "2,000 reranked", "1 reranked", "θ = 0.4", f"{model} on tiny, 8 slices"):
            assert f">{text}</text>" in drawing
        assert f"(figure3-{model}.svg)" in shown(place, "figure3")
    assert "2,000 candidates are all of them" in shown(place, "figure3")
    few = [row for row in rows(place, "figure3") if row[3] == "1" and row[1] == "0.4"]
    assert [row[5] for row in few] == ["–"] * 3  # R@1000 of one document would say nothing


def test_the_page_has_the_tables_in_the_papers_order_and_keeps_what_stands_between(place: Path, tmp_path: Path) -> None:
    for what in ("table3", "table1"):
        done = reproduced(place, what, "--to", tmp_path, "--slices", "6")
        assert done.exit_code == 0, done.output
        page = (tmp_path / "tables.md").read_text().replace("on tiny\n", "on tiny\n\nMine.\n")
        (tmp_path / "tables.md").write_text(page)
    assert [line for line in page.splitlines() if line.startswith(("#", "Mine"))] == [
        "# The paper's tables on tiny",
        "Mine.",
        "Mine.",
        f"## {table1.TITLE}",
        f"## {table3.TITLE}",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table1.json", "table3.json", "tables.md"]


def test_the_json_says_what_was_measured_by_which_command(place: Path) -> None:
    told = made(place, "table1")
    assert told["command"] == (
        f"denslice reproduce table1 --data {place.name}/tiny --split dev --models bm25 --models splade "
        "--models cls --models joint --slices 8,4 --work work"
    )
    assert told["collection"]["docs"] == 6
    assert told["models"]["joint"]["lam"] == 0.5
    assert {"commit", "date", "hardware", "versions"} <= set(told)
    assert str(place) not in json.dumps(told)


# --- the paper's figures


def test_the_papers_figures_stand_beside_its_own_settings_only(place: Path) -> None:
    made(place, "table1", "--slices", "768,8")
    _, *table = rows(place, "table1")
    published = {tuple(row[:3]): row[-3:] for row in table}
    assert published["splade", "768", "stride"] == ["0.343", "0.957", ""]  # all weights: another model
    assert published["splade", "768", "learned"] == ["", "", ""]
    assert published["splade", "8", "stride"] == ["", "", ""]
    assert published["bm25", "768", "stride"] == ["", "", ""]
    assert published["joint", "768", "stride"] == ["", "", ""]


def test_the_papers_joint_figures_stand_beside_models_of_the_same_width_only(
    place: Path, collection: Collection
) -> None:
    setting = Setting(IndexSetting("joint", "hybrid", 256), "sliced", 0.1, candidates_from="lexical")
    narrow = encodings(place, collection, "joint")
    as_wide = replace(narrow, facts=replace(narrow.facts, dimensions=256))
    assert table2.published(as_wide, setting)[0] == "0.348"
    assert table2.published(narrow, setting) == ["", "", ""]


def test_the_papers_losses_are_what_its_text_says() -> None:
    for heads in (paper_figures.UNICOIL, paper_figures.SPLADE):
        kept = [paper_figures.TABLE1[heads, m].rr / paper_figures.TABLE1[heads, None].rr for m in (768, 256, 128)]
        assert all(share > least for share, least in zip(kept, (0.99, 0.97, 0.96), strict=True))


# --- kept cells


def test_a_run_that_stopped_goes_on_with_what_is_missing(place: Path, collection: Collection, tmp_path: Path) -> None:
    model = encodings(place, collection, "splade")
    settings = [whole(model), as_in_paper(model, 4), with_full_query(model, 4)]
    done: list[int] = []

    def interrupt(count: int) -> None:
        done.append(count)
        if len(done) == 2:
            raise KeyboardInterrupt

    measuring = Measuring(collection, [model], tmp_path)
    with pytest.raises(KeyboardInterrupt):
        measuring.figures(settings, interrupt)
    assert len(measuring.missing(settings)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cells"]  # no index is left behind
    found = Measuring(collection, [model], tmp_path).figures(settings, interrupt)
    assert done == [1, 1, 1]
    assert list(found) == settings


def test_what_is_measured_is_not_measured_again_unless_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(place, "table1")
    monkeypatch.setattr(measuring, "build", None)  # whoever builds an index now fails
    again = made(place, "table1")
    assert again["cells"] == first["cells"]
    failed = reproduced(place, "table1", "--again")
    assert isinstance(failed.exception, TypeError)


def test_figures_of_another_model_collection_or_machine_are_not_taken(tmp_path: Path) -> None:
    figures = Figures({"RR@10": 0.5}, {}, 1.0, 2.0, 3, 0.0, "abc", "today")
    setting = Setting(IndexSetting("splade", "lexical", 768))
    cells = Cells(tmp_path, {"collection": "one", "hardware": "this"})
    cells.put(setting, "fingerprint", figures)
    assert cells.get(setting, "fingerprint") == figures
    assert cells.get(replace(setting, index=replace(setting.index, model="renamed")), "fingerprint") == figures
    assert cells.get(setting, "another") is None
    assert cells.get(replace(setting, theta=0.1), "fingerprint") is None
    assert Cells(tmp_path, {"collection": "one", "hardware": "other"}).get(setting, "fingerprint") is None


# --- figures are what the definition gives


@pytest.mark.parametrize("name", ["bm25", "splade"])
def test_all_weights_in_an_index_are_the_plain_product_of_the_vectors(
    place: Path, collection: Collection, name: str, tmp_path: Path
) -> None:
    model = encodings(place, collection, name)
    found = Measuring(collection, [model], tmp_path).figures([whole(model)], no_progress)[whole(model)]
    docs = read_all(model.docs_folder, model.facts.vocab)
    scores = (model.queries().lexical @ docs.lexical.T).toarray()  # (queries, docs)
    assert found.means == pytest.approx(measured(collection, scores))


@pytest.mark.parametrize("query", ["sliced", "full"])
@pytest.mark.parametrize("mode", ["lexical", "hybrid", "dense"])
def test_a_cell_is_what_the_definition_gives(
    place: Path, collection: Collection, mode: str, query: str, tmp_path: Path
) -> None:
    model = encodings(place, collection, "joint")
    setting = Setting(IndexSetting("joint", mode, 4), query)
    found = Measuring(collection, [model], tmp_path).figures([setting], no_progress)[setting]
    docs, queries = read_all(model.docs_folder, model.facts.vocab), model.queries()
    assert docs.dense is not None
    assert queries.dense is not None
    slicing = Slicing.stride(model.facts.vocab, 4)
    kept, _ = split_by_slice(docs.lexical, slicing)
    asked = split_by_slice(queries.lexical, slicing)[0] if query == "sliced" else queries.lexical
    words, near = (asked @ kept.T).toarray(), queries.dense @ docs.dense.T
    scores = {"lexical": words, "dense": near, "hybrid": words + 0.5 * near}[mode]
    assert found.means == pytest.approx(measured(collection, scores))


def measured(collection: Collection, scores: np.ndarray) -> dict[str, float]:
    rankings = []
    for query, row in zip(collection.queries, scores, strict=True):
        best = sorted(zip(-row, collection.doc_ids, strict=True))
        rankings.append(Ranking(query.id, tuple(id for _, id in best), tuple(-score for score, _ in best)))
    return evaluate(as_run(rankings), collection.qrels, MEASURES).means


def test_a_search_that_is_not_the_definition_is_never_measured() -> None:
    setting = Setting(IndexSetting("m", "lexical", 4))
    defined = np.array([[2.0, 1.0, 0.0]], dtype=np.float32)
    definition.check([Ranking("q", ("a", "b"), (2.0, 1.0))], defined, ["a", "b", "c"], setting)
    with pytest.raises(NotTheDefinitionError, match=r"'b' has 1\.5, by definition 1"):
        definition.check([Ranking("q", ("a", "b"), (2.0, 1.5))], defined, ["a", "b", "c"], setting)
    with pytest.raises(NotTheDefinitionError, match="'a' is missing"):
        definition.check([Ranking("q", ("b",), (1.0,))], defined, ["a", "b", "c"], setting)
    in_two_stages = replace(setting, theta=0.1)
    definition.check([Ranking("q", ("b",), (1.0,))], defined, ["a", "b", "c"], in_two_stages)


def test_an_index_is_built_a_segment_at_a_time(
    place: Path, collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = encodings(place, collection, "joint")
    parts = list(model.doc_parts())
    halves = [Encoded(part.lexical[at : at + 3], part.dense[at : at + 3]) for part in parts for at in (0, 3)]  # type: ignore[index]
    monkeypatch.setattr(Encodings, "doc_parts", lambda self: iter(halves))
    monkeypatch.setattr(measuring, "SEGMENT_DOCS", 3)
    view = build(tmp_path / "index", model, collection.doc_ids, IndexSetting("joint", "hybrid", 4))
    assert [segment.rows for segment in view.snapshot.segments] == [3, 3]
    assert [doc.id for doc in view.docs()] == collection.doc_ids


def test_random_slicings_are_means_over_seeds() -> None:
    settings = [Setting(IndexSetting("m", "lexical", 4, "random", seed), "sliced") for seed in table3.SEEDS]
    results = {
        setting: Figures({"RR@10": seed / 2}, {"RR@10": {"q": seed / 2}}, 1.0, 1.0, 1, seed / 4, "", "")
        for seed, setting in enumerate(settings)
    }
    found = table3._mean_over_seeds(settings[0], results)
    assert (found.means, found.per_query, found.lost) == ({"RR@10": 0.5}, {"RR@10": {"q": 0.5}}, 0.25)


# --- slips


@pytest.mark.parametrize(
    ("what", "options", "problem"),
    [
        ("table1", ["--slices", "many"], "'many' is not a list of numbers with commas between"),
        ("table1", ["--slices", "-1"], "numbers must be 0 or more"),
        ("figure3", [], "figure3 draws plots: name a folder for them with --to"),
    ],
)
def test_options_that_cannot_be_are_told_in_one_line(place: Path, what: str, options: list[str], problem: str) -> None:
    result = reproduced(place, what, *options)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert problem in result.stderr


def test_a_table_of_words_needs_a_model_that_weighs_them(place: Path) -> None:
    data = ["--data", place / "tiny", "--split", "dev", "--work", place / "work"]
    result = denslice("reproduce", "table1", *data, "--models", "cls=cls")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "table1 needs a model with a lexical part, and none was named" in result.stderr


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"drawing the figure needs .*denslice\[plots\]"):
        figure3_plot.drawn("title", [], [])


def test_labels_that_would_cover_one_another_are_left_out() -> None:
    points = [figure3_plot.Point(1.0, 0.5, 0.9, f"label {i}") for i in range(5)]
    drawing = figure3_plot.drawn("title", [figure3_plot.Line("line", points)], []).decode()
    assert drawing.count(">label ") == 4  # one above and one below the point, in two panels


# --- collisions


def test_collisions_are_shares_of_the_relevant_documents_scores(place: Path, collection: Collection) -> None:
    told = made(place, "collisions")
    assert len(told["rows"]) == len(rows(place, "collisions")) - 1 == 3 * 4
    assert "(collisions.svg)" in shown(place, "collisions")
    model = encodings(place, collection, "splade")
    (sliced,) = (one for one in told["rows"] if (one["model"], one["slices"], one["query"]) == ("splade", 4, "sliced"))
    docs = Encoded.joined(list(model.doc_parts())).lexical
    slicing = Slicing.stride(model.facts.vocab, 4, model.facts.skip)
    lost = []
    for query, asked in zip(collection.queries, model.queries().lexical.toarray(), strict=True):
        scores = docs.toarray() @ asked
        few = gip(densify(asked[None], slicing), densify(docs, slicing))[0]
        relevant = [collection.doc_ids.index(doc) for doc in collection.qrels[query.id]]
        best = max(relevant, key=lambda row: scores[row])
        lost.append(1 - few[best] / scores[best])
    assert sliced["score"] == pytest.approx(np.mean(lost), abs=1e-5)
    assert 0 < sliced["weights"] < 1


def test_mrr_of_collisions_is_that_of_the_index(place: Path) -> None:
    by_index = {(c["model"], c["slices"], c["query"]): c["means"]["RR@10"] for c in made(place, "table1")["cells"]}
    for one in made(place, "collisions")["rows"]:
        assert one["rr"] == pytest.approx(by_index[one["model"], one["slices"], one["query"]])
        assert one["rr_all"] == pytest.approx(by_index[one["model"], None, "full"])


def test_a_query_is_counted_at_eight_if_theta_would_leave_it_fewer_weights(
    place: Path, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = encodings(place, collection, "bm25")
    queries = [[3.0, 2.0, 1.0], [3.0, 3.0, 0.0], [1.0, 0.0, 0.0]]
    vectors = Encoded(lexical_csr(np.array(queries, dtype=np.float32)))
    monkeypatch.setattr(Encodings, "queries", lambda self: vectors)
    model = replace(model, facts=replace(model.facts, vocab=3, skip=0))
    monkeypatch.setattr(figure3, "STRONGEST", 2)
    assert [figure3.at_eight(model, 3, theta) for theta in (0.5, 1.0, 2.0, 5.0)] == [0, 1, 2, 3]


# --- terms


def test_terms_are_counted_by_their_share_of_the_score() -> None:
    before = lexical_csr(np.array([[6.0, 3.0, 1.0], [0.0, 5.0, 5.0]], dtype=np.float32))
    after = lexical_csr(np.array([[6.0, 0.0, 0.0], [0.0, 5.0, 0.0]], dtype=np.float32))
    heavy, middle, *light = term_classes(before, after)
    assert (heavy.terms, heavy.lost, middle.terms, middle.lost) == (4, 2, 1, 1)
    assert (heavy.score_lost, middle.score_lost) == pytest.approx((8 / 9, 1 / 9))
    assert [(one.terms, one.lost, one.score_lost) for one in light] == [(0, 0, 0.0)] * 2


def test_a_lost_term_is_named_with_the_token_that_has_its_place(place: Path, collection: Collection) -> None:
    told = made(place, "terms", "--slices", "2")
    texts = {query.text: query.id for query in collection.queries}
    for one in told["rows"]:
        assert sum(some["lost"] for some in one["classes"]) <= sum(some["terms"] for some in one["classes"])
    assert [(one["model"], one["idf_in_docs"] is not None) for one in told["rows"]] == [
        ("bm25", True),
        ("splade", False),
        ("joint", False),
    ]
    [found] = (one for one in told["rows"] if (one["model"], one["slices"]) == ("bm25", 2))
    model = encodings(place, collection, "bm25")
    tokens, slicing = model.tokens(), Slicing.stride(model.facts.vocab, 2, 0)
    docs = Encoded.joined(list(model.doc_parts())).lexical.toarray()
    assert found["examples"]
    for example in found["examples"]:
        before, after = example["reciprocal"]
        assert before > after
        number = [query.text for query in collection.queries].index(example["text"])
        relevant = [collection.doc_ids.index(doc) for doc in collection.qrels[texts[example["text"]]]]
        asked = model.queries().lexical.toarray()[number]
        best = docs[max(relevant, key=lambda row: docs[row] @ asked)]
        for term in example["lost"]:
            token, kept = tokens.index(term["token"]), tokens.index(term["kept"])
            assert slicing.slice_of[token] == slicing.slice_of[kept]
            assert term["share"] == pytest.approx(asked[token] * best[token] / (asked @ best), abs=1e-3)
            weights = best if term["by"] == "document" else asked
            assert weights[kept] >= weights[token] > 0
        shares = [term["share"] for term in example["lost"]]
        assert shares == sorted(shares, reverse=True)
    assert f"**{found['examples'][0]['lost'][0]['token']}**" in shown(place, "terms")


def test_idf_in_the_documents_changes_no_score_but_what_their_slices_keep(place: Path, collection: Collection) -> None:
    model = encodings(place, collection, "bm25")
    vectors = ModelVectors(collection, model)
    weighed = vectors.with_idf_in_docs()
    assert weighed is not None
    scores = [(one.queries @ one.docs.T).toarray() for one in (vectors, weighed)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    kept = [one.sliced(as_in_paper(model, 2)).docs for one in (vectors, weighed)]
    assert (kept[0].indices != kept[1].indices).any()
    ranked = [one.sliced(as_in_paper(model, 2)).ranked.reciprocal for one in (vectors, weighed)]
    [told] = (one for one in made(place, "terms", "--slices", "2")["rows"] if one["model"] == "bm25")
    assert told["idf_in_docs"]["gain"] == pytest.approx(ranked[1].mean() - ranked[0].mean(), abs=1e-6)
    assert told["idf_in_docs"]["rr_lost"] == pytest.approx(1 - ranked[1].mean() / weighed.ranked.reciprocal.mean())
    assert ModelVectors(collection, encodings(place, collection, "splade")).with_idf_in_docs() is None


def test_damaged_names_of_tokens_are_one_line_and_missing_ones_are_numbers(place: Path, collection: Collection) -> None:
    model = encodings(place, collection, "splade")
    names, path = model.tokens(), model.docs_folder / TOKENS
    assert len(names) == model.facts.vocab
    kept = path.read_bytes()
    path.write_text('["a')
    with pytest.raises(InputError, match=r"tokens\.json: damaged .*; remove .* and encode again"):
        model.tokens()
    path.unlink()
    assert model.tokens()[:2] == ["#0", "#1"]
    path.write_bytes(kept)
