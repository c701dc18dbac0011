"""Event streams."""

import asyncio

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.gateway.sse import HEARTBEAT, encode_events
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.support import OpenHarness


async def test_an_idle_stream_sends_heartbeats(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Wait")))
    async with harness_saying(model) as harness, asyncio.timeout(10):
        request = RunRequest("t", [{"type": "human", "content": "Hi"}])
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        pieces = []
        async for piece in encode_events(harness.runs, run, ["messages-tuple"], 0, heartbeat_s=0.05):
            pieces.append(piece)
            if piece == HEARTBEAT:
                model.release()
    assert HEARTBEAT == b": heartbeat\n\n" and HEARTBEAT in pieces
    assert pieces[-1].endswith(b"event: end\ndata: null\n\n")
