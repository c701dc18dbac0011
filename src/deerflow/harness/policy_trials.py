"""Cases for a policy: calls, what is known when they are made, and what is to become of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from pydantic import Field

from deerflow.agents.middlewares.guardrail_facts import CallFacts, ToolFacts
from deerflow.agents.middlewares.guardrail_policy import PolicyProvider
from deerflow.agents.middlewares.guardrails import GuardrailDecision, GuardrailRequest
from deerflow.config.files import read_text
from deerflow.config.policy import Outcome, PolicyConfig, ToolSource, shipped_text
from deerflow.config.reading.text import parse_yaml
from deerflow.config.reading.validation import validate
from deerflow.config.section import Section
from deerflow.domain.reading import UNTRUSTED_MARK

SHIPPED_CASES = "policy.default.cases.yaml"


class CaseCall(Section):
    """The call of a case."""

    tool: str = Field(min_length=1, description="The tool that is called.")
    arguments: Mapping[str, Any] = Field(default_factory=dict, description="What it is called with.")
    source: ToolSource = Field(default="builtin", description="Where the tool comes from.")
    server: str | None = Field(default=None, description="The MCP server that offers it.")
    reaches_out: bool = Field(default=True, description="Whether it can send something elsewhere.")
    agent: str | None = Field(default=None, description="The custom agent that calls.")
    user: str | None = Field(default=None, description="Whose thread it is.")
    channel: str | None = Field(default=None, description="Where the message came from.")
    subagent: bool = Field(default=False, description="Whether a subagent calls.")


class CaseReading(Section):
    """Something that was read in the thread."""

    source: str = Field(alias="from", min_length=1, description="A tool, `mcp:` and a server, or `uploads`.")
    text: str = Field(default="", description="What it said.")


class PolicyCase(Section):
    """One case."""

    name: str = Field(min_length=1, description="What is shown with it.")
    call: CaseCall
    wrote: tuple[str, ...] = Field(default=(), strict=False, description="What the user wrote.")
    read: tuple[CaseReading, ...] = Field(default=(), strict=False, description="What was read before the call.")
    expect: Outcome = Field(description="What is to become of it.")
    rule: str | None = Field(default=None, description="The rule that is to decide.")


class PolicyCases(Section):
    """A file of cases."""

    cases: tuple[PolicyCase, ...] = Field(strict=False, min_length=1)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a case."""

    case: str
    expected: Outcome
    outcome: Outcome
    rule: str
    passed: bool


def read_cases(file: Path | None) -> Sequence[PolicyCase]:
    """The cases in a file, or those of the rules that come with DeerFlow.

    Raises:
        ConfigError: There are none; the text says what is wrong, and where.
    """
    name = file.name if file is not None else SHIPPED_CASES
    text = read_text(file, name) if file is not None else shipped_text(SHIPPED_CASES)
    return validate(PolicyCases, parse_yaml(text, name)).cases


async def try_cases(policy: PolicyConfig, cases: Sequence[PolicyCase]) -> list[Judged]:
    """What a policy makes of each case."""
    provider = PolicyProvider(policy)
    return [judged(case, await provider.aevaluate(request_of(case))) for case in cases]


def judged(case: PolicyCase, decision: GuardrailDecision) -> Judged:
    """Whether a case came out as it was to."""
    outcome, rule = outcome_of(decision), decision.policy_id or ""
    return Judged(case.name, case.expect, outcome, rule, outcome == case.expect and case.rule in (None, rule))


def outcome_of(decision: GuardrailDecision) -> Outcome:
    """A decision in one word."""
    return "allow" if decision.allow else "ask" if decision.ask else "deny"


def request_of(case: PolicyCase) -> GuardrailRequest:
    """The call of a case as a provider is told of it."""
    call = case.call
    tool = ToolFacts(call.source, call.server, call.reaches_out)
    sources = sorted({reading.source for reading in case.read})
    return GuardrailRequest(
        tool_name=call.tool,
        tool_input=call.arguments,
        tool_call_id="case",
        timestamp=datetime.now(UTC),
        agent_id=call.agent,
        user_id=call.user,
        is_subagent=call.subagent,
        channel=call.channel,
        tool=tool,
        facts=CallFacts(messages_of(case), sources, None, tool, call.subagent),
    )


def messages_of(case: PolicyCase) -> list[AnyMessage]:
    """The thread of a case."""
    wrote: list[AnyMessage] = [HumanMessage(text) for text in case.wrote]
    return wrote + [
        ToolMessage(reading.text, tool_call_id="read", additional_kwargs={UNTRUSTED_MARK: reading.source})
        for reading in case.read
    ]
