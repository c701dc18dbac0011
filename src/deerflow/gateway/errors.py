"""Error responses: all of one shape, with stable names."""

import errno
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deerflow.domain.errors import DeerFlowError, StorageFull, TooManyAttempts
from deerflow.gateway.examples import with_examples
from deerflow.tracing.logs import add_log_context

logger = logging.getLogger(__name__)

REQUEST_ID = "x-request-id"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """HTTP status and meaning of an error."""

    status: int
    meaning: str


ERRORS: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "BadRequest": ErrorCode(400, "malformed HTTP request"),
        "Unauthorized": ErrorCode(401, "login required, or the session or token is not valid"),
        "LoginFailed": ErrorCode(401, "wrong e-mail address or password"),
        "HookRefused": ErrorCode(401, "no such webhook, or the signature is wrong or too old"),
        "Forbidden": ErrorCode(403, "cross-site request, host not allowed, or more rights required"),
        "ReadOnlyAccess": ErrorCode(403, "shared with you for reading only"),
        "NotFound": ErrorCode(404, "not found, or owned by another user"),
        "FileProblem": ErrorCode(404, "file not found or not readable"),
        "MethodNotAllowed": ErrorCode(405, "method not allowed for this path"),
        "RequestTimeout": ErrorCode(408, "timeout while reading the headers or the body"),
        "Conflict": ErrorCode(409, "conflict with the current state of the resource"),
        "StateTooNew": ErrorCode(409, "the thread state was written by a newer version; update this server"),
        "RunLost": ErrorCode(409, "the run was taken over by another server"),
        "TooSlow": ErrorCode(408, "upload too slow or stalled"),
        "BodyTooLarge": ErrorCode(413, "request body too large"),
        "HookBodyTooLarge": ErrorCode(413, "body of a webhook too large; `detail` names the limit"),
        "TooLarge": ErrorCode(413, "upload or download exceeds a limit; `detail` names the limit"),
        "UnsupportedMediaType": ErrorCode(415, "the body is not JSON, or has no JSON content type"),
        "RangeNotSatisfiable": ErrorCode(416, "range not satisfiable"),
        "AddressRefused": ErrorCode(422, "address not allowed for model connections"),
        "InvalidRequest": ErrorCode(422, "invalid request; `detail` names the part"),
        "SkillInvalid": ErrorCode(422, "invalid skill; `detail` says why"),
        "SkillRefused": ErrorCode(422, "skill or change rejected; `detail` says why"),
        "UnusableFile": ErrorCode(422, "the file cannot be used for this"),
        "PreviewUnavailable": ErrorCode(422, "no preview of the file can be made"),
        "PreviewNotReady": ErrorCode(503, "previews are not available yet; try again in a minute"),
        "EncryptedFile": ErrorCode(422, "no preview: the file is protected with a password"),
        "DamagedFile": ErrorCode(422, "no preview: the file is damaged or not what its name says"),
        "UnsafeFile": ErrorCode(422, "no preview: the file is made to attack programs that open it"),
        "OversizedFile": ErrorCode(422, "no preview: the file or its preview is too large"),
        "QuotaExceeded": ErrorCode(429, "a quota is reached; `detail` says which, the header Retry-After how long"),
        "TooManyAttempts": ErrorCode(429, "too many logins; the header Retry-After says when to try again"),
        "ModelRateLimited": ErrorCode(429, "rate limit of the model provider exceeded"),
        "HeadersTooLarge": ErrorCode(431, "request headers too large"),
        "InternalError": ErrorCode(500, "internal error; see the log for the request id"),
        "RunFailed": ErrorCode(500, "run ended without an answer"),
        "McpLoginFailed": ErrorCode(502, "login at an MCP server failed; `detail` says why"),
        "SignOnFailed": ErrorCode(502, "login at an OpenID provider failed; `detail` says why"),
        "SkillUnavailable": ErrorCode(502, "skill cannot be downloaded; `detail` says why"),
        "ModelError": ErrorCode(502, "invalid response of a model"),
        "ModelRejected": ErrorCode(502, "request rejected by the model provider"),
        "ModelKeyRejected": ErrorCode(502, "API key rejected by the model provider"),
        "ModelQuotaExceeded": ErrorCode(502, "quota or credit at the model provider is used up"),
        "ModelNotFound": ErrorCode(502, "the model provider has no model of this name"),
        "ModelContextTooLong": ErrorCode(502, "the request is too long for the model"),
        "ModelStreamCut": ErrorCode(502, "response of the model is incomplete"),
        "ModelResponseTooLarge": ErrorCode(502, "response of the model is too large"),
        "ModelUnavailable": ErrorCode(502, "model provider unreachable or failing"),
        "ConfigError": ErrorCode(503, "invalid configuration; `detail` says where"),
        "NotReady": ErrorCode(503, "a component of the server fails; the response says which"),
        "SandboxError": ErrorCode(503, "no sandbox available"),
        "StorageUnavailable": ErrorCode(503, "database unavailable; try again"),
        "ModelTimeout": ErrorCode(504, "timeout of the model provider"),
        "EventRefused": ErrorCode(507, "the database refused to record an event of the run, which ended"),
        "StorageFull": ErrorCode(507, "the disk of the server is full"),
    }
)
"""All errors, by name."""

STATUS_ERRORS: Mapping[int, str] = MappingProxyType(
    {
        400: "BadRequest",
        401: "Unauthorized",
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
"""Names of errors raised by the framework, by status."""

PROBLEM = "#/components/schemas/Problem"
"""Schema of an error in the OpenAPI document."""
DECLARED_STATUSES = (401, 404, 409, 413, 415, 422, 500, 503)


class Problem(BaseModel):
    """Body of every error response: a message for people and a name for programs."""

    model_config = ConfigDict(json_schema_extra=with_examples({"detail": "no thread 'x'", "error": "NotFound"}))

    detail: str
    error: str


def declared_errors(statuses: Iterable[int] = DECLARED_STATUSES) -> dict[int | str, dict[str, Any]]:
    """Return the error responses that any route may have, or those with the given statuses."""
    return {
        status: {
            "description": "; ".join(
                f"`{name}`: {code.meaning}" for name, code in ERRORS.items() if code.status == status
            ),
            # By reference: the framework would build a validator for every status of every route.
            "content": {"application/json": {"schema": {"$ref": PROBLEM}}},
        }
        for status in statuses
    }


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error as `{"detail": message, "error": name}`."""
    app.add_exception_handler(DeerFlowError, handle_named_error)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_exception_handler(HTTPException, handle_http_error)
    app.add_exception_handler(OSError, handle_os_error)
    app.add_exception_handler(Exception, handle_unexpected_error)


async def handle_named_error(request: Request, problem: Exception) -> Response:
    """Answer an error of DeerFlow."""
    if is_disk_full(problem) and not isinstance(problem, StorageFull):
        problem = StorageFull(f"the disk of the server is full: {problem}")
    name = next((kind.__name__ for kind in type(problem).__mro__ if kind.__name__ in ERRORS), None)
    if name is None:
        return await handle_unexpected_error(request, problem)
    status = ERRORS[name].status
    if status >= 500:
        logger.error("%s %s: %s", request.method, get_route(request), name)
    headers = {"Retry-After": str(ceil(problem.retry_after_s))} if isinstance(problem, TooManyAttempts) else {}
    return error_response(status, name, str(problem), headers)


async def handle_validation_error(request: Request, problem: Exception) -> Response:
    """Answer a body or parameter of the wrong shape."""
    assert isinstance(problem, RequestValidationError)
    sentences = [f"{format_location(error['loc'])}: {error['msg'].lower()}" for error in problem.errors()]
    return error_response(422, "InvalidRequest", "; ".join(sentences))


async def handle_http_error(request: Request, problem: Exception) -> Response:
    """Answer an error of the framework."""
    assert isinstance(problem, HTTPException)
    name = STATUS_ERRORS.get(problem.status_code, "BadRequest" if problem.status_code < 500 else "InternalError")
    return error_response(problem.status_code, name, problem.detail, problem.headers or {})


async def handle_os_error(request: Request, problem: Exception) -> Response:
    """Answer a full disk, and a name that is too long for the file system; any other error is unexpected."""
    assert isinstance(problem, OSError)
    if is_disk_full(problem):
        return await handle_named_error(request, StorageFull("the disk of the server is full"))
    if problem.errno != errno.ENAMETOOLONG:
        raise problem
    return error_response(422, "InvalidRequest", "a file name in the request is too long")


async def handle_unexpected_error(request: Request, problem: Exception) -> Response:
    """Answer any other exception with 500 and log its traceback."""
    request_id = request.scope.get("request_id", "-")
    with add_log_context(request=request_id):
        logger.error("%s %s failed", request.method, get_route(request), exc_info=problem)
    sentence = "internal server error; see the server log for details"
    # This response is created outside the middleware that adds the request id.
    return error_response(500, "InternalError", sentence, {REQUEST_ID: request_id})


def error_response(status: int, name: str, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response."""
    # A message may quote text that is not valid UTF-8.
    body = orjson.dumps({"detail": sentence.encode(errors="replace").decode(), "error": name})
    return Response(body, status_code=status, media_type="application/json", headers=dict(headers or {}))


def is_disk_full(problem: BaseException | None) -> bool:
    """Return whether a full disk led to an error."""
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def get_route(request: Request) -> str:
    """Return the route of a request without its parameter values."""
    return getattr(request.scope.get("route"), "path", "?")


def format_location(location: tuple[str | int, ...]) -> str:
    """Return the location of a validation error, e.g. `body.input.messages[0]`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")
