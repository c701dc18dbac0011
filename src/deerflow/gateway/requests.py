"""Gives every request an id, which its answer and its lines in the log carry, and counts it."""

import re
import time
from functools import partial

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.domain.ids import new_id
from deerflow.gateway.errors import REQUEST_ID
from deerflow.tracing.log_context import logged_as
from deerflow.tracing.metrics import Metrics

GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
NAMED = re.compile(r"/threads/([A-Za-z0-9_-]{1,64})(?:/runs/([A-Za-z0-9-]{1,64}))?(?:/|$)")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NOWHERE = "(none)"
LEFT = 499
"""How requests are counted whose senders have left before there was an answer."""


class RequestBracket:
    """The first to see a request and the last to see its answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["request_id"] = find_id(Headers(scope=scope))
        answer = Answer(request_id)
        with logged_as(request=request_id, **ids_in(scope["path"])):
            try:
                await self._app(scope, receive, partial(answer.send, send))
            except BaseException:
                answer.status = answer.status or 500
                raise
            finally:
                self._count(scope, answer)

    def _count(self, scope: Scope, answer: "Answer") -> None:
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        route = getattr(scope.get("route"), "path", NOWHERE)
        self._metrics.requests.labels(method, route, str(answer.status or LEFT)).inc()
        self._metrics.request_seconds.labels(method, route).observe(answer.seconds())


class Answer:
    """What is known of an answer when it is on its way."""

    def __init__(self, request_id: str) -> None:
        self.status = 0
        self._request_id = request_id
        self._began = time.perf_counter()
        self._answered: float | None = None

    async def send(self, send: Send, message: Message) -> None:
        """Hand on a part of the answer; the first gets the id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._answered = time.perf_counter()
            MutableHeaders(scope=message)[REQUEST_ID] = self._request_id
        await send(message)

    def seconds(self) -> float:
        """From the request to the beginning of the answer."""
        return (self._answered or time.perf_counter()) - self._began


def find_id(headers: Headers) -> str:
    """The id whoever sends the request has given it, if nothing is wrong with that; a new one otherwise."""
    given = headers.get(REQUEST_ID, "")
    return given if GOOD_ID.fullmatch(given) else new_id()


def ids_in(path: str) -> dict[str, str]:
    """The thread and the run a path names."""
    found = NAMED.search(path)
    return {name: id_ for name, id_ in zip(("thread", "run"), found.groups(), strict=True) if id_} if found else {}
