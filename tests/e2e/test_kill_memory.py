"""A server killed before facts of a conversation are extracted."""

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
from tests.e2e.server_process import ServerLauncher, server_environment
from tests.memory.support import build_extraction_output, read_remaining_tokens

WAIT_S = 2.0
BUDGET = 200_000
EXPIRED_LEASE = {"lease_expires_at": datetime(2026, 1, 1, tzinfo=UTC)}
"""Lets the next server take over the extraction at once."""
BODY = {"input": {"messages": [{"type": "human", "content": "I prefer tabs"}]}}


async def test_pending_facts_are_extracted_once_after_kills_and_within_the_budget(tmp_path: Path) -> None:
    fact = {"content": "The user prefers tabs", "message": 1, "quote": "I prefer tabs"}
    extracting = asyncio.Event()

    def extract(request: ServerRequest) -> str:
        extracting.set()
        return build_extraction_output(fact)

    async with ScriptedServer(["Noted.", Stall(Answer("half")), extract]) as model, asyncio.timeout(60):
        entry = model.model_config().model_dump(mode="json", exclude_unset=True) | {"api_key": "scripted-key"}
        config = tmp_path / "config.yaml"
        sections = {"models": [entry], "memory": {"debounce_seconds": WAIT_S}, "budget": {"max_tokens": BUDGET}}
        config.write_text(yaml.safe_dump(sections))

        source = open_source(config, directory=tmp_path, environment=server_environment(tmp_path))
        location = source.current.config.database.get_location(source.current.home)
        servers = ServerLauncher(tmp_path, config)
        with servers.start() as (url, _):  # killed at the end
            async with httpx.AsyncClient(base_url=f"{url}/api", timeout=20) as http:
                assert (await http.post("/threads/told/runs/wait", json=BODY)).status_code == 200
        async with open_database(location) as database:
            assert await database.read(find_next_due) is not None and len(model.requests) == 1
            budget_before = await database.read(read_remaining_tokens)
            with servers.start():  # killed during the extraction
                await model.waiting.wait()
            reserved = budget_before - await database.read(read_remaining_tokens)
            assert model.requests[1].body["max_tokens"] < reserved < BUDGET
            await database.write(lambda connection: connection.execute(update(memory_pending), EXPIRED_LEASE))
            with servers.start():
                await extracting.wait()
                while await database.read(find_next_due) is not None:
                    continue
            scope = MemoryScope(LOCAL_USER.user_id)
            changes = await database.read(partial(read_history, scope=scope, limit=10))
        (change,) = changes
        assert isinstance(change.after, Fact) and change.after.content == fact["content"]
        assert change.source is not None and change.source.quote == "I prefer tabs"
        # One answer, one interrupted extraction and a complete one.
        assert len(model.requests) == 3
