"""Searching a thread's journal."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRequest, RunStatus
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.events import LoggedEvent
from deerflow.persistence.queries.messages import EXCERPT_CHARS
from deerflow.persistence.queries.runs import StoredRequest
from deerflow.persistence.queries.transactions import accept_run, finish_run
from deerflow.runtime.journal.state_diff import Changes
from deerflow.runtime.runs.request import create_run_record
from deerflow.runtime.threads.states import JournalHistory

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def database(database_location: Path | str) -> AsyncIterator[Database]:
    async with open_database(database_location) as opened:
        yield opened


async def record_run(
    database: Database, *messages: BaseMessage, thread: str = "t", removed: Sequence[str] = ()
) -> None:
    """Record a run with these messages."""
    run = create_run_record(RunRequest(thread, []), LOCAL_USER, "process")
    first = LoggedEvent(run.run_id, RunEvent(1, "metadata", b"{}"), run.created_at)
    accept = partial(
        accept_run, run=run, request=StoredRequest({}, ""), first=first, title=None, may_create_thread=True
    )
    await database.write(accept)
    said = Changes(messages, removed).to_json()
    events = [LoggedEvent(run.run_id, RunEvent(2, "changes", said), START + timedelta(hours=1))]
    await database.write(partial(finish_run, run=run, events=events, status=RunStatus.SUCCESS, error=None))


async def search(database: Database, query: str, limit: int = 5) -> list[str]:
    return [excerpt.text for excerpt in await JournalHistory(database, "t").search(query, limit)]


async def test_an_empty_query_finds_nothing(database: Database) -> None:
    await record_run(database, HumanMessage("hello", id="1"))
    assert await search(database, "  ") == []
    assert await search(database, "hello", limit=0) == []


async def test_other_threads_are_not_searched(database: Database) -> None:
    await record_run(database, HumanMessage("secret 4711", id="1"), thread="other")
    await record_run(database, HumanMessage("hello", id="2"))
    assert await search(database, "4711") == []


async def test_hidden_messages_and_earlier_searches_are_not_found(database: Database) -> None:
    hidden = HumanMessage("date 4711", id="1", additional_kwargs={"hide_from_ui": True})
    call: Any = {"name": "search_history", "args": {"query": "4711"}, "id": "c"}
    result = ToolMessage("found 4711", tool_call_id="c", name="search_history", id="3")
    await record_run(database, hidden, AIMessage("", tool_calls=[call], id="2"), result)
    assert await search(database, "4711") == []


async def test_all_words_must_match_case_insensitively(database: Database) -> None:
    await record_run(database, HumanMessage("The Invoice of MÜLLER", id="1"), AIMessage("An invoice.", id="2"))
    assert await search(database, "müller invoice") == ["The Invoice of MÜLLER"]


async def test_special_characters_have_no_meaning(database: Database) -> None:
    await record_run(database, HumanMessage('a.*b "quoted" 100% \\path', id="1"), HumanMessage("axxb", id="2"))
    assert await search(database, "a.*b") == ['a.*b "quoted" 100% \\path']
    assert len(await search(database, '"quoted" 100% \\path')) == 1


async def test_compacted_messages_are_found_once_newest_first(database: Database) -> None:
    await record_run(database, HumanMessage("plan A", id="1"), AIMessage("plan B", id="2"))
    await record_run(database, AIMessage("plan B, better", id="2"), HumanMessage("plan C", id="3"), removed=["1"])
    assert await search(database, "plan") == ["plan C", "plan B, better", "plan A"]
    assert await search(database, "plan", limit=2) == ["plan C", "plan B, better"]


async def test_tool_calls_and_content_blocks_are_found(database: Database) -> None:
    call: Any = {"name": "read_file", "args": {"path": "/mnt/a.txt"}, "id": "c"}
    blocks: Any = [{"type": "text", "text": "look here"}, {"type": "image_url", "image_url": {"url": "x"}}]
    await record_run(database, AIMessage("", tool_calls=[call], id="1"), HumanMessage(blocks, id="2"))
    assert await search(database, "/mnt/a.txt") == ['read_file({"path":"/mnt/a.txt"})']
    assert await search(database, "look") == ["look here"]


async def test_long_messages_are_excerpted_around_the_match(database: Database) -> None:
    await record_run(database, ToolMessage("x " * 5000 + "needle" + " y" * 5000, tool_call_id="c", id="1"))
    found = await JournalHistory(database, "t").search("needle", 1)
    assert "needle" in found[0].text
    assert len(found[0].text) <= EXCERPT_CHARS
    assert (found[0].role, found[0].sent_at) == ("tool", START + timedelta(hours=1))
