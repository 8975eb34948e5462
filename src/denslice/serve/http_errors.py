"""Error responses, all of the form {"error": {"code", "message"}}. They show nothing of the inside of the server.

They also have the fields `type` and `param`, which clients of OpenAI read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from denslice.analysis.normal_forms import well_formed
from denslice.records import DEEPEST_META

RETRY_AFTER = 1  # seconds
DEEPEST_BODY = DEEPEST_META + 3  # the metadata is within a document, a list and the body
TOO_DEEP = f"objects and lists are nested deeper than {DEEPEST_BODY} levels"
MAX_SHOWN = 200  # characters of a message that may repeat text of the request
OPENAI_PATHS = "/v1/"  # where wrong requests are answered with 400, as clients of OpenAI expect, and not with 422
HTTP_MESSAGES = {
    400: ("bad_request", "the body is not valid JSON"),
    404: ("not_found", "there is nothing at this path; /openapi.json lists the paths"),
    405: ("method_not_allowed", "this path does not support that method; /openapi.json lists those it supports"),
}


class HttpError(Exception):
    """An error response: its status, a code for programs and a message for people."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param


def busy(message: str) -> HttpError:
    """Return the error of a server at one of its limits."""
    return HttpError(503, "busy", message)


def timed_out(seconds: float) -> HttpError:
    """Return the error of a request that took too long."""
    return HttpError(503, "timeout", f"the request was not answered within {seconds:g} s; try again")


def error_response(error: HttpError) -> JSONResponse:
    """Return the response for an error. A 503 has a Retry-After header."""
    headers = {}
    if error.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER)
    elif error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in (401, 408, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    told = {"code": error.code, "message": well_formed(error.message), "type": kind, "param": error.param}
    return JSONResponse({"error": told}, error.status, headers)


def add_error_handlers(app: FastAPI, count: Callable[[str], None]) -> None:
    """Make the app respond to every error in this form; `count` is called with the code of each HttpError."""

    @app.exception_handler(HttpError)
    async def _refused(request: Request, error: HttpError) -> JSONResponse:
        count(error.code)
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        faults = error.errors()
        if any(fault["type"] == "json_invalid" for fault in faults):
            return error_response(HttpError(400, *HTTP_MESSAGES[400]))
        if request.url.path.startswith(OPENAI_PATHS):
            return error_response(HttpError(400, "invalid", validation_message(faults), _field(faults[0]["loc"][:2])))
        return error_response(HttpError(422, "invalid", validation_message(faults)))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, RecursionError):  # the JSON parser fails before the models count levels
            return error_response(HttpError(422, "invalid", f"body: {TOO_DEEP}"))
        code, message = HTTP_MESSAGES.get(error.status_code, ("refused", "the request was refused"))
        return error_response(HttpError(error.status_code, code, message))


def validation_message(errors: Sequence[Any]) -> str:
    """Return the first three validation errors of a request as one message."""
    faults = [error for error in errors if error["type"] != "none_required"]  # fields never require null
    return "; ".join(f"{_field(error['loc'])}: {error['msg'][:MAX_SHOWN]}" for error in faults[:3])


def _field(location: Sequence[int | str]) -> str:
    """Return the name of the field of a validation error, without the steps that pydantic adds."""
    names = [str(part) for part in location if part != "body" and "[" not in str(part)]
    return ".".join(names)[:MAX_SHOWN] or "body"
