"""Rules and the calls they are about."""

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from deerflow.agents.middlewares.guardrail_facts import CallFacts, Reach, ToolFacts
from deerflow.agents.middlewares.guardrail_policy import PolicyProvider
from deerflow.agents.middlewares.guardrails import AllOf, AllowlistProvider, GuardrailDecision, GuardrailRequest
from deerflow.config.policy import PolicyConfig, parse_policy
from deerflow.harness.policy_trials import outcome_of, read_cases, try_cases


def request(tool: str = "send", *, reads: str | None = None, wrote: str = "", **more: Any) -> GuardrailRequest:
    kind = more.pop("kind", ToolFacts())
    messages: list[AnyMessage] = [HumanMessage(wrote)]
    if reads is not None:
        messages.append(ToolMessage(reads, tool_call_id="1", additional_kwargs={"untrusted": "web_fetch"}))
    noted = ["web_fetch"] if reads is not None else []
    facts = CallFacts(messages, noted, None, kind)
    arguments = more.pop("arguments", {})
    return GuardrailRequest(tool, arguments, "1", datetime.now(UTC), tool=kind, facts=facts, **more)


async def outcome(rule: str, asked: GuardrailRequest) -> str:
    policy = parse_policy(f"shipped_rules: false\nrules: [{{name: x, outcome: deny, reason: r, {rule}}}]")
    return outcome_of(await PolicyProvider(policy).aevaluate(asked))


@pytest.mark.parametrize(
    ("rule", "asked", "fits"),
    [
        ("tool: send", request(), True),
        ("tool: [read, 'se*']", request(), True),
        ("tool: SEND", request(), False),
        ("source: mcp", request(kind=ToolFacts("mcp", "crm")), True),
        ("source: [web, configured]", request(kind=ToolFacts("mcp", "crm")), False),
        ("server: 'c*'", request(kind=ToolFacts("mcp", "crm")), True),
        ("server: wiki", request(kind=ToolFacts("mcp", "crm")), False),
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
        ("reaches_out: false", request(kind=ToolFacts(reaches_out=False)), True),
        ("reaches_out: false", request(), False),
        ("untrusted: true", request(reads="a page"), True),
        ("untrusted: true", request(), False),
        ("untrusted: false", request(), True),
        ("elsewhere: true", request(reads="a page", kind=ToolFacts("mcp", "crm")), True),
        ("elsewhere: false", request(kind=ToolFacts("mcp", "crm")), True),
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
async def test_a_rule_is_about_calls_that_are_all_it_says(rule: str, asked: GuardrailRequest, fits: bool) -> None:
    assert await outcome(rule, asked) == ("deny" if fits else "allow")


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
async def test_an_address_is_known_when_it_stands_somewhere_as_it_is(url: str, text: str, is_known: bool) -> None:
    facts = request(reads=text).facts
    assert await facts.is_known(url) is is_known
    assert await request(wrote=text).facts.is_known(url) is is_known


async def test_the_first_rule_that_fits_decides_and_ones_own_come_before_the_shipped() -> None:
    policy = parse_policy("rules: [{name: mine, tool: web_fetch, outcome: allow, reason: r}]")
    asked = request("web_fetch", reads="x", arguments={"url": "https://new.example/"}, kind=ToolFacts("web"))
    decision = await PolicyProvider(policy).aevaluate(asked)
    assert (decision.allow, decision.policy_id) == (True, "mine")
    shipped = await PolicyProvider(PolicyConfig()).aevaluate(asked)
    assert (shipped.ask, shipped.policy_id) == (True, "new-address")
    none = await PolicyProvider(parse_policy("{shipped_rules: false, otherwise: deny}")).aevaluate(asked)
    assert (none.allow, none.ask) == (False, False)


async def test_of_several_the_most_careful_decides() -> None:
    asks = PolicyProvider(parse_policy("{shipped_rules: false, otherwise: ask}"))
    allows, refuses = AllowlistProvider(), AllowlistProvider(denied_tools=["send"])
    assert await AllOf((allows, allows)).aevaluate(request()) == GuardrailDecision(allow=True)
    assert outcome_of(await AllOf((asks, allows)).aevaluate(request())) == "ask"
    assert outcome_of(await AllOf((asks, refuses)).aevaluate(request())) == "deny"


async def test_the_shipped_rules_do_what_their_cases_say() -> None:
    judged = await try_cases(PolicyConfig(), read_cases(None))
    assert [each for each in judged if not each.passed] == []
    assert {each.outcome for each in judged} == {"allow", "ask"}


def test_what_a_tool_can_send_elsewhere_is_known_by_its_kind() -> None:
    reach = Reach(commands=True, confined_servers=frozenset({"git"}))
    assert reach.facts_of(None, "bash").reaches_out and not reach.facts_of(None, "ls").reaches_out
    assert not Reach().facts_of(None, "bash").reaches_out
