"""The `search_history` tool."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agent_support.tools import NoRunContext
from deerflow.domain.context import RunContext
from deerflow.domain.threads import HistoryMessage
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.builtins import search_history


class FixedHistory:
    """History with fixed content. It also stands in for the files of the run, which are not used."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    async def search(self, query: str, limit: int) -> Sequence[HistoryMessage]:
        sent_at = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)
        return [HistoryMessage("human", text, sent_at) for text in self._texts if query in text][:limit]

    async def stat(self, path: str) -> Any: ...
    async def read(self, path: str, limit: int | None = None) -> Any: ...
    async def write(self, path: str, content: bytes) -> None: ...
    async def list(self, folder: str) -> Any: ...


async def search(query: str, *texts: str) -> str:
    graph = create_agent(
        ScriptedModel.saying(calling("search_history", query=query), "done"),
        [search_history],
        state_schema=ThreadState,
        context_schema=RunContext,
    )
    history = FixedHistory(*texts)
    context = RunContext("t", "r", "u", history, history)
    state = await graph.ainvoke({"messages": [("user", "search")]}, context=context)  # type: ignore[list-item]
    return cast(ToolMessage, state["messages"][2]).text


async def test_missing_run_context_raises_a_named_error() -> None:
    graph = create_agent(ScriptedModel.saying(calling("search_history", query="x")), [search_history])
    with pytest.raises(NoRunContext):
        await graph.ainvoke({"messages": [("user", "search")]})  # type: ignore[list-item]


async def test_empty_result_suggests_other_words() -> None:
    assert (
        await search("plan", "hello") == "Nothing was said that contains all words of 'plan'. Try fewer or other words."
    )


async def test_results_show_role_and_time() -> None:
    assert await search("plan", "the plan", "hello") == "[2026-05-04 03:02 UTC, user]\nthe plan"
