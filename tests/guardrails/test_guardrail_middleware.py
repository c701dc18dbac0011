"""Tests of the guardrail middleware."""

from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from deerflow.agent_support.thread_state import ThreadState
from deerflow.config.sections.guardrails import GuardrailProviderConfig
from deerflow.domain.errors import ConfigError
from deerflow.guardrails.middleware import GuardrailMiddleware
from deerflow.guardrails.providers import (
    AllowlistProvider,
    GuardrailDecision,
    GuardrailRequest,
    create_provider,
)
from deerflow.testing import ScriptedModel, calling

ALLOWLIST = "deerflow.guardrails.providers:AllowlistProvider"


@tool
def wipe(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@dataclass
class RecordingProvider:
    """Provider that allows everything and records its requests."""

    name: str = "recorder"
    requests: list[GuardrailRequest] = field(default_factory=list)

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        self.requests.append(request)
        return GuardrailDecision(allow=True)


class FailingProvider:
    """Provider that raises."""

    name = "broken"

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        raise ConnectionError("policy server is unreachable")


class InterruptingProvider:
    """Provider that interrupts the run."""

    name = "asking"

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return GuardrailDecision(allow=interrupt("may I?") == "yes")


def create_guarded_agent(guardrail: GuardrailMiddleware, **options: Any) -> Any:
    model = ScriptedModel.saying(calling("wipe", path="/a"), "Done.")
    return create_agent(model, [wipe], middleware=[guardrail], state_schema=ThreadState, **options)


async def run_tool_call(guardrail: GuardrailMiddleware) -> Any:
    messages = (await create_guarded_agent(guardrail).ainvoke({"messages": [HumanMessage("go")]}))["messages"]
    assert messages[-1].text == "Done."
    return messages[-2]


async def test_refused_call_returns_the_reason() -> None:
    result = await run_tool_call(GuardrailMiddleware(AllowlistProvider(denied_tools=["wipe"])))
    assert result.status == "error"
    assert result.text == (
        "Error: wipe was not called, for it is not allowed: wipe is among the tools that must not be used here. "
        "Do not try it again; find another way or say so."
    )


@pytest.mark.parametrize(("fail_closed", "text"), [(True, "the check of this call failed"), (False, "/a is gone")])
async def test_fail_closed_decides_when_the_provider_fails(fail_closed: bool, text: str) -> None:
    assert text in (await run_tool_call(GuardrailMiddleware(FailingProvider(), fail_closed))).text


async def test_provider_may_interrupt_the_run() -> None:
    agent = create_guarded_agent(GuardrailMiddleware(InterruptingProvider()), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    assert (await agent.ainvoke({"messages": [HumanMessage("go")]}, config))["__interrupt__"][0].value == "may I?"
    messages = (await agent.ainvoke(Command(resume="yes"), config))["messages"]
    assert messages[-2].text == "/a is gone"


async def test_provider_receives_the_tool_call() -> None:
    recorder = RecordingProvider()
    await run_tool_call(GuardrailMiddleware(recorder, is_subagent=True))
    (request,) = recorder.requests
    assert (request.tool_name, dict(request.tool_input), request.tool_call_id) == ("wipe", {"path": "/a"}, "call_1_0")
    assert request.is_subagent and request.timestamp.tzinfo is UTC
    assert request.thread_id is None  # no harness, so no run


def test_synchronous_call_is_refused_too() -> None:
    agent = create_guarded_agent(GuardrailMiddleware(AllowlistProvider(allowed_tools=["look"])))
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
async def test_denied_tools_override_allowed_tools(provider: AllowlistProvider, is_allowed: bool) -> None:
    result = await run_tool_call(GuardrailMiddleware(provider))
    assert (result.text == "/a is gone") is is_allowed


def test_creates_provider_from_settings() -> None:
    provider = create_provider(GuardrailProviderConfig(use=ALLOWLIST, config={"denied_tools": ["wipe"]}))
    assert isinstance(provider, AllowlistProvider)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (GuardrailProviderConfig(use="deerflow.nowhere:X"), "there is no module"),
        (GuardrailProviderConfig(use=ALLOWLIST, config={"allowed": []}), "invalid guardrails.provider.config"),
        (GuardrailProviderConfig(use="pathlib:Path"), "has no `name` and `aevaluate"),
    ],
)
def test_reports_invalid_provider_settings(settings: GuardrailProviderConfig, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        create_provider(settings)
