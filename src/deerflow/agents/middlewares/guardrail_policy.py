"""Judges calls by the rules of a policy: the first that fits decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from deerflow.agents.middlewares.guardrail_facts import Facts
from deerflow.agents.middlewares.guardrails import GuardrailDecision, GuardrailReason, GuardrailRequest
from deerflow.config.patterns import Pattern, compile_linear
from deerflow.config.policy import ArgumentRule, PolicyConfig, PolicyRule, shipped_policy
from deerflow.domain.reading import host_of

ANY_ARGUMENT = "*"
NO_AGENT, PAGE = "default", "web"
OTHERWISE = "otherwise"
MAX_KEPT_PATTERNS = 256


class PolicyProvider:
    """Decides by rules. A fact that cannot be had is a fault, which whoever asks takes for a refusal."""

    name = "policy"

    def __init__(self, policy: PolicyConfig | None = None) -> None:
        own = policy or PolicyConfig()
        shipped = shipped_policy().rules if own.shipped_rules else ()
        self._rules = tuple(PreparedRule(rule) for rule in (*own.rules, *shipped))
        self._otherwise = own.otherwise

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        for prepared in self._rules:
            if await prepared.fits(request):
                rule = prepared.rule
                return decided(rule.outcome, rule.name, rule.reason)
        return decided(self._otherwise, OTHERWISE, "no rule of the policy allows it")


def decided(outcome: str, rule: str, reason: str) -> GuardrailDecision:
    """A decision as a rule has it."""
    if outcome == "allow":
        return GuardrailDecision(allow=True, policy_id=rule)
    return GuardrailDecision(False, (GuardrailReason(rule, reason),), rule, ask=outcome == "ask")


@dataclass(frozen=True)
class PreparedRule:
    """A rule that is ready to be compared with calls."""

    rule: PolicyRule

    async def fits(self, request: GuardrailRequest) -> bool:
        """Whether a call is of the kind the rule is about; what costs something to know is asked last."""
        return self._fits_tool(request) and self._fits_caller(request) and await self._fits_thread(request)

    def _fits_tool(self, request: GuardrailRequest) -> bool:
        rule, tool = self.rule, request.tool
        if not any(fnmatchcase(request.tool_name, pattern) for pattern in rule.tool):
            return False
        return (
            (rule.source is None or tool.source in rule.source)
            and like(tool.server or "", rule.server)
            and rule.reaches_out in (None, tool.reaches_out)
        )

    def _fits_caller(self, request: GuardrailRequest) -> bool:
        rule = self.rule
        return (
            like(request.agent_id or NO_AGENT, rule.agent)
            and like(request.user_id or "", rule.user)
            and like(request.channel or PAGE, rule.channel)
            and rule.subagent in (None, request.is_subagent)
        )

    async def _fits_thread(self, request: GuardrailRequest) -> bool:
        rule = self.rule
        if ANY_ARGUMENT in rule.arguments and not (request.tool_input or request.undeclared):
            return False
        if rule.untrusted is not None or rule.elsewhere is not None:
            sources = await request.facts.untrusted_from()
            if rule.untrusted not in (None, bool(sources)):
                return False
            if rule.elsewhere not in (None, any(source != request.tool.voice for source in sources)):
                return False
        for name, expected in self._arguments:
            if not await fits_argument(expected, name, request):
                return False
        return True

    @cached_property
    def _arguments(self) -> Sequence[tuple[str, ArgumentRule]]:
        return tuple(self.rule.arguments.items())


async def fits_argument(expected: ArgumentRule, name: str, request: GuardrailRequest) -> bool:
    """Whether an argument is as a rule has it; one that is not given is like nothing."""
    arguments, facts = request.tool_input, request.facts
    if name == ANY_ARGUMENT:
        # One by one, for to know a value may cost a look at the journal.
        for value in (*arguments.values(), *request.undeclared):
            if await matches(expected, value, facts) != expected.negated:
                return True
        return False
    if name not in arguments:
        return expected.negated
    return await matches(expected, arguments[name], facts) != expected.negated


async def matches(expected: ArgumentRule, value: object, facts: Facts) -> bool:
    """Whether everything that a rule says of an argument holds."""
    text = value if isinstance(value, str) else ""
    return (
        (expected.equals is None or (type(value) is type(expected.equals) and value == expected.equals))
        and like(text, expected.glob)
        and (expected.regex is None or linear(expected.regex).search(text) is not None)
        and (expected.host is None or (bool(host_of(text)) and like(host_of(text), expected.host)))
        and (expected.known is None or await facts.is_known(value) == expected.known)
        and (expected.ordinary is None or await facts.is_ordinary(value) == expected.ordinary)
    )


def like(text: str, patterns: Sequence[str] | None) -> bool:
    """Whether a text is like one of the patterns, or nothing is said of it."""
    return patterns is None or any(fnmatchcase(text, pattern) for pattern in patterns)


@lru_cache(MAX_KEPT_PATTERNS)
def linear(regex: str) -> Pattern:
    """An expression of a policy, compiled once."""
    return compile_linear(regex)
