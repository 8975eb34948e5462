"""An index of an earlier edition of the embedded model is searched by words until it is upgraded."""

from pathlib import Path

import pytest

from command_line import denslice
from denslice import Index, InputError, open_index
from denslice.index.upgrade import upgrade
from denslice.store import manifest as manifests
from denslice.store.folder import Folder

DOCS = [
    {"id": "fox", "text": "Foxes sleep by day and hunt at night."},
    {"id": "pump", "text": "A heat pump moves heat from a cold place to a warm one."},
    {"id": "wing", "text": "The wing of an aircraft meets the boundary layer."},
]


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """An index that other weights of the model made."""
    with Index.create(tmp_path / "my.idx") as index:
        index.add(DOCS)
    manifest = manifests.read(Folder(tmp_path / "my.idx"))
    options = {**manifest.encoder_options, "fingerprint": "of an earlier edition"}
    manifests.write(tmp_path / "my.idx", manifest.next_generation(encoder_options=options))
    return tmp_path / "my.idx"


def test_words_find_documents_and_dense_vectors_are_not_compared(earlier: Path) -> None:
    with open_index(earlier) as index:
        (hit,) = index.search("how do foxes sleep")
        assert (hit.id, hit.dense) == ("fox", 0.0)
        assert index.explain("how do foxes sleep", "fox").dense == 0.0
        assert index.info().earlier_model
        with pytest.raises(InputError, match="mode dense needs dense vectors"):
            index.search("foxes", mode="dense")


def test_documents_cannot_be_added_to_vectors_of_another_edition(earlier: Path) -> None:
    with open_index(earlier) as index, pytest.raises(InputError, match=r"earlier edition .* run `denslice upgrade`"):
        index.add([{"id": "new", "text": "Owls hunt too."}])
    with open_index(earlier) as index:
        assert len(index) == 3
        assert index.delete(["wing"]) == 1


def test_an_upgrade_encodes_the_texts_again(earlier: Path) -> None:
    assert upgrade(earlier).reason == "encoded again with the words and the embedded model as they are now"
    with open_index(earlier) as index, Index.create(earlier.with_name("new.idx")) as new:
        new.add(DOCS)
        assert not index.info().earlier_model
        hits, expected = index.search("animals at rest"), new.search("animals at rest")
        assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in expected]
        assert hits[0].dense > 0


def test_the_command_line_says_that_words_alone_decide(earlier: Path) -> None:
    found = denslice("search", earlier, "foxes")
    assert "fox" in found.stdout
    assert (
        f"earlier edition of the embedded model: words alone decide; run `denslice upgrade {earlier}`" in found.stderr
    )
    assert "earlier model    yes" in denslice("info", earlier).stdout
