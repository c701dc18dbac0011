"""Tool calls that have to be allowed first."""

from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from deerflow.agents.middlewares.guardrail_middleware import GuardrailMiddleware
from deerflow.agents.middlewares.guardrails import (
    AllowlistProvider,
    GuardrailDecision,
    GuardrailRequest,
    create_provider,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.config.guardrails import GuardrailProviderConfig
from deerflow.domain.errors import ConfigError
from deerflow.testing import ScriptedModel, calling

ALLOWLIST = "deerflow.agents.middlewares.guardrails:AllowlistProvider"


@tool
def wipe(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@dataclass
class Witness:
    """Allows everything and remembers what it was asked."""

    name: str = "witness"
    asked: list[GuardrailRequest] = field(default_factory=list)

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        self.asked.append(request)
        return GuardrailDecision(allow=True)


class Broken:
    """Cannot decide."""

    name = "broken"

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        raise ConnectionError("the policy server is away")


class Asking:
    """Has a person decide."""

    name = "asking"

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return GuardrailDecision(allow=interrupt("may I?") == "yes")


def agent_with(guardrail: GuardrailMiddleware, **options: Any):
    model = ScriptedModel.saying(calling("wipe", path="/a"), "Done.")
    return create_agent(model, [wipe], middleware=[guardrail], state_schema=ThreadState, **options)


async def result_with(guardrail: GuardrailMiddleware) -> Any:
    messages = (await agent_with(guardrail).ainvoke({"messages": [HumanMessage("go")]}))["messages"]
    assert messages[-1].text == "Done."
    return messages[-2]


async def test_a_call_that_is_not_allowed_is_answered_with_the_reason() -> None:
    result = await result_with(GuardrailMiddleware(AllowlistProvider(denied_tools=["wipe"])))
    assert result.status == "error"
    assert result.text == (
        "Error: wipe was not called, for it is not allowed: wipe is among the tools that must not be used here. "
        "Do not try it again; find another way or say so."
    )


@pytest.mark.parametrize(("fail_closed", "text"), [(True, "the check of this call failed"), (False, "/a is gone")])
async def test_when_the_check_fails_the_setting_decides(fail_closed: bool, text: str) -> None:
    assert text in (await result_with(GuardrailMiddleware(Broken(), fail_closed))).text


async def test_a_provider_may_have_a_person_decide() -> None:
    agent = agent_with(GuardrailMiddleware(Asking()), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert (await agent.ainvoke({"messages": [HumanMessage("go")]}, config))["__interrupt__"][0].value == "may I?"
    messages = (await agent.ainvoke(Command(resume="yes"), config))["messages"]
    assert messages[-2].text == "/a is gone"


async def test_the_provider_is_told_what_is_about_to_happen() -> None:
    witness = Witness()
    await result_with(GuardrailMiddleware(witness, is_subagent=True))
    (request,) = witness.asked
    assert (request.tool_name, dict(request.tool_input), request.tool_call_id) == ("wipe", {"path": "/a"}, "call_1_0")
    assert request.is_subagent and request.timestamp.tzinfo is UTC
    assert request.thread_id is None  # used bare, without a run


def test_the_sync_face_refuses_too() -> None:
    agent = agent_with(GuardrailMiddleware(AllowlistProvider(allowed_tools=["look"])))
    messages = agent.invoke({"messages": [HumanMessage("go")]})["messages"]
    assert "wipe is not among the tools that may be used here" in messages[-2].text


@pytest.mark.parametrize(
    ("provider", "is_allowed"),
    [
        (AllowlistProvider(), True),
        (AllowlistProvider(allowed_tools=["wipe"]), True),
        (AllowlistProvider(allowed_tools=[]), False),
        (AllowlistProvider(allowed_tools=["wipe"], denied_tools=["wipe"]), False),
    ],
)
async def test_what_is_denied_stays_denied(provider: AllowlistProvider, is_allowed: bool) -> None:
    result = await result_with(GuardrailMiddleware(provider))
    assert (result.text == "/a is gone") is is_allowed


def test_a_provider_is_made_from_its_settings() -> None:
    made = create_provider(GuardrailProviderConfig(use=ALLOWLIST, config={"denied_tools": ["wipe"]}))
    assert isinstance(made, AllowlistProvider)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (GuardrailProviderConfig(use="deerflow.nowhere:X"), "there is no module"),
        (GuardrailProviderConfig(use=ALLOWLIST, config={"allowed": []}), "does not suit"),
        (GuardrailProviderConfig(use="pathlib:Path"), "has no `name` and `aevaluate"),
    ],
)
def test_a_provider_that_cannot_be_made_is_named(settings: GuardrailProviderConfig, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        create_provider(settings)
