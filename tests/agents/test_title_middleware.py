"""Names of threads."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agents.middlewares.title_middleware import TitleMiddleware, local_title, write_title
from deerflow.agents.thread_state import ThreadState
from deerflow.config.title import TitleConfig
from deerflow.domain.errors import ModelUnavailable
from deerflow.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize("said", ["", "  \n", "<think>hm</think>", "<think>never ends", ModelUnavailable("down")])
async def test_a_model_without_an_idea_leaves_the_first_words(said: str | Exception) -> None:
    assert await write_title(ScriptedModel.saying(said), "Plan my trip", "Gladly.", TitleConfig()) == "Plan my trip"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ('"A trip to Rome."', "A trip to Rome"),
        ("<think>a title…</think>\n\n**Rome**\nbecause", "Rome"),
        ("Rome " * 40, "Rome Rome Rome…"),
    ],
)
async def test_what_the_model_says_becomes_a_title(said: str, title: str) -> None:
    settings = TitleConfig(max_chars=18)
    assert await write_title(ScriptedModel.saying(said), "Plan my trip", "Gladly.", settings) == title


async def test_the_model_reads_little() -> None:
    model = ScriptedModel.saying("Rome")
    await write_title(model, "q" * 9000, "a" * 9000, TitleConfig(max_words=4))
    assert len(model.requests[0].messages[0].text) < 1500
    assert "at most 4 words" in model.requests[0].messages[0].text


def test_long_words_are_cut_and_lines_joined() -> None:
    assert local_title("Plan\n my   trip, please, to the sea", 15) == "Plan my trip…"
    assert local_title("x" * 50, 12) == "x" * 11 + "…"
    assert local_title(" \n", 12) == ""


async def test_a_thread_is_named_after_its_first_exchange_and_keeps_its_name() -> None:
    graph = create_agent(
        ScriptedModel.saying("Gladly.", "Yes."),
        middleware=[TitleMiddleware(TitleConfig())],
        state_schema=ThreadState,
        checkpointer=InMemorySaver(),
    )
    await graph.ainvoke({"messages": [("user", "Plan my trip")]}, CONFIG)  # type: ignore[list-item]
    state = await graph.ainvoke({"messages": [("user", "More")]}, CONFIG)  # type: ignore[list-item]
    assert state["title"] == "Plan my trip"


def test_names_can_be_switched_off() -> None:
    middleware = TitleMiddleware(TitleConfig(enabled=False))
    graph = create_agent(ScriptedModel.saying("Gladly."), middleware=[middleware], state_schema=ThreadState)
    assert "title" not in graph.invoke({"messages": [("user", "Plan my trip")]})  # type: ignore[list-item]
