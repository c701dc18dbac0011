"""A run's log on the wire."""

import asyncio

from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.gateway.sse import HEARTBEAT, encode
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.support import OpenHarness


async def test_a_silent_run_sends_a_sign_of_life_and_then_goes_on(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(Stall(Answer("Wait")))
    async with harness_saying(model) as harness, asyncio.timeout(10):
        request = RunRequest("t", [{"type": "human", "content": "Hi"}])
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        pieces = []
        async for piece in encode(harness.runs, run, ["messages-tuple"], 0, heartbeat_s=0.05):
            pieces.append(piece)
            if piece == HEARTBEAT:
                model.release()
    assert HEARTBEAT == b": heartbeat\n\n" and HEARTBEAT in pieces
    assert pieces[-1].endswith(b"event: end\ndata: null\n\n")
