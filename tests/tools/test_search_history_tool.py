"""The `search_history` tool, as a model uses it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext
from deerflow.domain.history import Excerpt
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.builtins.search_history_tool import search_history
from deerflow.tools.run import NoRunContext


class Remembered:
    """A history of fixed content that is also the files of a run, for nobody asks for them."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    async def search(self, query: str, limit: int) -> Sequence[Excerpt]:
        said_at = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)
        return [Excerpt("human", text, said_at) for text in self._texts if query in text][:limit]

    async def stat(self, path: str) -> Any: ...
    async def read(self, path: str, limit: int | None = None) -> Any: ...
    async def write(self, path: str, content: bytes) -> None: ...
    async def list(self, folder: str) -> Any: ...


async def ask(query: str, *texts: str) -> str:
    graph = create_agent(
        ScriptedModel.saying(calling("search_history", query=query), "done"),
        [search_history],
        state_schema=ThreadState,
        context_schema=RunContext,
    )
    remembered = Remembered(*texts)
    context = RunContext("t", "r", "u", remembered, remembered)
    state = await graph.ainvoke({"messages": [("user", "search")]}, context=context)  # type: ignore[list-item]
    return cast(ToolMessage, state["messages"][2]).text


async def test_outside_of_a_run_the_error_has_a_name() -> None:
    graph = create_agent(ScriptedModel.saying(calling("search_history", query="x")), [search_history])
    with pytest.raises(NoRunContext):
        await graph.ainvoke({"messages": [("user", "search")]})  # type: ignore[list-item]


async def test_when_nothing_is_found_the_model_is_told_what_to_try() -> None:
    assert await ask("plan", "hello") == "Nothing was said that contains all words of 'plan'. Try fewer or other words."


async def test_what_is_found_is_shown_with_speaker_and_time() -> None:
    assert await ask("plan", "the plan", "hello") == "[2026-05-04 03:02 UTC, user]\nthe plan"
