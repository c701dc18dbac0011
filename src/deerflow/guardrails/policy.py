"""Guardrail provider that evaluates the rules of a policy; the first matching rule decides."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path

from deerflow.config import LinearPattern, compile_linear
from deerflow.config.loader.files import FileStamp, resolve_from
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.config.sections.guardrails import (
    POLICY_NAME,
    ArgumentRule,
    GuardrailsConfig,
    PolicyConfig,
    PolicyRule,
    load_default_policy,
    make_deny_all_policy,
    read_policy,
)
from deerflow.domain.errors import ConfigError
from deerflow.domain.taint import extract_host
from deerflow.guardrails.call_context import CallContext
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
                return make_decision(rule.outcome, rule.name, rule.reason)
        return make_decision(self._otherwise, OTHERWISE, "no rule of the policy allows it")


def make_decision(outcome: str, rule: str, reason: str) -> GuardrailDecision:
    """Return the decision for the outcome of a rule."""
    if outcome == "allow":
        return GuardrailDecision(allow=True, policy_id=rule)
    return GuardrailDecision(False, (GuardrailReason(rule, reason),), rule, ask=outcome == "ask")


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


def isolated_servers(servers: Mapping[str, McpServerConfig]) -> frozenset[str]:
    """Return the names of the MCP servers that run in a sandbox without network access."""
    return frozenset(name for name, server in servers.items() if is_isolated(server))


def is_isolated(server: McpServerConfig) -> bool:
    """Return whether an MCP server runs in a sandbox without network access."""
    return server.type == "stdio" and not server.has_network
