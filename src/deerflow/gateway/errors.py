"""Named errors as HTTP answers."""

import logging

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deerflow.domain.errors import (
    ConfigError,
    Conflict,
    DeerFlowError,
    FileProblem,
    InvalidRequest,
    NotFound,
    StorageUnavailable,
    TooLarge,
    TooSlow,
    UnusableFile,
)

logger = logging.getLogger(__name__)

STATUS: dict[type[DeerFlowError], int] = {
    NotFound: 404,
    UnusableFile: 422,
    FileProblem: 404,
    TooSlow: 408,
    Conflict: 409,
    TooLarge: 413,
    InvalidRequest: 422,
    ConfigError: 503,
    StorageUnavailable: 503,
}


def add_error_handlers(app: FastAPI) -> None:
    """Have every error answered as `{"detail": sentence, "error": name}`."""
    app.add_exception_handler(DeerFlowError, answer_named)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http)
    app.add_exception_handler(Exception, answer_bug)


async def answer_named(request: Request, problem: Exception) -> Response:
    """An error with a name and a reader."""
    status = next((code for kind, code in STATUS.items() if isinstance(problem, kind)), 500)
    return error_response(status, type(problem).__name__, str(problem))


async def answer_invalid(request: Request, problem: Exception) -> Response:
    """A body or a parameter of the wrong shape."""
    assert isinstance(problem, RequestValidationError)
    sentences = [f"{place(error['loc'])}: {error['msg'].lower()}" for error in problem.errors()]
    return error_response(422, "InvalidRequest", "; ".join(sentences))


async def answer_http(request: Request, problem: Exception) -> Response:
    """What the framework itself refuses."""
    assert isinstance(problem, HTTPException)
    name = {404: "NotFound", 405: "MethodNotAllowed"}.get(problem.status_code, "HttpError")
    return error_response(problem.status_code, name, problem.detail)


async def answer_bug(request: Request, problem: Exception) -> Response:
    """Anything else is our fault; its trace is in the log."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=problem)
    return error_response(500, "InternalError", "something went wrong on the server; its log has the details")


def error_response(status: int, name: str, sentence: str) -> Response:
    """The one shape of an error."""
    body = orjson.dumps({"detail": sentence, "error": name})
    return Response(body, status_code=status, media_type="application/json")


def place(location: tuple[str | int, ...]) -> str:
    """Where in the request something is: `body.input.messages[0]`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")
