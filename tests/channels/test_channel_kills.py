"""A server with Telegram that is killed again and again: no message is lost, and none is answered twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from deerflow.testing import ScriptedServer
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from tests.channels.kills import CONFIG, PEOPLE, check, echo, is_complete
from tests.e2e.server_process import serve


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "messages"), [(4, 40), pytest.param(50, 200, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)])]
)
async def test_kills_lose_no_message_and_double_no_answer_unmarked(tmp_path: Path, kills: int, messages: int) -> None:
    random = Random(kills)
    async with ScriptedServer([echo], endless=True) as model, FakeTelegram() as telegram:
        config = tmp_path / "config.yaml"
        settings = {"base_url": model.base_url, "token": TOKEN, "telegram": telegram.base_url}
        config.write_text(CONFIG.format(**settings))
        for at in range(messages):
            telegram.write(f"M{at}.", sender=1 + at % len(PEOPLE))
        for _ in range(kills):
            with await asyncio.to_thread(lambda: serve(tmp_path, config=config)) as server:
                goal = len(telegram.calls) + random.randrange(4, 4 + 4 * messages // kills)
                async with asyncio.timeout(60):
                    await telegram.wait_until(
                        lambda goal=goal: len(telegram.calls) >= goal or is_complete(telegram, messages)
                    )
                server.kill()
        with await asyncio.to_thread(lambda: serve(tmp_path, config=config)):
            async with asyncio.timeout(240):
                await telegram.wait_until(lambda: is_complete(telegram, messages) and telegram.unconfirmed == 0)
        check(telegram, tmp_path, messages)
