"""Messages at the end of a run."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deerflow.channels import http
from deerflow.channels.adapter import ChannelOutcomeUnknown
from deerflow.channels.answers import MAX_QUESTION_CHARS, build_approval
from deerflow.channels.telegram.api import TelegramApi

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def interrupt(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"id": "one", "value": {"action_requests": list(calls)}}


def test_a_call_is_shown_whole_with_both_choices() -> None:
    question = build_approval([interrupt({"name": "bash", "args": {"command": "rm -r build"}})], "en")
    assert question is not None and question.choices == ["approve", "reject"]
    assert "rm -r build" in question.text and "bash" in question.text


@pytest.mark.parametrize("calls", [1, 40])
def test_calls_that_are_not_shown_whole_can_only_be_rejected(calls: int) -> None:
    command = "echo harmless; " * (MAX_QUESTION_CHARS // 15 // calls) + "rm -r /"
    question = build_approval([interrupt(*[{"name": "bash", "args": {"command": command}}] * calls)], "en")
    assert question is not None and question.choices == ["reject"] and question.labels == ["Reject"]
    assert "bash" in question.text and "page" in question.text and len(question.text) < MAX_QUESTION_CHARS


@pytest.mark.parametrize("pieces", [2, 40])
async def test_a_response_that_arrives_in_pieces_is_read_whole(pieces: int) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"ok": true, "result": "')
        for _ in range(pieces):
            await response.write(b"x" * 100_000)
        await response.write(b'"}')
        return response

    async with serving(answer) as client:
        assert len(await client.call("getUpdates")) == pieces * 100_000


async def test_a_response_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with pytest.raises((ConnectionError, aiohttp.ClientConnectionError)):
            while True:
                await response.write(b"x" * 100_000)
        return response

    monkeypatch.setattr(http, "MAX_RESPONSE", 1_000_000)
    async with serving(answer) as client:
        with pytest.raises(ChannelOutcomeUnknown, match="more than"):
            await client.call("getUpdates")


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[TelegramApi]:
    """Serve every path of a Telegram server with `handler`, and yield a client of it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        client = TelegramApi("token", str(server.make_url("")))
        try:
            yield client
        finally:
            await client.aclose()
