"""What is blocked and what is let pass, sample by sample; and that nothing stops the server."""

import pytest

from deerflow.domain.errors import SkillRefused
from deerflow.skills.scanner.content import check_content
from deerflow.skills.scanner.package import MAX_FILES, MAX_TEXT, SkillFile, check_package
from deerflow.skills.scanner.rules import RULES, Finding, blocking
from deerflow.skills.scanner.scanner import ScanLimits, SkillScanner
from tests.skills.samples import HARMLESS, MALICIOUS, Sample

SKILL = SkillFile("SKILL.md", 40, b"---\nname: a\ndescription: b\n---\nBody.\n")


@pytest.mark.parametrize("sample", MALICIOUS, ids=lambda sample: f"{sample.rule}: {sample.about}")
def test_what_is_openly_bad_is_blocked(sample: Sample) -> None:
    findings = check_content(sample.path, sample.text)
    assert sample.rule in {finding.rule_id for finding in blocking(findings)}, findings
    assert all(finding.file == sample.path and finding.line and finding.message for finding in findings)


@pytest.mark.parametrize("sample", HARMLESS, ids=lambda sample: sample.about)
def test_what_people_write_every_day_is_not_blocked(sample: Sample) -> None:
    assert blocking(check_content(sample.path, sample.text)) == ()


def test_the_tables_are_large_enough_and_cover_every_class_that_blocks() -> None:
    assert len(MALICIOUS) >= 40 and len(HARMLESS) >= 40
    contents = {rule for rule, what in RULES.items() if what.severity == "CRITICAL" and not rule.startswith("package-")}
    assert contents == {sample.rule for sample in MALICIOUS}


PACKAGES = {
    "package-path-traversal": SkillFile("scripts/../../x.md", 1, b"x"),
    "package-absolute-path": SkillFile("/etc/cron.d/x", 1, b"x"),
    "package-symlink": SkillFile("references/a.md", 0, is_link=True),
    "package-nested-skill-md": SkillFile("inner/Skill.md", 1, b"x"),
    "package-oversized-total": SkillFile("assets/a.bin", 600 * 1024**2),
    "package-oversized-file": SkillFile("scripts/long.py", MAX_TEXT + 1, b"x = 1\n"),
    "package-executable-binary": SkillFile("assets/tool", 5, b"\x7fELF\x02\x01"),
    "package-nested-archive": SkillFile("assets/more.zip", 5, b"PK\x03\x04\0\0"),
    "package-hidden-sensitive-file": SkillFile(".env", 1, b"A=1"),
    "package-git-directory": SkillFile(".git/config", 1, b"x"),
}


@pytest.mark.parametrize("rule", PACKAGES)
def test_a_package_is_judged_by_its_files(rule: str) -> None:
    findings = list(check_package([SKILL, PACKAGES[rule]]))
    assert [(finding.rule_id, finding.severity) for finding in findings if finding.rule_id == rule] == [
        (rule, RULES[rule].severity)
    ]


def test_a_package_may_hold_what_skills_hold() -> None:
    files = [
        SKILL,
        SkillFile("references/guide.md", 9, b"# Guide\n"),
        SkillFile("scripts/run.py", 9, b"print(1)\n"),
        SkillFile("assets/logo.png", 9, b"\x89PNG\r\n\x1a\n\0"),
        SkillFile("assets/template.pptx", 9, b"PK\x03\x04\0\0"),
        SkillFile("assets/maze.txt", 9, b"MZ is how this text begins"),
        SkillFile(".env.example", 9, b"KEY=\n"),
    ]
    assert list(check_package(files)) == []


def test_too_many_files_are_one_finding() -> None:
    many = [SkillFile(f"assets/{number}.txt", 1, b"x") for number in range(MAX_FILES + 1)]
    assert [finding.rule_id for finding in check_package(many)] == ["package-too-many-members"]


def test_a_finding_tells_a_person_where_and_what_and_repeats_no_secret() -> None:
    token = "gh" + "p_" + "R7xKq2ZbW9mTn4VcYd8LsJf3HgAe6PuQ1oXi"
    [finding] = check_content("scripts/a.py", f"\nTOKEN = '{token}'\n")
    assert str(finding) == "scripts/a.py, line 2: it holds a token of a service (secret-cloud-token)"
    assert finding.remediation and token not in repr(finding)


async def test_a_whole_skill_is_looked_at_in_a_child() -> None:
    script = b"import os\nos.system('id')\n"
    report = await SkillScanner().scan([SKILL, SkillFile("scripts/a.py", len(script), script)])
    assert report.is_executable and [finding.rule_id for finding in report.blocking] == ["python-shell-exec"]
    with pytest.raises(SkillRefused, match=r"scripts/a.py, line 2: it gives text to a shell \(python-shell-exec\)"):
        report.check()


async def test_a_skill_without_scripts_is_not_executable() -> None:
    report = await SkillScanner().scan([SKILL])
    report.check()
    assert report.findings == () and not report.is_executable


async def test_what_nobody_can_look_at_in_time_is_refused() -> None:
    slow = SkillFile("scripts/a.py", 40, b"x = " + b"(" * 90 + b")" * 90 + b"\n" + b"y = [1]\n" * 60_000)
    with pytest.raises(SkillRefused, match="could not be looked at"):
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
async def test_texts_made_to_be_slow_are_judged_or_refused_within_the_limits(about: str) -> None:
    path, text = HOSTILE[about]
    limits = ScanLimits(wall_s=5, cpu_s=3)
    file = SkillFile(path, len(text), text.encode())
    try:
        report = await SkillScanner(limits).scan([file])
        assert all(isinstance(finding, Finding) for finding in report.findings)
    except SkillRefused:
        pass
