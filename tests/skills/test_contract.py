"""`skill.toml`: what it may say, and what several of them come to."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.domain.errors import SkillInvalid
from deerflow.domain.sandbox import Confinement
from deerflow.domain.skill_terms import SkillMeter, SkillTerms, joint_terms
from deerflow.sandbox.egress import AllowedHosts
from deerflow.sandbox.local.network import NetworkPolicy, Reach
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


def test_a_contract_says_what_a_skill_needs_and_how_much_it_may_use() -> None:
    contract = parse_contract(WHOLE)

    assert contract.terms == SkillTerms(
        Confinement(("/mnt/user-data/outputs",), ("api.example.org", "*.example.com"), frozenset({"API_KEY"})),
        ("python-pptx",),
        600,
        80,
    )


def test_what_is_left_out_gives_no_host_and_no_variable_but_narrows_neither_tools_nor_folders() -> None:
    contract = parse_contract(b"")

    assert contract.terms == SkillTerms(Confinement(None, (), frozenset()))
    assert contract.narrowed(None) is None


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
def test_of_the_tools_in_skill_md_and_in_the_contract_those_are_left_that_both_allow(
    tools: tuple[str, ...] | None, allowed: tuple[str, ...] | None, left: tuple[str, ...] | None
) -> None:
    contract = Contract.model_validate({"needs": {"tools": tools}})

    assert contract.narrowed(allowed) == left


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[needs]\nhost = []", "skill.toml: needs.host: unknown key; did you mean 'hosts'?"),
        ("[need]\n", "skill.toml: need: unknown key; did you mean 'needs'?"),
        ("hosts = []", "skill.toml: hosts: unknown key here; did you mean 'needs.hosts'?"),
        ("[budget]\nmax_calls = 3", "did you mean 'max_tool_calls'?"),
        ('[needs]\nhosts = ["https://example.org/"]', "without scheme, port or path"),
        ('[needs]\nhosts = "example.org"', "needs.hosts: must be a list"),
        ('[needs]\npaths = ["/etc"]', "must be folders as the agent sees them"),
        ('[needs]\npaths = ["/mnt/user-data/outputs/../workspace"]', "must be folders as the agent sees them"),
        ('[needs]\npaths = ["/mnt/user-data/workspace/here"]', "write '/mnt/user-data/workspace'"),
        ('[needs]\nenvironment = ["A-B"]', "must be names of letters, digits and '_'"),
        ("[budget]\nseconds = 0", "budget.seconds: must be more than 0"),
        ("[budget]\nmax_tool_calls = 0", "budget.max_tool_calls: must be at least 1"),
        ("[needs", "skill.toml: is not valid TOML"),
        ("a = " + "[" * 3000, "skill.toml: is"),
    ],
)
def test_a_contract_that_cannot_be_understood_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SkillInvalid) as refused:
        parse_contract(text.encode())

    assert sentence in str(refused.value)


def test_a_contract_is_a_small_text_file_and_no_link(tmp_path: Path) -> None:
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


def test_under_several_contracts_that_is_allowed_which_one_of_them_allows() -> None:
    one = SkillTerms(Confinement(("/mnt/a",), ("one.example",), frozenset({"A"})), ("x",))
    other = SkillTerms(Confinement(("/mnt/b",), ("two.example",), frozenset()), ("y",))
    silent = SkillTerms(Confinement(None, (), frozenset()))
    anywhere = SkillTerms(Confinement(None, ("*",), frozenset()))

    together = joint_terms([one, other, silent])

    assert together == SkillTerms(
        Confinement(("/mnt/a", "/mnt/b"), ("one.example", "two.example"), frozenset({"A"})), ("x", "y")
    )
    assert joint_terms([one, anywhere]).confinement.only_hosts is None


HOSTS = ("a.example", "x.a.example", "y.x.a.example", "b.example", "x.b.example")
PATTERNS = st.frozensets(st.sampled_from([*HOSTS, *(f"*.{host}" for host in HOSTS), "*.example"]), max_size=4)


@given(PATTERNS, PATTERNS)
def test_two_lists_of_hosts_together_allow_what_both_allow(one: frozenset[str], other: frozenset[str]) -> None:
    first, second = AllowedHosts.of(one), AllowedHosts.of(other)

    both = first.narrowed_to(second)

    for host in (*HOSTS, *(f"z.{host}" for host in HOSTS), "example", "c.example"):
        assert both.allow(host) == (first.allow(host) and second.allow(host))


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
def test_a_contract_never_gives_more_network_than_the_configuration(
    policy: NetworkPolicy, allowed: tuple[str, ...], declared: tuple[str, ...], left: tuple[str, str]
) -> None:
    configured = Reach(policy, AllowedHosts.of(allowed))

    narrowed = configured.narrowed(Confinement(hosts=declared))

    assert (narrowed.policy, str(narrowed.hosts)) == left
    assert configured.narrowed(None) == configured.narrowed(Confinement()) == configured


def test_a_budget_is_used_up_by_time_or_by_calls_and_the_larger_of_two_counts() -> None:
    now = [100.0]
    meter = SkillMeter(clock=lambda: now[0])
    small, large = SkillTerms(seconds=10, max_tool_calls=2), SkillTerms(seconds=60)
    meter.begin(["small", "large"])

    assert meter.overspent({"small": small}) is None
    meter.count(["small"])
    meter.count(["small"])
    assert meter.overspent({"small": small}) == "the skill 'small' may call 2 tools, and has"
    now[0] += 20
    assert meter.overspent({"small": small}) == "the skill 'small' may be active for 10 s, and these are over"
    assert meter.overspent({"small": small, "large": large}) is None
    assert meter.seconds_left({"small": small, "large": large}) == 40
    assert meter.seconds_left({"free": SkillTerms()}) is None
    assert meter.overspent({"small": small, "free": SkillTerms()}) is None
