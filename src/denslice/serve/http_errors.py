"""Answers that say no: one shape for all, {"error": {"code", "message"}}, and never more than the caller may know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from denslice.encoders.analysis import well_formed
from denslice.records import DEEPEST_META

RETRY_AFTER = 1  # seconds
DEEPEST_BODY = DEEPEST_META + 3  # the body, its list and the document are around the metadata
TOO_DEEP = f"objects and lists are nested deeper than {DEEPEST_BODY} levels"
SHOWN = 200  # characters of a message that may hold the caller's own words
TOLD = {
    400: ("bad_request", "the body is not JSON"),
    404: ("not_found", "there is nothing at this address"),
    405: ("method_not_allowed", "this address does not take that method"),
}


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """A request that is not answered as asked, and why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def busy(message: str) -> Refusal:
    """The refusal of a server that has enough to do."""
    return Refusal(503, "busy", message)


def response(refusal: Refusal) -> JSONResponse:
    """The refusal as an answer; one that will pass says when to come back."""
    headers = {}
    if refusal.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER)
    elif refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.status in (401, 408, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    return JSONResponse(
        {"error": {"code": refusal.code, "message": well_formed(refusal.message)}}, refusal.status, headers
    )


def answer_errors(app: FastAPI, count: Callable[[str], None]) -> None:
    """Has the app answer every error in that one shape; `count` hears each refusal's code."""

    @app.exception_handler(Refusal)
    async def _refused(request: Request, error: Refusal) -> JSONResponse:
        count(error.code)
        return response(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        faults = error.errors()
        if any(fault["type"] == "json_invalid" for fault in faults):
            return response(Refusal(400, *TOLD[400]))
        return response(Refusal(422, "invalid", told(faults)))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, RecursionError):  # the JSON parser gave up before the models could count levels
            return response(Refusal(422, "invalid", f"body: {TOO_DEEP}"))
        code, message = TOLD.get(error.status_code, ("refused", "the request was refused"))
        return response(Refusal(error.status_code, code, message))


def told(errors: Sequence[Any]) -> str:
    """What is wrong with a request, in one sentence; of many faults the first three."""
    faults = [error for error in errors if error["type"] != "none_required"]  # nobody is asked for nothing
    return "; ".join(f"{_place(error['loc'])}: {error['msg'][:SHOWN]}" for error in faults[:3])


def _place(parts: Sequence[int | str]) -> str:
    """The field a fault is in, without the names pydantic gives to its own steps."""
    own = [str(part) for part in parts if part != "body" and "[" not in str(part)]
    return ".".join(own)[:SHOWN] or "body"
