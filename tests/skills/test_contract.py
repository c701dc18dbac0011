"""Parsing, merging and enforcement rules of `skill.toml`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.domain.errors import SkillInvalid
from deerflow.domain.sandbox import Confinement
from deerflow.domain.skills import SkillMeter, SkillTerms, merge_terms
from deerflow.sandbox.egress import AllowedHosts
from deerflow.sandbox.local.launcher.network import NetworkMode, NetworkPolicy
from deerflow.skills.contract import Contract, parse_contract, read_contract

WHOLE = b"""
[needs]
tools = ["bash", "read_file"]
paths = ["/mnt/user-data/outputs"]
hosts = ["API.example.org", "*.example.com"]
environment = ["API_KEY"]
packages = ["python-pptx"]

[budget]
seconds = 600
max_tool_calls = 80
"""


def test_parses_a_complete_contract() -> None:
    contract = parse_contract(WHOLE)

    assert contract.terms == SkillTerms(
        Confinement(("/mnt/user-data/outputs",), ("api.example.org", "*.example.com"), frozenset({"API_KEY"})),
        ("python-pptx",),
        600,
        80,
    )


def test_empty_contract_denies_hosts_and_variables_only() -> None:
    contract = parse_contract(b"")

    assert contract.terms == SkillTerms(Confinement(None, (), frozenset()))
    assert contract.restrict_tools(None) is None


@pytest.mark.parametrize(
    ("tools", "allowed", "left"),
    [
        (None, None, None),
        (("bash",), None, ("bash",)),
        (None, ("ls",), ("ls",)),
        (("bash", "ls"), ("ls", "grep"), ("ls",)),
        (("bash",), ("ls",), ()),
    ],
)
def test_allows_tools_named_by_both_skill_md_and_contract(
    tools: tuple[str, ...] | None, allowed: tuple[str, ...] | None, left: tuple[str, ...] | None
) -> None:
    contract = Contract.model_validate({"needs": {"tools": tools}})

    assert contract.restrict_tools(allowed) == left


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[needs]\nhost = []", "skill.toml: needs.host: unknown key; did you mean 'hosts'?"),
        ("[need]\n", "skill.toml: need: unknown key; did you mean 'needs'?"),
        ("hosts = []", "skill.toml: hosts: unknown key here; did you mean 'needs.hosts'?"),
        ("[budget]\nmax_calls = 3", "did you mean 'max_tool_calls'?"),
        ('[needs]\nhosts = ["https://example.org/"]', "without scheme, port or path"),
        ('[needs]\nhosts = "example.org"', "needs.hosts: must be a list"),
        ('[needs]\npaths = ["/etc"]', "must be folders in the sandbox"),
        ('[needs]\npaths = ["/mnt/user-data/outputs/../workspace"]', "must be folders in the sandbox"),
        ('[needs]\npaths = ["/mnt/user-data/workspace/here"]', "write '/mnt/user-data/workspace'"),
        ('[needs]\nenvironment = ["A-B"]', "must be names of letters, digits and '_'"),
        ("[budget]\nseconds = 0", "budget.seconds: must be more than 0"),
        ("[budget]\nmax_tool_calls = 0", "budget.max_tool_calls: must be at least 1"),
        ("[needs", "skill.toml: is not valid TOML"),
        ("a = " + "[" * 3000, "skill.toml: is"),
    ],
)
def test_refuses_invalid_contracts_with_a_reason(text: str, sentence: str) -> None:
    with pytest.raises(SkillInvalid) as rejected:
        parse_contract(text.encode())

    assert sentence in str(rejected.value)


def test_contract_must_be_a_small_utf8_file(tmp_path: Path) -> None:
    assert read_contract(tmp_path) is None
    contract = tmp_path / "skill.toml"
    contract.symlink_to("/etc/hostname")
    with pytest.raises(SkillInvalid, match="cannot be read"):
        read_contract(tmp_path)
    contract.unlink()
    contract.write_bytes(b"\xff")
    with pytest.raises(SkillInvalid, match="not UTF-8"):
        read_contract(tmp_path)
    contract.write_bytes(b"#" * 70_000)
    with pytest.raises(SkillInvalid, match="larger than 64 KB"):
        read_contract(tmp_path)


def test_merged_contracts_allow_the_union() -> None:
    one = SkillTerms(Confinement(("/mnt/a",), ("one.example",), frozenset({"A"})), ("x",))
    other = SkillTerms(Confinement(("/mnt/b",), ("two.example",), frozenset()), ("y",))
    silent = SkillTerms(Confinement(None, (), frozenset()))
    anywhere = SkillTerms(Confinement(None, ("*",), frozenset()))

    together = merge_terms([one, other, silent])

    assert together == SkillTerms(
        Confinement(("/mnt/a", "/mnt/b"), ("one.example", "two.example"), frozenset({"A"})), ("x", "y")
    )
    assert merge_terms([one, anywhere]).confinement.allowed_hosts is None


HOSTS = ("a.example", "x.a.example", "y.x.a.example", "b.example", "x.b.example")
PATTERNS = st.frozensets(st.sampled_from([*HOSTS, *(f"*.{host}" for host in HOSTS), "*.example"]), max_size=4)


@given(PATTERNS, PATTERNS)
def test_intersection_of_host_lists_allows_what_both_allow(one: frozenset[str], other: frozenset[str]) -> None:
    first, second = AllowedHosts.from_patterns(one), AllowedHosts.from_patterns(other)

    both = first.intersect(second)

    for host in (*HOSTS, *(f"z.{host}" for host in HOSTS), "example", "c.example"):
        assert both.allows(host) == (first.allows(host) and second.allows(host))


@pytest.mark.parametrize(
    ("policy", "allowed", "declared", "left"),
    [
        ("none", (), ("a.example",), ("none", "nothing")),
        ("allowlist", ("a.example", "b.example"), ("a.example", "evil.example"), ("allowlist", "a.example")),
        ("allowlist", ("a.example",), ("b.example",), ("none", "nothing")),
        ("allowlist", ("a.example",), ("*",), ("allowlist", "a.example")),
        ("allowlist", ("a.example",), (), ("none", "nothing")),
        ("full", (), ("a.example",), ("allowlist", "a.example")),
        ("full", (), (), ("none", "nothing")),
        ("full", (), ("*",), ("full", "nothing")),
    ],
)
def test_contract_never_extends_the_configured_network(
    policy: NetworkMode, allowed: tuple[str, ...], declared: tuple[str, ...], left: tuple[str, str]
) -> None:
    configured = NetworkPolicy(policy, AllowedHosts.from_patterns(allowed))

    narrowed = configured.confine(Confinement(hosts=declared))

    assert (narrowed.mode, str(narrowed.hosts)) == left
    assert configured.confine(None) == configured.confine(Confinement()) == configured


def test_budget_limits_time_and_calls_and_the_larger_one_applies() -> None:
    now = [100.0]
    meter = SkillMeter(clock=lambda: now[0])
    small, large = SkillTerms(seconds=10, max_tool_calls=2), SkillTerms(seconds=60)
    meter.begin(["small", "large"])

    assert meter.find_exceeded_budget({"small": small}) is None
    meter.count(["small"])
    meter.count(["small"])
    assert meter.find_exceeded_budget({"small": small}) == "the skill 'small' has reached its limit of 2 tool calls"
    now[0] += 20
    assert meter.find_exceeded_budget({"small": small}) == "the skill 'small' has exceeded its time limit of 10 s"
    assert meter.find_exceeded_budget({"small": small, "large": large}) is None
    assert meter.seconds_left({"small": small, "large": large}) == 40
    assert meter.seconds_left({"free": SkillTerms()}) is None
    assert meter.find_exceeded_budget({"small": small, "free": SkillTerms()}) is None
