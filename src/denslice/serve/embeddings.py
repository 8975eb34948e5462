"""Dense vectors over HTTP, for clients of OpenAI: `POST /v1/embeddings` and `GET /v1/models`.

A model has two names: NAME reads texts as documents, and NAME:query as queries.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel, BeforeValidator, Field

from denslice.encoders.text_embedder import TextEmbedder, TextVectors
from denslice.errors import InputError
from denslice.serve.api import ErrorResponse, RequestBody, Text
from denslice.serve.auth import BEARER
from denslice.serve.background import in_thread
from denslice.serve.http_errors import HttpError, busy, timed_out
from denslice.serve.limits import Limits
from denslice.serve.searchable import Searchable

QUERY_SUFFIX = ":query"  # of the name of a model that reads texts as queries
FLOAT32 = "<f4"  # of base64: little-endian, as clients read it
TOKENS = (
    "token ids cannot be read, because every model has tokens of its own; send texts "
    "(OpenAIEmbeddings of LangChain does with check_embedding_ctx_length=False)"
)
NO_MODEL = HttpError(
    404, "model_not_found", "this index has no model of dense vectors; one whose encoder is mini has", "model"
)


def _texts_only(given: Any) -> Any:
    items = given if isinstance(given, list) else [given]
    if any(isinstance(one, int) or (isinstance(one, list) and one) for one in items):
        raise ValueError(TOKENS)
    if not items or "" in items:
        raise ValueError("there must be at least one text, and none may be empty")
    return given


NotEmpty = Annotated[Text, Field(min_length=1)]
Input = Annotated[NotEmpty | Annotated[list[NotEmpty], Field(min_length=1)], BeforeValidator(_texts_only)]


class EmbeddingsRequest(RequestBody):
    """The texts whose dense vectors are to be returned."""

    input: Input = Field(description="A text or a list of texts. More of a text than the model reads is cut off.")
    model: Text = Field(description="A name of `GET /v1/models`: NAME for documents, NAME:query for queries.")
    encoding_format: Literal["float", "base64"] = Field("float", description="base64: of float32, little-endian.")
    dimensions: int | None = Field(None, description="The dimensions of the model; vectors cannot be shortened.")
    user: Text | None = Field(None, description="Ignored.")

    @property
    def texts(self) -> list[str]:
        """The texts, of which there is at least one."""
        return [self.input] if isinstance(self.input, str) else self.input


class TextEmbedding(BaseModel):
    """The dense vector of one text."""

    object: Literal["embedding"] = "embedding"
    index: int = Field(description="The number of the text in the request, from 0.")
    embedding: list[float] | str


class TokenUsage(BaseModel):
    """How many word pieces the model read, with those that it adds to each text."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """A dense vector for each text, in the order of the request."""

    object: Literal["list"] = "list"
    data: list[TextEmbedding]
    model: str
    usage: TokenUsage


class ServedModel(BaseModel):
    """A model by which texts are embedded."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "denslice"


class ModelList(BaseModel):
    """The names of the model of the index; none if it has no dense vectors."""

    object: Literal["list"] = "list"
    data: list[ServedModel]


class Embeddings:
    """Embeds texts in one thread, which uses all cores for the texts of a request."""

    def __init__(self, searchable: Searchable, limits: Limits) -> None:
        self._searchable, self._limits = searchable, limits
        self._requests = asyncio.Semaphore(limits.max_waiting)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Have a thread while the server runs; wait for its last request."""
        self._thread = ThreadPoolExecutor(1, "denslice-embed")
        yield
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    def names(self) -> list[str]:
        """Return the names of the model: as it reads documents, and as it reads queries."""
        if self._searchable.embedder is None:
            return []
        name = PurePath(self._searchable.info().encoder).name  # of a folder, the rest is nobody's business
        return [name, f"{name}{QUERY_SUFFIX}"]

    async def embed(self, request: EmbeddingsRequest) -> EmbeddingsResponse:
        """Return the vectors of a request's texts; raise HttpError if it exceeds a limit or names another model."""
        embedder = self._embedder(request)
        work = embedder.embed_queries if request.model.endswith(QUERY_SUFFIX) else embedder.embed_docs
        if self._requests.locked():
            raise busy("too many requests of this kind are waiting; try again")
        try:
            async with self._requests, asyncio.timeout(self._limits.timeout):
                found = await in_thread(self._thread, partial(work, request.texts))
        except TimeoutError:
            raise timed_out(self._limits.timeout) from None
        except InputError as error:
            raise HttpError(400, "invalid", str(error), "input") from error
        return _response(request, found)

    def _embedder(self, request: EmbeddingsRequest) -> TextEmbedder:
        embedder, texts = self._searchable.embedder, len(request.texts)
        if embedder is None:
            raise NO_MODEL
        check_model(request.model, self.names())
        if request.dimensions not in (None, embedder.dimensions):
            told = f"{request.dimensions} dimensions; the vectors of this model have {embedder.dimensions}"
            raise HttpError(400, "wrong_dimensions", f"{told}, and cannot be shortened", "dimensions")
        if texts > (most := self._limits.max_queries):
            told = f"{texts:,} texts in one request; at most {most:,}. Send fewer at a time"
            raise HttpError(400, "too_many_queries", told, "input")
        return embedder


def check_model(name: str, names: Sequence[str]) -> None:
    """Raise HttpError if no model has this name."""
    if not names:
        raise NO_MODEL
    if name not in names:
        told = f"there is no model {name[:100]!r} here; there are {' and '.join(names)}"
        raise HttpError(404, "model_not_found", told, "model")


def _response(request: EmbeddingsRequest, found: TextVectors) -> EmbeddingsResponse:
    is_packed = request.encoding_format == "base64"
    vectors: list[Any] = [_packed(one) for one in found.vectors] if is_packed else found.vectors.tolist()
    data = [TextEmbedding.model_construct(index=at, embedding=one) for at, one in enumerate(vectors)]
    usage = TokenUsage(prompt_tokens=sum(found.pieces), total_tokens=sum(found.pieces))
    return EmbeddingsResponse.model_construct(data=data, model=request.model, usage=usage)


def _packed(vector: Any) -> str:
    return base64.b64encode(vector.astype(FLOAT32).tobytes()).decode()


def embedding_routes(searchable: Searchable, limits: Limits) -> APIRouter:
    """Return the routes for clients of OpenAI."""
    embeddings = Embeddings(searchable, limits)
    router = APIRouter(prefix="/v1", lifespan=embeddings.lifespan, dependencies=[Depends(BEARER)])

    @router.post("/embeddings", response_model=None, responses=_described(EmbeddingsResponse, 400, 401, 404, 413, 503))
    async def embed(body: EmbeddingsRequest) -> EmbeddingsResponse:
        """Return the dense vector of each text, as OpenAI does."""
        return await embeddings.embed(body)

    @router.get("/models", responses=_described(ModelList, 401))
    async def models() -> ModelList:
        """Return the names of the model of the index."""
        return ModelList(data=[ServedModel(id=name) for name in embeddings.names()])

    @router.get("/models/{name}", responses=_described(ServedModel, 401, 404))
    async def model(name: str) -> ServedModel:
        """Return one of them."""
        check_model(name, embeddings.names())
        return ServedModel(id=name)

    return router


def _described(answer: type[BaseModel], *errors: int) -> dict[int | str, dict[str, Any]]:
    """Describe the responses of a route for /openapi.json."""
    return {200: {"model": answer}, **{status: {"model": ErrorResponse} for status in errors}}
