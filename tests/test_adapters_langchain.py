"""The LangChain adapter: the standard tests that LangChain has for integrations, and what they leave open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapted import BOOK, CATS, NOT_A_K, NOTE, check_passages, index_of

pytest.importorskip("langchain_core", reason="the LangChain adapter needs the extra langchain")
pytest.importorskip("langchain_tests", reason="the standard tests of LangChain are in the package langchain-tests")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager
from langchain_core.indexing import index as index_documents
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from denslice import Index, InputError
from denslice.adapters.langchain import DensliceRetriever, DensliceVectorStore

DOCS = [
    Document(id="cats", page_content="Cats sleep all day.", metadata={"title": "On cats", "year": 2020}),
    Document(id="dogs", page_content="Dogs chase cats.", metadata={"year": 2021, "tags": ["fast", "loud"]}),
    Document(id="owls", page_content="Owls and cats see at night."),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An empty index of the default encoder: by words alone, "bar" does not find "foo", as the tests expect."""
    return Index.create(tmp_path_factory.mktemp("langchain") / "h.idx")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> DensliceVectorStore:
    folder = tmp_path_factory.mktemp("langchain") / "s.idx"
    return DensliceVectorStore.from_documents(DOCS, path=folder, encoder="bm25")


@pytest.mark.anyio
class TestStandardVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, hybrid: Index) -> Iterator[VectorStore]:
        store = DensliceVectorStore(hybrid)
        yield store
        store.delete()


@pytest.mark.anyio
class TestStandardRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _filled(self, store: DensliceVectorStore) -> None:
        self.index = store.index

    @property
    def retriever_constructor(self) -> type[DensliceRetriever]:
        return DensliceRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return "cats"


# --- the vector store


def test_a_vector_store_returns_documents_as_they_were_added(store: DensliceVectorStore) -> None:
    assert store.get_by_ids(["owls", "cats", "none", "dogs", "cats"]) == [DOCS[2], DOCS[0], DOCS[1]]
    found = store.similarity_search_with_score("sleeping cats", k=3)
    hits = store.index.search("sleeping cats", 3)
    assert [(document.id, score) for document, score in found] == list(zip(hits.ids, hits.scores, strict=True))
    assert {str(document.id): document for document, _ in found} == {str(document.id): document for document in DOCS}


def test_the_title_in_the_metadata_is_searched_as_a_title(store: DensliceVectorStore) -> None:
    [hit] = store.index.search("title:cats")
    assert (hit.id, hit.title, dict(hit.meta)) == ("cats", "On cats", {"year": 2020})


def test_a_vector_store_takes_filters_and_the_options_of_a_search(store: DensliceVectorStore) -> None:
    assert [document.id for document in store.similarity_search("cats", filter={"year": {"gte": 2021}})] == ["dogs"]
    assert [document.id for document in store.similarity_search("cats", filter={"tags": "loud"})] == ["dogs"]
    assert [document.id for document in store.similarity_search("cats", filter={"title": "On cats"})] == ["cats"]
    [(_, best), *others] = store.similarity_search_with_score("sleep cats")
    assert others
    assert len(store.similarity_search("sleep cats", min_score=best, mode="lexical")) == 1
    with pytest.raises(InputError, match="mode must be one of"):
        store.similarity_search("cats", mode="fast")


def test_a_vector_store_is_a_retriever_with_a_filter(store: DensliceVectorStore) -> None:
    retriever = store.as_retriever(search_kwargs={"k": 2, "filter": {"year": 2020}})
    assert [document.id for document in retriever.invoke("cats")] == ["cats"]


def test_texts_become_a_new_index_with_random_ids(tmp_path: Path) -> None:
    metadatas: list[dict[str, Any]] = [{"id": 7, "title": ""}, {"title": ["a", "list"]}]
    made = DensliceVectorStore.from_texts(
        ["One day.", "Two nights."], metadatas=metadatas, path=tmp_path / "t.idx", encoder="bm25", filterable=["title"]
    )
    assert {document.page_content: document.metadata for document in made.similarity_search("day nights")} == {
        "One day.": metadatas[0],
        "Two nights.": metadatas[1],
    }
    assert made.index.info().filterable == ("title",)
    assert len({doc.id for doc in Index.open(tmp_path / "t.idx").docs()}) == 2


def test_what_cannot_be_stored_is_told_and_no_index_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="embedding is DeterministicFakeEmbedding, expected None"):
        DensliceVectorStore.from_texts(["a"], DeterministicFakeEmbedding(size=2), path=tmp_path / "e.idx")
    with pytest.raises(InputError, match="2 documents and 1 ids"):
        DensliceVectorStore.from_texts(["a", "b"], ids=["1"], path=tmp_path / "e.idx")
    with pytest.raises(InputError, match=r"document 0 .*object, which JSON cannot hold"):
        DensliceVectorStore.from_texts(["a"], metadatas=[{"x": object()}], path=tmp_path / "e.idx")
    assert not (tmp_path / "e.idx").exists()


def test_langchains_indexing_keeps_a_vector_store_as_its_sources_are(tmp_path: Path) -> None:
    store = DensliceVectorStore(Index.create(tmp_path / "i.idx", "bm25"))
    manager = InMemoryRecordManager("cats")
    manager.create_schema()
    sources = [Document(text, metadata={"source": text}) for text in ("one cat", "two cats", "three cats")]

    def synced(documents: list[Document]) -> tuple[int, int, int]:
        done = index_documents(
            documents, manager, store, cleanup="full", source_id_key="source", key_encoder="sha256", batch_size=2
        )
        return done["num_added"], done["num_skipped"], done["num_deleted"]

    assert synced(sources) == (3, 0, 0)
    assert synced(sources[1:]) == (0, 2, 1)
    assert {document.page_content for document in store.similarity_search("cats")} == {"two cats", "three cats"}
    store.delete()
    assert len(store.index) == 0


# --- the retriever


@pytest.mark.anyio
async def test_one_query_of_a_retriever_may_have_its_own_k_and_filter(store: DensliceVectorStore) -> None:
    retriever = DensliceRetriever(index=store.index, where={"year": 2020})
    assert [document.id for document in retriever.invoke("cats")] == ["cats"]
    assert [document.id for document in retriever.invoke("cats", where={"year": 2021})] == ["dogs"]
    assert [document.id for document in await retriever.ainvoke("cats", k=1, where={})] == [
        store.index.search("cats", 1).ids[0]
    ]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return index_of(CATS, tmp_path_factory.mktemp("langchain") / "c.idx")


def test_a_retriever_finds_what_the_index_finds(index: Index) -> None:
    retriever = DensliceRetriever(index=index, k=2)
    hits = list(index.search("sleeping cats", 2))
    found = retriever.invoke("sleeping cats")
    assert [(doc.id, doc.page_content) for doc in found] == [(hit.id, hit.text) for hit in hits]
    assert found[0].metadata["score"] == hits[0].score
    assert found[0].metadata["year"] == 2020
    assert found[0].metadata["title"] == "On cats"
    filtered = DensliceRetriever(index=index, where={"lang": "de"})
    assert [doc.id for doc in filtered.invoke("cats")] == ["dogs"]
    ids: RunnableLambda[Any, Any] = RunnableLambda(lambda docs: [doc.id for doc in docs])
    chain = retriever | ids
    assert chain.batch(["cats", "owls"]) == [list(index.search(query, 2).ids) for query in ("cats", "owls")]


@pytest.mark.parametrize("k", NOT_A_K, ids=repr)
def test_a_retriever_refuses_what_is_no_number_of_documents(index: Index, k: Any) -> None:
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        DensliceRetriever(index=index, k=k)
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        DensliceRetriever(index=index).invoke("cats", k=k)
    with pytest.raises(InputError, match="theta must be a number of 0 or more, not True"):
        DensliceRetriever(index=index, theta=True)
    with pytest.raises(InputError, match="lam must be a number of 0 or more, not nan"):
        DensliceRetriever(index=index, lam=float("nan"))


def test_a_retriever_takes_numpys_numbers_and_dates(index: Index) -> None:
    where = {"or": [{"year": np.int64(2020)}, {"lang": {"gt": date(2020, 1, 1)}}]}
    numbers: dict[str, Any] = {"k": np.int64(2), "lam": np.float32(1)}
    retriever = DensliceRetriever(index=index, where=where, **numbers)
    assert [doc.id for doc in retriever.invoke("cats")] == list(index.search("cats", 2).ids)
    with pytest.raises(InputError, match="which JSON cannot hold"):
        DensliceRetriever(index=index, where={"year": float("nan")}).invoke("cats")


def test_a_retriever_returns_passages_with_their_places(tmp_path: Path) -> None:
    library = index_of([BOOK, NOTE], tmp_path / "l.idx")
    found = DensliceRetriever(index=library).invoke("cat sofa")
    hits = list(library.search("cat sofa", group=False))
    assert [(doc.page_content, doc.metadata["score"]) for doc in found] == [(hit.text, hit.score) for hit in hits]
    check_passages({str(doc.id): (doc.page_content, doc.metadata) for doc in found})
    [book, note] = DensliceRetriever(index=library, group=True).invoke("cat sofa")
    assert {book.id, note.id} == {"book", "note"}
    assert BOOK["text"] in (book.page_content, note.page_content)
