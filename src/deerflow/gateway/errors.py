"""Errors as HTTP answers: all of one shape, each with a name that stays the same."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deerflow.domain.errors import DeerFlowError
from deerflow.gateway.examples import shown_as
from deerflow.tracing.log_context import logged_as

logger = logging.getLogger(__name__)

REQUEST_ID = "x-request-id"


@dataclass(frozen=True, slots=True)
class Code:
    """The status an error has, and what it means."""

    status: int
    meaning: str


CODES: Mapping[str, Code] = MappingProxyType(
    {
        "BadRequest": Code(400, "the request is not HTTP, or not as HTTP wants it"),
        "Forbidden": Code(
            403, "it came from another web site, or under a name that is not this server's; or only an admin may"
        ),
        "NotFound": Code(404, "there is no such thing, or it is somebody else's"),
        "FileProblem": Code(404, "there is no such file, or it cannot be had"),
        "MethodNotAllowed": Code(405, "there is something at this path, but it does not take this method"),
        "RequestTimeout": Code(408, "the body or the headers came too slowly"),
        "Conflict": Code(409, "it does not fit the present state of the thing it names"),
        "StateTooNew": Code(409, "a newer version has written the thread's state; update this server"),
        "RunLost": Code(409, "another server has taken the run over"),
        "TooSlow": Code(408, "an upload came too slowly, or has stopped"),
        "BodyTooLarge": Code(413, "the body is larger than this server takes"),
        "TooLarge": Code(413, "more was sent or asked for than is allowed; the sentence says how much that is"),
        "UnsupportedMediaType": Code(415, "the body is not JSON, or is not said to be"),
        "RangeNotSatisfiable": Code(416, "the file has no such part"),
        "InvalidRequest": Code(422, "it cannot be understood; the sentence says which part"),
        "SkillInvalid": Code(422, "the skill cannot be used as it is written; the sentence says why"),
        "SkillRefused": Code(422, "the skill, or the change of it, is not accepted; the sentence says why"),
        "UnusableFile": Code(422, "the file is there, but cannot be used for this"),
        "ModelRateLimited": Code(429, "the model's provider asks us to slow down"),
        "HeadersTooLarge": Code(431, "the headers are larger than this server takes"),
        "InternalError": Code(500, "a bug; the log has the details under the request's id"),
        "RunFailed": Code(500, "a run ended without an answer"),
        "McpLoginFailed": Code(502, "nobody could be logged in at an MCP server; the sentence says why"),
        "ModelError": Code(502, "a model did not answer as asked"),
        "ModelRejected": Code(502, "the model's provider refused the request"),
        "ModelStreamCut": Code(502, "the model's answer ended before it was complete"),
        "ModelUnavailable": Code(502, "the model's provider cannot be reached, or fails"),
        "ConfigError": Code(503, "the configuration is wrong; the sentence says where"),
        "NotReady": Code(503, "a part of the server does not work; the answer says which"),
        "SandboxError": Code(503, "there is no sandbox to be had"),
        "StorageUnavailable": Code(503, "the database cannot be used at the moment; try again"),
        "ModelTimeout": Code(504, "the model's provider stayed silent for too long"),
    }
)
"""Every error there is, by its name."""

FRAMEWORK: Mapping[int, str] = MappingProxyType(
    {
        400: "BadRequest",
        403: "Forbidden",
        404: "NotFound",
        405: "MethodNotAllowed",
        408: "RequestTimeout",
        409: "Conflict",
        413: "BodyTooLarge",
        415: "UnsupportedMediaType",
        416: "RangeNotSatisfiable",
        422: "InvalidRequest",
        431: "HeadersTooLarge",
        503: "NotReady",
    }
)
"""What the framework's own refusals are called."""

PROBLEM = "#/components/schemas/Problem"
"""Where the description of the API has the shape of an error."""
DECLARED = (404, 409, 413, 415, 422, 500, 503)


class Problem(BaseModel):
    """The one shape of an error: a sentence for people and a name for programs."""

    model_config = ConfigDict(json_schema_extra=shown_as({"detail": "no thread 'x'", "error": "NotFound"}))

    detail: str
    error: str


def declared_errors(statuses: Iterable[int] = DECLARED) -> dict[int | str, dict[str, Any]]:
    """What any route may answer instead of what it promises; or, with other statuses, some routes."""
    return {
        status: {
            "description": "; ".join(
                f"`{name}`: {code.meaning}" for name, code in CODES.items() if code.status == status
            ),
            # By name, for the framework would build what checks an answer for every status of every route.
            "content": {"application/json": {"schema": {"$ref": PROBLEM}}},
        }
        for status in statuses
    }


def add_error_handlers(app: FastAPI) -> None:
    """Have every error answered as `{"detail": sentence, "error": name}`."""
    app.add_exception_handler(DeerFlowError, answer_named)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http)
    app.add_exception_handler(Exception, answer_bug)


async def answer_named(request: Request, problem: Exception) -> Response:
    """An error with a name and a reader."""
    name = next((kind.__name__ for kind in type(problem).__mro__ if kind.__name__ in CODES), None)
    if name is None:
        return await answer_bug(request, problem)
    status = CODES[name].status
    if status >= 500:
        logger.error("%s %s: %s", request.method, route_of(request), name)
    return error_response(status, name, str(problem))


async def answer_invalid(request: Request, problem: Exception) -> Response:
    """A body or a parameter of the wrong shape."""
    assert isinstance(problem, RequestValidationError)
    sentences = [f"{place(error['loc'])}: {error['msg'].lower()}" for error in problem.errors()]
    return error_response(422, "InvalidRequest", "; ".join(sentences))


async def answer_http(request: Request, problem: Exception) -> Response:
    """What the framework itself refuses."""
    assert isinstance(problem, HTTPException)
    name = FRAMEWORK.get(problem.status_code, "BadRequest" if problem.status_code < 500 else "InternalError")
    return error_response(problem.status_code, name, problem.detail, problem.headers or {})


async def answer_bug(request: Request, problem: Exception) -> Response:
    """Anything else is our fault; its trace is in the log."""
    request_id = request.scope.get("request_id", "-")
    with logged_as(request=request_id):
        logger.error("%s %s failed", request.method, route_of(request), exc_info=problem)
    sentence = "something went wrong on the server; its log has the details"
    # This answer is made outside of what gives others their id.
    return error_response(500, "InternalError", sentence, {REQUEST_ID: request_id})


def error_response(status: int, name: str, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """The one shape of an error."""
    # A sentence may quote what cannot be said in UTF-8.
    body = orjson.dumps({"detail": sentence.encode(errors="replace").decode(), "error": name})
    return Response(body, status_code=status, media_type="application/json", headers=dict(headers or {}))


def route_of(request: Request) -> str:
    """The route of a request without what people put into it."""
    return getattr(request.scope.get("route"), "path", "?")


def place(location: tuple[str | int, ...]) -> str:
    """Where in the request something is: `body.input.messages[0]`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")
