"""Skill scanner: malicious and harmless samples, package rules and limits."""

import pytest

from deerflow.domain.errors import SkillRefused
from deerflow.skills.authoring.review import read_files
from deerflow.skills.folders import builtin_root
from deerflow.skills.scanner.content import check_content
from deerflow.skills.scanner.rules import (
    MAX_FILES,
    MAX_TEXT,
    RULES,
    Finding,
    ScannedFile,
    check_package,
    select_blocking,
)
from deerflow.skills.scanner.scanner import ScanLimits, SkillScanner
from tests.skills.samples import HARMLESS, MALICIOUS, Sample

SKILL = ScannedFile("SKILL.md", 40, b"---\nname: a\ndescription: b\n---\nBody.\n")


@pytest.mark.parametrize("sample", MALICIOUS, ids=lambda sample: f"{sample.rule}: {sample.about}")
def test_blocks_malicious_samples(sample: Sample) -> None:
    findings = check_content(sample.path, sample.text)
    assert sample.rule in {finding.rule_id for finding in select_blocking(findings)}, findings
    assert all(finding.file == sample.path and finding.line and finding.message for finding in findings)


@pytest.mark.parametrize("sample", HARMLESS, ids=lambda sample: sample.about)
def test_accepts_harmless_samples(sample: Sample) -> None:
    assert select_blocking(check_content(sample.path, sample.text)) == ()


@pytest.mark.slow
def test_accepts_all_builtin_skills() -> None:
    blocked = {}
    for skill in builtin_root().glob("*/SKILL.md"):
        files = read_files(skill.parent)
        texts = [(file.path, file.content.decode(errors="replace")) for file in files if file.is_text]
        said = [finding for path, text in texts for finding in check_content(path, text)]
        blocked[skill.parent.name] = [str(finding) for finding in select_blocking([*check_package(files), *said])]
    assert {name: findings for name, findings in blocked.items() if findings} == {}


def test_samples_cover_all_blocking_rules() -> None:
    assert len(MALICIOUS) >= 40 and len(HARMLESS) >= 40
    contents = {rule for rule, what in RULES.items() if what.severity == "CRITICAL" and not rule.startswith("package-")}
    assert contents == {sample.rule for sample in MALICIOUS}


PACKAGES = {
    "package-path-traversal": ScannedFile("scripts/../../x.md", 1, b"x"),
    "package-absolute-path": ScannedFile("/etc/cron.d/x", 1, b"x"),
    "package-symlink": ScannedFile("references/a.md", 0, is_link=True),
    "package-nested-skill-md": ScannedFile("inner/Skill.md", 1, b"x"),
    "package-oversized-total": ScannedFile("assets/a.bin", 600 * 1024**2),
    "package-oversized-file": ScannedFile("scripts/long.py", MAX_TEXT + 1, b"x = 1\n"),
    "package-executable-binary": ScannedFile("assets/tool", 5, b"\x7fELF\x02\x01"),
    "package-nested-archive": ScannedFile("assets/more.zip", 5, b"PK\x03\x04\0\0"),
    "package-hidden-sensitive-file": ScannedFile(".env", 1, b"A=1"),
    "package-git-directory": ScannedFile(".git/config", 1, b"x"),
}


@pytest.mark.parametrize("rule", PACKAGES)
def test_reports_package_rules(rule: str) -> None:
    findings = list(check_package([SKILL, PACKAGES[rule]]))
    assert [(finding.rule_id, finding.severity) for finding in findings if finding.rule_id == rule] == [
        (rule, RULES[rule].severity)
    ]


@pytest.mark.parametrize(
    "file",
    [
        ScannedFile("assets/server.p12", 3, b"\x30\x82\x01"),
        ScannedFile("assets/server.key", 3, b"\x30\x82\x01"),
        ScannedFile("assets/Store.JKS", 4, b"\xfe\xed\xfe\xed"),
    ],
    ids=lambda file: file.path,
)
def test_key_files_in_binary_formats_are_blocked(file: ScannedFile) -> None:
    findings = list(check_package([SKILL, file]))
    assert [finding.rule_id for finding in findings if finding.severity == "CRITICAL"] == ["secret-private-key"]


def test_accepts_a_typical_package() -> None:
    files = [
        SKILL,
        ScannedFile("references/guide.md", 9, b"# Guide\n"),
        ScannedFile("scripts/run.py", 9, b"print(1)\n"),
        ScannedFile("assets/logo.png", 9, b"\x89PNG\r\n\x1a\n\0"),
        ScannedFile("assets/template.pptx", 9, b"PK\x03\x04\0\0"),
        ScannedFile("assets/maze.txt", 9, b"MZ is how this text begins"),
        ScannedFile(".env.example", 9, b"KEY=\n"),
    ]
    assert list(check_package(files)) == []


def test_too_many_files_are_reported_once() -> None:
    many = [ScannedFile(f"assets/{number}.txt", 1, b"x") for number in range(MAX_FILES + 1)]
    assert [finding.rule_id for finding in check_package(many)] == ["package-too-many-members"]


def test_finding_has_place_and_message_without_the_secret() -> None:
    token = "gh" + "p_" + "R7xKq2ZbW9mTn4VcYd8LsJf3HgAe6PuQ1oXi"
    [finding] = check_content("scripts/a.py", f"\nTOKEN = '{token}'\n")
    assert str(finding) == "scripts/a.py, line 2: contains an access token (secret-cloud-token)"
    assert finding.remediation and token not in repr(finding)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Be brief.\u200b", True),
        ("Be brief.\U000e0041", True),
        ("Smile \U0001f600\ufe01\U000e0103", True),
        ("Be\ufe0f brief.", True),
        ("\ufeffBe brief.\r", False),
        ("I \u2764\ufe0f herons, step 1\ufe0f\u20e3", False),
        ("\U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", False),
    ],
)
def test_finds_invisible_characters_in_instructions(text: str, is_found: bool) -> None:
    found = [finding.rule_id for finding in check_content("references/a.md", f"{text}\n")]
    assert found == (["declaration-prompt-override"] if is_found else [])


async def test_scans_a_skill_in_a_child_process() -> None:
    script = b"import os\nos.system('id')\n"
    report = await SkillScanner().scan([SKILL, ScannedFile("scripts/a.py", len(script), script)])
    assert report.is_executable and [finding.rule_id for finding in report.blocking] == ["python-shell-exec"]
    with pytest.raises(SkillRefused, match=r"scripts/a.py, line 2: passes a string to a shell \(python-shell-exec\)"):
        report.check()


async def test_skill_without_scripts_is_not_executable() -> None:
    report = await SkillScanner().scan([SKILL])
    report.check()
    assert report.findings == () and not report.is_executable


async def test_refuses_skills_that_cannot_be_scanned_in_time() -> None:
    slow = ScannedFile("scripts/a.py", 40, b"x = " + b"(" * 90 + b")" * 90 + b"\n" + b"y = [1]\n" * 60_000)
    with pytest.raises(SkillRefused, match="could not be scanned"):
        await SkillScanner(ScanLimits(wall_s=0.05)).scan([SKILL, slow])


HOSTILE = {
    "brackets": ("a.py", "(" * 200_000),
    "unary signs": ("a.py", "-" * 100_000 + "1"),
    "a chain of additions": ("a.py", "x = " + "+".join(["'a'"] * 20_000)),
    "quotes": ("a.sh", "'\"" * 200_000),
    "words that nearly match": ("a.sh", "socket dup2 " * 40_000),
    "pipes": ("a.sh", "curl " * 100_000 + "|"),
    "fences": ("SKILL.md", "```\n" * 100_000),
    "blanks": ("SKILL.md", "ignore " + " " * 500_000 + "x"),
    "names of keys": ("a.json", "api_key" * 100_000),
}


@pytest.mark.parametrize("about", HOSTILE)
async def test_slow_inputs_are_scanned_or_refused_within_the_limits(about: str) -> None:
    path, text = HOSTILE[about]
    limits = ScanLimits(wall_s=5, cpu_s=3)
    file = ScannedFile(path, len(text), text.encode())
    try:
        report = await SkillScanner(limits).scan([file])
        assert all(isinstance(finding, Finding) for finding in report.findings)
    except SkillRefused:
        pass
