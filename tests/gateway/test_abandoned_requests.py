"""Requests that only read end when their client disconnects; others are completed."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.responses import StreamingResponse

from deerflow.domain.errors import StorageUnavailable
from deerflow.gateway.app import create_app
from deerflow.gateway.sse import EventStreamResponse
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

LIMIT_S = 30


@pytest.mark.parametrize(
    ("method", "path", "is_cancelled"),
    [("GET", "/slow", True), ("POST", "/slow/search", True), ("POST", "/slow", False), ("PUT", "/slow", False)],
)
async def test_a_request_whose_client_is_gone_is_cancelled_if_it_only_reads(
    harness_saying: OpenHarness, method: str, path: str, is_cancelled: bool
) -> None:
    began, proceed, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    outcome: list[str] = []

    async def wait() -> str:
        began.set()
        try:
            await proceed.wait()
            outcome.append("completed")
        except asyncio.CancelledError:
            outcome.append("cancelled")
            raise
        finally:
            ended.set()
        return "done"

    async with harness_saying(ScriptedModel()) as harness, asyncio.timeout(LIMIT_S):
        app = create_app(harness)
        app.add_api_route(path, wait, methods=[method])
        app.router.routes.insert(0, app.router.routes.pop())  # before the page
        async with browse(harness, app) as client:
            async with httpx.AsyncClient(base_url=client.base_url, verify=False) as leaving:
                request = asyncio.create_task(leaving.request(method, path, json={} if method != "GET" else None))
                await began.wait()
                request.cancel()
                await asyncio.wait({request})
            if not is_cancelled:
                assert (await client.get("/health")).status_code == 200  # the server has seen the disconnect by now
                proceed.set()
            await ended.wait()
            assert outcome == ["cancelled" if is_cancelled else "completed"]
            assert (await client.get("/health")).status_code == 200


async def test_a_stream_is_closed_when_its_client_is_gone(harness_saying: OpenHarness) -> None:
    began, closed = asyncio.Event(), asyncio.Event()

    async def speak() -> AsyncGenerator[bytes]:
        try:
            began.set()
            yield b": hello\n\n"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def follow() -> StreamingResponse:
        return EventStreamResponse(speak(), media_type="text/event-stream")

    async with harness_saying(ScriptedModel()) as harness, asyncio.timeout(LIMIT_S):
        app = create_app(harness)
        app.add_api_route("/speak", follow)
        app.router.routes.insert(0, app.router.routes.pop())  # before the page
        async with browse(harness, app) as client, client.stream("GET", "/speak") as stream:
            assert await anext(stream.aiter_bytes()) == b": hello\n\n"
            await began.wait()
            await stream.aclose()
            await closed.wait()
            assert (await client.get("/health")).status_code == 200


async def test_a_stream_that_fails_ends_without_its_end(harness_saying: OpenHarness) -> None:
    async def speak() -> AsyncGenerator[bytes]:
        yield b": hello\n\n"
        raise StorageUnavailable("the disk is away")

    async def follow() -> StreamingResponse:
        return EventStreamResponse(speak(), media_type="text/event-stream")

    async with harness_saying(ScriptedModel()) as harness, asyncio.timeout(LIMIT_S):
        app = create_app(harness)
        app.add_api_route("/speak", follow)
        app.router.routes.insert(0, app.router.routes.pop())
        async with browse(harness, app) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/speak")
            assert (await client.get("/health")).status_code == 200
