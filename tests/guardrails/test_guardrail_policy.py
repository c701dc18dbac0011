"""Tests of policy rules."""

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from deerflow.config.sections.guardrails import PolicyConfig, parse_policy
from deerflow.guardrails.call_context import EgressCapability, ThreadCallContext, ToolTraits
from deerflow.guardrails.policy import PolicyProvider, decision_outcome, read_cases, run_cases
from deerflow.guardrails.providers import AllowlistProvider, CombinedProvider, GuardrailDecision, GuardrailRequest


def request(tool: str = "send", *, reads: str | None = None, wrote: str = "", **more: Any) -> GuardrailRequest:
    traits = more.pop("traits", ToolTraits())
    messages: list[AnyMessage] = [HumanMessage(wrote)]
    if reads is not None:
        messages.append(ToolMessage(reads, tool_call_id="1", additional_kwargs={"untrusted": "web_fetch"}))
    sources = ["web_fetch"] if reads is not None else []
    context = ThreadCallContext(messages, sources, None, traits)
    arguments = more.pop("arguments", {})
    return GuardrailRequest(tool, arguments, "1", datetime.now(UTC), tool=traits, context=context, **more)


async def outcome(rule: str, call: GuardrailRequest) -> str:
    policy = parse_policy(f"shipped_rules: false\nrules: [{{name: x, outcome: deny, reason: r, {rule}}}]")
    return decision_outcome(await PolicyProvider(policy).aevaluate(call))


@pytest.mark.parametrize(
    ("rule", "call", "matches"),
    [
        ("tool: send", request(), True),
        ("tool: [read, 'se*']", request(), True),
        ("tool: SEND", request(), False),
        ("source: mcp", request(traits=ToolTraits("mcp", "crm")), True),
        ("source: [web, configured]", request(traits=ToolTraits("mcp", "crm")), False),
        ("server: 'c*'", request(traits=ToolTraits("mcp", "crm")), True),
        ("server: wiki", request(traits=ToolTraits("mcp", "crm")), False),
        ("agent: default", request(), True),
        ("agent: ada", request(agent_id="ada"), True),
        ("agent: ada", request(), False),
        ("user: [ann, bob]", request(user_id="bob"), True),
        ("user: ann", request(user_id="bob"), False),
        ("channel: web", request(), True),
        ("channel: slack", request(channel="slack"), True),
        ("channel: slack", request(), False),
        ("subagent: true", request(is_subagent=True), True),
        ("subagent: true", request(), False),
        ("reaches_out: false", request(traits=ToolTraits(reaches_out=False)), True),
        ("reaches_out: false", request(), False),
        ("untrusted: true", request(reads="a page"), True),
        ("untrusted: true", request(), False),
        ("untrusted: false", request(), True),
        ("elsewhere: true", request(reads="a page", traits=ToolTraits("mcp", "crm")), True),
        ("elsewhere: false", request(traits=ToolTraits("mcp", "crm")), True),
        ("arguments: {to: {equals: a@b.c}}", request(arguments={"to": "a@b.c"}), True),
        ("arguments: {to: {equals: a@b.c}}", request(arguments={"to": "A@b.c"}), False),
        ("arguments: {n: {equals: 1}}", request(arguments={"n": 1}), True),
        ("arguments: {n: {equals: 1}}", request(arguments={"n": True}), False),
        ("arguments: {n: {equals: 1}}", request(arguments={"n": "1"}), False),
        ("arguments: {p: {glob: '/etc/*'}}", request(arguments={"p": "/etc/passwd"}), True),
        ("arguments: {p: {glob: '/etc/*'}}", request(arguments={"p": ["/etc/passwd"]}), False),
        ("arguments: {p: {glob: '/tmp/*', negated: true}}", request(arguments={"p": "/etc/passwd"}), True),
        ("arguments: {p: {glob: '/tmp/*', negated: true}}", request(arguments={"p": "/tmp/x"}), False),
        ("arguments: {p: {glob: '*'}}", request(), False),
        ("arguments: {p: {glob: '*', negated: true}}", request(), True),
        ("arguments: {c: {regex: 'rm\\s+-rf'}}", request(arguments={"c": "sudo rm  -rf /"}), True),
        ("arguments: {c: {regex: '^(a+)+$'}}", request(arguments={"c": "a" * 100_000 + "!"}), False),
        ("arguments: {u: {host: '*.example.org'}}", request(arguments={"u": "https://A.Example.org/x"}), True),
        ("arguments: {u: {host: example.org}}", request(arguments={"u": "https://example.org.evil/x"}), False),
        ("arguments: {u: {host: example.org}}", request(arguments={"u": "https://evil/example.org"}), False),
        ("arguments: {u: {host: example.org}}", request(arguments={"u": "https://[broken"}), False),
        ("arguments: {u: {host: '*'}}", request(arguments={"u": "no address"}), False),
        ("arguments: {'*': {glob: '*CANARY*'}}", request(arguments={"a": "x", "b": "my CANARY"}), True),
        ("arguments: {'*': {known: false}}", request(arguments={"a": "x"}, wrote="x y"), False),
        ("arguments: {'*': {known: false}}", request(arguments={}, undeclared=("CANARY",)), True),
        ("arguments: {q: {ordinary: false}}", request(arguments={"q": "plain words"}), False),
        ("arguments: {q: {ordinary: false}}", request(arguments={"q": "words " * 200}), True),
        ("arguments: {q: {ordinary: true}}", request(arguments={"q": "the year 2026"}), True),
        ("arguments: {q: {ordinary: true}}", request(arguments={"q": "k3y"}), False),
        ("arguments: {q: {ordinary: true}}", request(arguments={"q": "k3y"}, wrote="my K3Y"), True),
        ("tool: send, agent: ada", request(), False),
    ],
)
async def test_rule_matches_calls_that_meet_all_conditions(rule: str, call: GuardrailRequest, matches: bool) -> None:
    assert await outcome(rule, call) == ("deny" if matches else "allow")


@pytest.mark.parametrize(
    ("url", "text", "is_known"),
    [
        ("https://a.org/x", "see https://a.org/x.", True),
        ("https://a.org/x", "[it](https://a.org/x)", True),
        ("https://a.org/x", "<https://a.org/x>, or", True),
        ("https://a.org/x", '{"url":"https://a.org/x"}', True),
        ("https://a.org/x/", "HTTP://A.ORG/x", True),
        ("http://a.org", "look at a.org please", True),
        ("https://a.org/x", "https://a.org/x#part", True),
        ("https://a.org/x?a=1&b=2", "https://a.org/x?a=1&b=2", True),
        ("https://a.org/X", "https://a.org/x", False),
        ("https://a.org/x", "https://a.org/xyz", False),
        ("https://a.org/x", "https://a.org/x?q=1", False),
        ("https://a.org/x?q=CANARY", "https://a.org/x?q=", False),
        ("https://a.org/x#CANARY", "https://a.org/x", False),
        ("https://CANARY:1@a.org/x", "https://a.org/x", False),
        ("https://a.org:8080/x", "https://a.org/x", False),
        ("https://[::1", "https://[::1", False),
    ],
)
async def test_url_is_known_when_it_occurs_unchanged(url: str, text: str, is_known: bool) -> None:
    context = request(reads=text).context
    assert await context.is_known(url) is is_known
    assert await request(wrote=text).context.is_known(url) is is_known


async def test_first_matching_rule_decides_and_own_rules_precede_shipped_rules() -> None:
    policy = parse_policy("rules: [{name: mine, tool: web_fetch, outcome: allow, reason: r}]")
    call = request("web_fetch", reads="x", arguments={"url": "https://new.example/"}, traits=ToolTraits("web"))
    decision = await PolicyProvider(policy).aevaluate(call)
    assert (decision.allow, decision.policy_id) == (True, "mine")
    shipped = await PolicyProvider(PolicyConfig()).aevaluate(call)
    assert (shipped.ask, shipped.policy_id) == (True, "new-address")
    none = await PolicyProvider(parse_policy("{shipped_rules: false, otherwise: deny}")).aevaluate(call)
    assert (none.allow, none.ask) == (False, False)


async def test_strictest_provider_decides() -> None:
    asks = PolicyProvider(parse_policy("{shipped_rules: false, otherwise: ask}"))
    allows, refuses = AllowlistProvider(), AllowlistProvider(denied_tools=["send"])
    assert await CombinedProvider((allows, allows)).aevaluate(request()) == GuardrailDecision(allow=True)
    assert decision_outcome(await CombinedProvider((asks, allows)).aevaluate(request())) == "ask"
    assert decision_outcome(await CombinedProvider((asks, refuses)).aevaluate(request())) == "deny"


async def test_shipped_rules_pass_their_cases() -> None:
    results = await run_cases(PolicyConfig(), read_cases(None))
    assert [result for result in results if not result.passed] == []
    assert {result.outcome for result in results} == {"allow", "ask"}


def test_egress_depends_on_the_kind_of_tool() -> None:
    egress = EgressCapability(commands=True, confined_servers=frozenset({"git"}))
    assert egress.classify(None, "bash").reaches_out and not egress.classify(None, "ls").reaches_out
    assert not EgressCapability().classify(None, "bash").reaches_out
