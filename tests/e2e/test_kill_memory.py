"""A server that dies while a conversation is yet to be learned from."""

import asyncio
from functools import partial
from pathlib import Path

import httpx
import yaml

from deerflow.config.source import open_source
from deerflow.domain.memory import Fact, MemoryScope
from deerflow.domain.principal import LOCAL_USER
from deerflow.persistence.database import open_database
from deerflow.persistence.memory import read_history
from deerflow.persistence.memory_pending import next_lesson_at
from deerflow.testing import ScriptedServer, ServerRequest
from tests.e2e.stage import Nursery, environment_of
from tests.memory.answers import learned

WAIT_S = 2.0
BODY = {"input": {"messages": [{"type": "human", "content": "I prefer tabs"}]}}


async def test_what_waits_to_be_learned_is_learned_after_kill_once(tmp_path: Path) -> None:
    fact = {"content": "The user prefers tabs", "message": 1, "quote": "I prefer tabs"}
    asked = asyncio.Event()

    def learn(request: ServerRequest) -> str:
        asked.set()
        return learned(fact)

    async with ScriptedServer(["Noted.", learn]) as model, asyncio.timeout(60):
        entry = model.model_config().model_dump(mode="json", exclude_unset=True) | {"api_key": "scripted-key"}
        config = tmp_path / "config.yaml"
        config.write_text(yaml.safe_dump({"models": [entry], "memory": {"debounce_seconds": WAIT_S}}))

        source = open_source(config, directory=tmp_path, environment=environment_of(tmp_path))
        place = source.current.config.database.place(source.current.home)
        servers = Nursery(tmp_path, config)
        with servers.serving() as (url, _):  # which is killed in the end
            async with httpx.AsyncClient(base_url=f"{url}/api", timeout=20) as http:
                assert (await http.post("/threads/told/runs/wait", json=BODY)).status_code == 200
        async with open_database(place) as database:
            assert await database.read(next_lesson_at) is not None and len(model.requests) == 1
            with servers.serving():
                await asked.wait()
                while await database.read(next_lesson_at) is not None:
                    continue
            scope = MemoryScope(LOCAL_USER.user_id)
            changes = await database.read(partial(read_history, scope=scope, limit=10))
        (change,) = changes
        assert isinstance(change.after, Fact) and change.after.content == fact["content"]
        assert change.source is not None and change.source.quote == "I prefer tabs"
        # One answer, and one reading of it.
        assert len(model.requests) == 2
