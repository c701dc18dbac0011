"""Stopping a run whose client library ignores a cancellation that arrives together with data."""

import asyncio
from pathlib import Path

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedServer

LONG = Answer(" ".join(["word"] * 20_000), delay_s=0.0005)
TRIES = 8


async def test_stop_ends_a_fast_answer_of_a_foreign_client(tmp_path: Path) -> None:
    async with ScriptedServer([LONG] * TRIES) as server:
        model = {
            "name": "foreign",
            "use": "langchain_openai:ChatOpenAI",
            "model": "scripted",
            "api_key": "none",
            "base_url": server.base_url,
        }
        settings = {"models": [model], "memory": {"enabled": False}, "title": {"enabled": False}}
        source = open_source(directory=tmp_path, environment={}, overrides=settings)
        async with open_harness(source) as harness:
            for number in range(TRIES):
                thread_id = f"t{number}"
                request = RunRequest(thread_id, [{"type": "human", "content": "Hi"}])
                run = await harness.runs.create_or_reject(request, LOCAL_USER)
                seen = 0
                async for events in harness.runs.listen(run):
                    seen += sum(event.event == "messages" for event in events)
                    if seen > number % 4:
                        break
                server.disconnected.clear()
                async with asyncio.timeout(5):  # the answer alone takes longer
                    await harness.runs.cancel(thread_id, run.run_id, LOCAL_USER)
                    await server.disconnected.wait()
                ended = await harness.runs.get(thread_id, run.run_id, LOCAL_USER)
                assert ended.status is RunStatus.INTERRUPTED
