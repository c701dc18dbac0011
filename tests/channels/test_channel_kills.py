"""A server with a chat app that is killed again and again: no message is lost, and none is answered twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from deerflow.testing import ScriptedServer
from tests.channels.kills import CONFIG, PLATFORMS, check, echo, is_complete
from tests.e2e.server_process import serve


@pytest.mark.slow
@pytest.mark.parametrize("name", PLATFORMS)
@pytest.mark.parametrize(
    ("kills", "messages"), [(4, 40), pytest.param(50, 200, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)])]
)
async def test_kills_lose_no_message_and_double_no_answer_unmarked(
    tmp_path: Path, name: str, kills: int, messages: int
) -> None:
    random = Random(kills)
    async with ScriptedServer([echo], endless=True) as model, PLATFORMS[name]() as platform:
        fake, config = platform.fake, tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url, channel=platform.channel))
        for at in range(messages):
            await platform.write(at)
        for _ in range(kills):
            with await asyncio.to_thread(lambda: serve(tmp_path, config=config)) as server:
                goal = len(fake.calls) + platform.requests * random.randrange(4, 4 + 4 * messages // kills)
                async with asyncio.timeout(60):
                    await fake.wait_until(lambda goal=goal: len(fake.calls) >= goal or is_complete(platform, messages))
                server.kill()
        with await asyncio.to_thread(lambda: serve(tmp_path, config=config)):
            async with asyncio.timeout(240):
                await fake.wait_until(lambda: is_complete(platform, messages) and platform.confirmed())
        check(platform, tmp_path, messages)
