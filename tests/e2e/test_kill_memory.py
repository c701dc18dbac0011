"""A server that dies while a conversation is yet to be learned from."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import yaml
from sqlalchemy import update

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import Fact, MemoryScope
from deerflow.memory.queries.facts import read_history
from deerflow.memory.queries.pending import find_next_due
from deerflow.persistence.engine import open_database
from deerflow.persistence.tables import memory_pending
from deerflow.testing import Answer, ScriptedServer, ServerRequest, Stall
from tests.e2e.stage import Nursery, environment_of
from tests.memory.support import build_extraction_output as learned
from tests.memory.support import read_remaining_tokens as left_for_learning

WAIT_S = 2.0
BUDGET = 200_000
LONG_AGO = {"lease_expires_at": datetime(2026, 1, 1, tzinfo=UTC)}
"""As if a minute had passed: until then nobody follows whoever was learning."""
BODY = {"input": {"messages": [{"type": "human", "content": "I prefer tabs"}]}}


async def test_what_waits_to_be_learned_is_learned_after_kills_once_and_within_the_budget(tmp_path: Path) -> None:
    fact = {"content": "The user prefers tabs", "message": 1, "quote": "I prefer tabs"}
    asked = asyncio.Event()

    def learn(request: ServerRequest) -> str:
        asked.set()
        return learned(fact)

    async with ScriptedServer(["Noted.", Stall(Answer("half")), learn]) as model, asyncio.timeout(60):
        entry = model.model_config().model_dump(mode="json", exclude_unset=True) | {"api_key": "scripted-key"}
        config = tmp_path / "config.yaml"
        sections = {"models": [entry], "memory": {"debounce_seconds": WAIT_S}, "budget": {"max_tokens": BUDGET}}
        config.write_text(yaml.safe_dump(sections))

        source = open_source(config, directory=tmp_path, environment=environment_of(tmp_path))
        place = source.current.config.database.get_location(source.current.home)
        servers = Nursery(tmp_path, config)
        with servers.serving() as (url, _):  # which is killed in the end
            async with httpx.AsyncClient(base_url=f"{url}/api", timeout=20) as http:
                assert (await http.post("/threads/told/runs/wait", json=BODY)).status_code == 200
        async with open_database(place) as database:
            assert await database.read(find_next_due) is not None and len(model.requests) == 1
            at_first = await database.read(left_for_learning)
            with servers.serving():  # killed while the model thinks
                await model.waiting.wait()
            set_aside = at_first - await database.read(left_for_learning)
            assert model.requests[1].body["max_tokens"] < set_aside < BUDGET
            await database.write(lambda connection: connection.execute(update(memory_pending), LONG_AGO))
            with servers.serving():
                await asked.wait()
                while await database.read(find_next_due) is not None:
                    continue
            scope = MemoryScope(LOCAL_USER.user_id)
            changes = await database.read(partial(read_history, scope=scope, limit=10))
        (change,) = changes
        assert isinstance(change.after, Fact) and change.after.content == fact["content"]
        assert change.source is not None and change.source.quote == "I prefer tabs"
        # One answer, one reading that broke off, and one that did not.
        assert len(model.requests) == 3
