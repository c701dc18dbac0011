"""Titles of threads."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.title_middleware import TitleMiddleware, write_title
from deerflow.config.sections.runs import TitleConfig
from deerflow.domain.errors import ModelUnavailable
from deerflow.domain.threads import truncate_title
from deerflow.domain.usage import BudgetSpent, ModelCallRequest, ModelCallUsage, Reservation, SpendingLimit
from deerflow.testing import ScriptedModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize("reply", ["", "  \n", "<think>hm</think>", "<think>never ends", ModelUnavailable("down")])
async def test_without_a_usable_title_the_first_message_is_used(reply: str | Exception) -> None:
    assert await write_title(ScriptedModel.saying(reply), "Plan my trip", "Gladly.", TitleConfig()) == "Plan my trip"


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        ('"A trip to Rome."', "A trip to Rome"),
        ("<think>a title…</think>\n\n**Rome**\nbecause", "Rome"),
        ("Rome " * 40, "Rome Rome Rome…"),
    ],
)
async def test_the_answer_of_the_model_becomes_the_title(reply: str, title: str) -> None:
    settings = TitleConfig(max_chars=18)
    assert await write_title(ScriptedModel.saying(reply), "Plan my trip", "Gladly.", settings) == title


async def test_the_prompt_is_limited() -> None:
    model = ScriptedModel.saying("Rome")
    await write_title(model, "q" * 9000, "a" * 9000, TitleConfig(max_words=4))
    assert len(model.requests[0].messages[0].text) < 1500
    assert "at most 4 words" in model.requests[0].messages[0].text


class FakeBudget:
    """Budget that covers the given output tokens, or nothing."""

    def __init__(self, output_tokens: int | None) -> None:
        self.left = output_tokens
        self.settled: list[ModelCallUsage | None] = []

    async def reserve(self, asking: ModelCallRequest) -> Reservation:
        if self.left is None:
            raise BudgetSpent("nothing left")
        return Reservation(1, asking, asking.prompt.bytes, self.left)

    def settle(self, grant: Reservation, answered: ModelCallUsage | None, *, is_rejected: bool = False) -> None:
        self.settled.append(answered)

    def get_final_call_limits(self, model: str) -> None:
        return None

    def get_remaining(self) -> SpendingLimit:
        return SpendingLimit(self.left)


async def test_titles_are_charged_to_the_budget_of_the_run_or_omitted() -> None:
    model, budget = ScriptedModel.saying("Rome"), FakeBudget(77)
    assert await write_title(model, "Plan my trip", "Gladly.", TitleConfig(), budget=budget) == "Rome"
    assert model.requests[0].options["max_tokens"] == 77
    assert budget.settled[0] is not None and budget.settled[0].counts.output_tokens == 1
    title = await write_title(model, "Plan my trip", "Gladly.", TitleConfig(), budget=FakeBudget(None))
    assert title == "Plan my trip" and len(model.requests) == 1


def test_long_texts_are_truncated_and_lines_joined() -> None:
    assert truncate_title("Plan\n my   trip, please, to the sea", 15) == "Plan my trip…"
    assert truncate_title("x" * 50, 12) == "x" * 11 + "…"
    assert truncate_title(" \n", 12) == ""


async def test_a_thread_gets_its_title_once() -> None:
    graph = create_agent(
        ScriptedModel.saying("Gladly.", "Yes."),
        middleware=[TitleMiddleware(TitleConfig())],
        state_schema=ThreadState,
        checkpointer=InMemorySaver(),
    )
    await graph.ainvoke({"messages": [("user", "Plan my trip")]}, CONFIG)  # type: ignore[list-item]
    state = await graph.ainvoke({"messages": [("user", "More")]}, CONFIG)  # type: ignore[list-item]
    assert state["title"] == "Plan my trip"


def test_titles_can_be_disabled() -> None:
    middleware = TitleMiddleware(TitleConfig(enabled=False))
    graph = create_agent(ScriptedModel.saying("Gladly."), middleware=[middleware], state_schema=ThreadState)
    assert "title" not in graph.invoke({"messages": [("user", "Plan my trip")]})  # type: ignore[list-item]
