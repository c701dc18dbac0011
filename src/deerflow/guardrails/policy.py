"""Guardrail provider that evaluates the rules of a policy, the first match decides; and tests of policies."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from pydantic import Field

from deerflow.config import LinearPattern, compile_linear
from deerflow.config.loader.files import FileStamp, parse_yaml, read_text, resolve_from
from deerflow.config.loader.validation import validate
from deerflow.config.sections.base import Section
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.config.sections.guardrails import (
    POLICY_NAME,
    ArgumentRule,
    GuardrailsConfig,
    Outcome,
    PolicyConfig,
    PolicyRule,
    ToolSource,
    load_default_policy,
    make_deny_all_policy,
    read_package_file,
    read_policy,
)
from deerflow.domain.errors import ConfigError
from deerflow.domain.sandbox import is_container
from deerflow.domain.taint import UNTRUSTED_MARK, extract_host
from deerflow.guardrails.call_context import CallContext, ThreadCallContext, ToolTraits
from deerflow.guardrails.providers import GuardrailDecision, GuardrailReason, GuardrailRequest

ANY_ARGUMENT = "*"
DEFAULT_AGENT, DEFAULT_CHANNEL = "default", "web"
OTHERWISE = "otherwise"
MAX_KEPT_PATTERNS = 256


class PolicyProvider:
    """Decides by rules. An error while evaluating a condition propagates; the middleware then applies `fail_closed`."""

    name = "policy"

    def __init__(self, policy: PolicyConfig | None = None) -> None:
        own = policy or PolicyConfig()
        shipped = load_default_policy().rules if own.shipped_rules else ()
        self._rules = tuple(CompiledRule(rule) for rule in (*own.rules, *shipped))
        self._otherwise = own.otherwise

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        for compiled in self._rules:
            if await compiled.matches(request):
                rule = compiled.rule
                return make_decision(rule.outcome, rule.name, rule.reason, rule.allow_in_thread)
        return make_decision(self._otherwise, OTHERWISE, "no rule of the policy allows it")


def make_decision(outcome: str, rule: str, reason: str, allow_in_thread: bool = True) -> GuardrailDecision:
    """Return the decision for the outcome of a rule."""
    if outcome == "allow":
        return GuardrailDecision(allow=True, policy_id=rule)
    reasons, asks = (GuardrailReason(rule, reason),), outcome == "ask"
    return GuardrailDecision(False, reasons, rule, ask=asks, allow_in_thread=asks and allow_in_thread)


@dataclass(frozen=True)
class CompiledRule:
    """Rule prepared for matching against calls."""

    rule: PolicyRule

    async def matches(self, request: GuardrailRequest) -> bool:
        """Return whether the rule applies to a call. Expensive conditions are checked last."""
        return self._matches_tool(request) and self._matches_caller(request) and await self._matches_thread(request)

    def _matches_tool(self, request: GuardrailRequest) -> bool:
        rule, tool = self.rule, request.tool
        if not any(fnmatchcase(request.tool_name, pattern) for pattern in rule.tool):
            return False
        return (
            (rule.source is None or tool.source in rule.source)
            and match_any_glob(tool.server or "", rule.server)
            and rule.reaches_out in (None, tool.reaches_out)
        )

    def _matches_caller(self, request: GuardrailRequest) -> bool:
        rule = self.rule
        return (
            match_any_glob(request.agent_id or DEFAULT_AGENT, rule.agent)
            and match_any_glob(request.user_id or "", rule.user)
            and match_any_glob(request.channel or DEFAULT_CHANNEL, rule.channel)
            and rule.subagent in (None, request.is_subagent)
        )

    async def _matches_thread(self, request: GuardrailRequest) -> bool:
        rule = self.rule
        if ANY_ARGUMENT in rule.arguments and not (request.tool_input or request.undeclared):
            return False
        if rule.untrusted is not None or rule.elsewhere is not None:
            sources = await request.context.untrusted_sources()
            if rule.untrusted not in (None, bool(sources)):
                return False
            if rule.elsewhere not in (None, any(source != request.tool.taint_source for source in sources)):
                return False
        for name, expected in self._arguments:
            if not await match_argument(expected, name, request):
                return False
        return True

    @cached_property
    def _arguments(self) -> Sequence[tuple[str, ArgumentRule]]:
        return tuple(self.rule.arguments.items())


async def match_argument(expected: ArgumentRule, name: str, request: GuardrailRequest) -> bool:
    """Return whether an argument satisfies its condition. A missing argument only satisfies a negated one."""
    arguments, context = request.tool_input, request.context
    if name == ANY_ARGUMENT:
        # One at a time, because `known` may read the journal.
        for value in (*arguments.values(), *request.undeclared):
            if await match_value(expected, value, context) != expected.negated:
                return True
        return False
    if name not in arguments:
        return expected.negated
    return await match_value(expected, arguments[name], context) != expected.negated


async def match_value(expected: ArgumentRule, value: object, context: CallContext) -> bool:
    """Return whether a value satisfies all parts of a condition."""
    text = value if isinstance(value, str) else ""
    return (
        (expected.equals is None or (type(value) is type(expected.equals) and value == expected.equals))
        and match_any_glob(text, expected.glob)
        and (expected.regex is None or compile_pattern(expected.regex).search(text) is not None)
        and (expected.host is None or (bool(extract_host(text)) and match_any_glob(extract_host(text), expected.host)))
        and (expected.known is None or await context.is_known(value) == expected.known)
        and (expected.ordinary is None or await context.is_ordinary(value) == expected.ordinary)
    )


def match_any_glob(text: str, patterns: Sequence[str] | None) -> bool:
    """Return whether a text matches one of the glob patterns. No patterns match everything."""
    return patterns is None or any(fnmatchcase(text, pattern) for pattern in patterns)


@lru_cache(MAX_KEPT_PATTERNS)
def compile_pattern(regex: str) -> LinearPattern:
    """Return a compiled regular expression of a policy, cached."""
    return compile_linear(regex)


logger = logging.getLogger(__name__)


class PolicyFile:
    """Reader of the policy file. An invalid file denies every tool call until it is corrected."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds the policy unless the configuration names another path."""
        self._folder = folder
        self._stamp: FileStamp | None = None
        self._policy = PolicyConfig()

    def read(self, config: GuardrailsConfig) -> PolicyConfig:
        """Return the policy in the file. A default file may be missing.

        Raises:
            ConfigError: The file cannot be read or is not a policy.
        """
        path = self._path(config)
        if not config.enabled or (config.policy is None and FileStamp.read(path).state is None):
            return PolicyConfig()
        return read_policy(path)

    def current(self, config: GuardrailsConfig) -> PolicyConfig:
        """Return the policy as the file is now. If it is invalid, return one that denies every call and says why."""
        if not config.enabled:
            return PolicyConfig()
        stamp = FileStamp.read(self._path(config))
        if stamp != self._stamp:
            self._policy = self._read_or_deny(config)
            self._stamp = stamp
        return self._policy

    def _read_or_deny(self, config: GuardrailsConfig) -> PolicyConfig:
        try:
            return self.read(config)
        except ConfigError as problem:
            logger.error("the policy is invalid, all tool calls are denied until it is corrected:\n%s", problem)
            return make_deny_all_policy(problem)

    def _path(self, config: GuardrailsConfig) -> Path:
        return resolve_from(self._folder, Path(config.policy or POLICY_NAME))


def isolated_servers(servers: Mapping[str, McpServerConfig], *, can_isolate: bool) -> frozenset[str]:
    """Return the names of the MCP servers that run without network access."""
    return frozenset(name for name, server in servers.items() if is_isolated(server, can_isolate=can_isolate))


def is_isolated(server: McpServerConfig, *, can_isolate: bool) -> bool:
    """Return whether an MCP server runs without network access.

    Args:
        server: Its entry.
        can_isolate: Whether processes on this machine are isolated. Those of the host have its network, whatever the
            entry says; containers are isolated by their engine.
    """
    is_enforced = can_isolate or is_container([server.command or ""])
    return server.type == "stdio" and is_enforced and not server.network_access


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
