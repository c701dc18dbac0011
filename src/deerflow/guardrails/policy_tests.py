"""Test cases of a policy: calls, their context, and the expected decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from pydantic import Field

from deerflow.config.loader.files import parse_yaml, read_text
from deerflow.config.loader.validation import validate
from deerflow.config.sections.base import Section
from deerflow.config.sections.guardrails import Outcome, PolicyConfig, ToolSource, read_package_file
from deerflow.domain.taint import UNTRUSTED_MARK
from deerflow.guardrails.call_context import ThreadCallContext, ToolTraits
from deerflow.guardrails.policy import PolicyProvider
from deerflow.guardrails.providers import GuardrailDecision, GuardrailRequest

SHIPPED_CASES = "policy.default.cases.yaml"


class CaseCall(Section):
    """Tool call of a case."""

    tool: str = Field(min_length=1, description="The tool that is called.")
    arguments: Mapping[str, Any] = Field(default_factory=dict, description="What it is called with.")
    source: ToolSource = Field(default="builtin", description="Where the tool comes from.")
    server: str | None = Field(default=None, description="The MCP server that offers it.")
    reaches_out: bool = Field(default=True, description="Whether it can send something elsewhere.")
    agent: str | None = Field(default=None, description="The custom agent that calls.")
    user: str | None = Field(default=None, description="Whose thread it is.")
    channel: str | None = Field(default=None, description="Where the message came from.")
    subagent: bool = Field(default=False, description="Whether a subagent calls.")


class CaseContent(Section):
    """Content that was read in the thread."""

    source: str = Field(alias="from", min_length=1, description="A tool, `mcp:` and a server, or `uploads`.")
    text: str = Field(default="", description="What it said.")


class PolicyCase(Section):
    """Test case."""

    name: str = Field(min_length=1, description="What is shown with it.")
    call: CaseCall
    wrote: tuple[str, ...] = Field(default=(), strict=False, description="What the user wrote.")
    read: tuple[CaseContent, ...] = Field(default=(), strict=False, description="What was read before the call.")
    expect: Outcome = Field(description="What is to become of it.")
    rule: str | None = Field(default=None, description="The rule that is to decide.")


class PolicyCases(Section):
    """File of test cases."""

    cases: tuple[PolicyCase, ...] = Field(strict=False, min_length=1)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Result of a test case."""

    case: str
    expected: Outcome
    outcome: Outcome
    rule: str
    passed: bool


def read_cases(file: Path | None) -> Sequence[PolicyCase]:
    """Read the test cases in a file, or those of the default policy.

    Raises:
        ConfigError: The file is invalid; the text says what and where.
    """
    name = file.name if file is not None else SHIPPED_CASES
    text = read_text(file, name) if file is not None else read_package_file(SHIPPED_CASES)
    return validate(PolicyCases, parse_yaml(text, name)).cases


async def run_cases(policy: PolicyConfig, cases: Sequence[PolicyCase]) -> list[CaseResult]:
    """Return the result of each case under a policy."""
    provider = PolicyProvider(policy)
    return [check_case(case, await provider.aevaluate(case_request(case))) for case in cases]


def check_case(case: PolicyCase, decision: GuardrailDecision) -> CaseResult:
    """Compare a decision with the expected one."""
    outcome, rule = decision_outcome(decision), decision.policy_id or ""
    return CaseResult(case.name, case.expect, outcome, rule, outcome == case.expect and case.rule in (None, rule))


def decision_outcome(decision: GuardrailDecision) -> Outcome:
    """Return a decision as one word."""
    return "allow" if decision.allow else "ask" if decision.ask else "deny"


def case_request(case: PolicyCase) -> GuardrailRequest:
    """Return the call of a case as a guardrail request."""
    call = case.call
    tool = ToolTraits(call.source, call.server, call.reaches_out)
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
        context=ThreadCallContext(case_messages(case), sources, None, tool, call.subagent),
    )


def case_messages(case: PolicyCase) -> list[AnyMessage]:
    """Return the thread of a case."""
    wrote: list[AnyMessage] = [HumanMessage(text) for text in case.wrote]
    return wrote + [
        ToolMessage(reading.text, tool_call_id="read", additional_kwargs={UNTRUSTED_MARK: reading.source})
        for reading in case.read
    ]
