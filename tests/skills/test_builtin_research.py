"""Built-in research skills: they pass their tests, and their outputs are valid."""

import asyncio
import email
import email.policy
import json
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import lxml.html
import pytest
from lxml import etree

from deerflow.cli.skill_test_runner import SkillTestRunner, SkillUnderTest
from deerflow.config.load import load
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.sandbox.file_access import InMemoryFile
from deerflow.skills.authoring.review import read_files
from deerflow.skills.contract import find_tests, read_contract
from deerflow.skills.folders import builtin_root
from deerflow.skills.format import parse_skill
from deerflow.skills.scanner.scanner import SkillScanner
from deerflow.skills.testing import read_test
from deerflow.testing import ScriptedModel, calling
from tests.skills.support import KNOWN_FIELDS, OWNER, PERSON, open_service, run_script

NAMES = (
    "academic-paper-review",
    "bootstrap",
    "consulting-analysis",
    "deep-research",
    "find-skills",
    "github-deep-research",
    "newsletter",
    "podcast-script",
    "skill-creator",
    "skill-reviewer",
    "systematic-literature-review",
)
PUBLIC = builtin_root()
CASES = [case for name in NAMES for case in find_tests(PUBLIC / name)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.parent.name}-{case.stem}")
async def test_builtin_skill_passes_its_tests(
    case: Path, tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    runner = SkillTestRunner(load(directory=tmp_path, environment=toolbox_environment))

    result = await runner.run(SkillUnderTest.read(case.parent.parent), read_test(case))

    assert list(result.complaints) == [], result.outputs


@pytest.mark.parametrize("name", NAMES)
async def test_builtin_skill_is_valid(name: str) -> None:
    folder = PUBLIC / name
    header, contract = parse_skill((folder / "SKILL.md").read_text(encoding="utf-8")), read_contract(folder)

    assert header.name == name and header.license == "MIT" and header.fields.keys() <= KNOWN_FIELDS
    assert header.body.count("\n") <= 500
    assert contract is not None and contract.needs.tools == header.allowed_tools
    assert len(find_tests(folder)) >= 1
    report = await SkillScanner().scan(await asyncio.to_thread(read_files, folder))
    assert report.blocking == (), "our own scanner would refuse it"


def test_skill_reviewer_accepts_all_builtin_skills() -> None:
    shipped = sorted(file.parent for file in PUBLIC.glob("*/SKILL.md"))

    printed = run_script("skill-reviewer", "audit_skill.py", "--json", *shipped)

    verdicts = {each["skill"]: each["verdict"] for each in json.loads(printed)}
    assert "not ready" not in verdicts.values()
    assert {verdicts[name] for name in NAMES} == {"ready"}


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("research what is known about heat pumps and compare the evidence", "deep-research"),
        ("should we adopt this open-source GitHub repository", "github-deep-research"),
        ("state of research, literature from arXiv with BibTeX references", "systematic-literature-review"),
        ("write a referee's critique of this paper", "academic-paper-review"),
        ("market entry, pricing, business case with issue tree", "consulting-analysis"),
        ("an e-mail newsletter for our product updates", "newsletter"),
        ("turn this article into a podcast dialogue with two hosts", "podcast-script"),
        ("write a new skill with tests", "skill-creator"),
        ("is this skill safe and ready, please audit it", "skill-reviewer"),
        ("is there an installed skill that fits", "find-skills"),
        ("I want a custom agent with a persona", "bootstrap"),
    ],
)
def test_skill_search_finds_the_skill_for_a_task(task: str, name: str) -> None:
    search = runpy.run_path(str(PUBLIC / "find-skills" / "scripts" / "list_skills.py"))

    found, unreadable = search["read_all"](PUBLIC.parent, search["words"](task))

    assert unreadable == []
    assert max(found, key=lambda skill: skill.score).name == name


async def test_skill_creator_output_installs_and_passes_its_tests(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    said = 'Counts words: "text" in, numbers out; 100% exact. Use when somebody asks how long it is. Not for PDF.'
    run_script("skill-creator", "init_skill.py", "word-count", "--description", said, "--into", tmp_path)
    run_script("skill-creator", "package_skill.py", tmp_path / "word-count", "--out", tmp_path)
    again = run_script("skill-creator", "package_skill.py", tmp_path / "word-count", "--out", tmp_path / "again")
    archive = tmp_path / "word-count.skill"
    assert archive.read_bytes() == (tmp_path / "again" / "word-count.skill").read_bytes(), again
    with zipfile.ZipFile(archive) as opened:
        assert "word-count/tests/first.yaml" in opened.namelist()

    service = open_service(tmp_path / "home")
    content = InMemoryFile(archive.name, archive.read_bytes(), datetime.now(UTC), "tag")
    installed, result = await service.install(OWNER, content, PERSON)
    assert installed.name == "word-count" and result.decision == "allow"

    folder = next((tmp_path / "home").rglob("word-count/SKILL.md")).parent
    assert parse_skill((folder / "SKILL.md").read_text()).description == said
    runner = SkillTestRunner(load(directory=tmp_path, environment=toolbox_environment))
    (case,) = find_tests(folder)
    tested = await runner.run(SkillUnderTest.read(folder, "custom"), read_test(case))
    assert list(tested.complaints) == [], tested.outputs


def test_newsletter_is_an_email_with_inline_styles(tmp_path: Path) -> None:
    issue, page_file, text_file = (
        PUBLIC / "newsletter" / "templates" / "issue.json",
        tmp_path / "i.html",
        tmp_path / "i.txt",
    )
    places = ("--html", page_file, "--text", text_file, "--eml", tmp_path / "i.eml")
    run_script("newsletter", "build_newsletter.py", issue, *places)
    text = text_file.read_text(encoding="utf-8")

    message = email.message_from_bytes((tmp_path / "i.eml").read_bytes(), policy=email.policy.default)
    assert message["Subject"] == "Descaling now takes four minutes"
    plain, page = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None and plain.get_content().splitlines() == text.splitlines()
    assert page is not None
    document = lxml.html.document_fromstring(page.get_content())
    assert not document.xpath("//style | //script | //link")
    assert all(element.get("style") for element in document.xpath("//td | //p | //h1 | //h2 | //a | //img"))
    assert all(image.get("alt") for image in document.xpath("//img"))
    links = set(document.xpath("//a/@href"))
    assert links == {
        "https://example.org/tests",
        "https://example.org/workshops",
        "https://example.org/unsubscribe?u=123",
    }
    assert all(link in text for link in links)


def test_podcast_chapters_match_the_transcript(tmp_path: Path) -> None:
    episode = PUBLIC / "podcast-script" / "templates" / "episode.md"
    run_script("podcast-script", "podcast.py", "export", episode, "--voices", "ANNA=a", "BEN=b", "--out", tmp_path)

    chapters = json.loads((tmp_path / "chapters.json").read_text())["chapters"]
    lines = json.loads((tmp_path / "lines.json").read_text())
    starts = [chapter["startTime"] for chapter in chapters]
    assert starts == sorted(starts) and starts[0] == 0 and starts[-1] < lines["seconds"]
    speech = [line for line in lines["lines"] if line["kind"] == "speech"]
    assert {(line["speaker"], line["voice"]) for line in speech} == {("ANNA", "a"), ("BEN", "b")}
    assert all("[" not in line["text"] for line in speech)


def test_literature_review_exports_are_valid(tmp_path: Path) -> None:
    data = PUBLIC / "systematic-literature-review" / "tests" / "data"
    review, found = "systematic-literature-review", tmp_path / "found.json"
    run_script(review, "arxiv_search.py", "--from-file", data / "first.xml", "--out", found)
    run_script(review, "screening.py", "init", found, "--out", tmp_path / "s.csv")
    ids = [record["id"] for record in json.loads(found.read_text())["records"]]
    for stage in ("title", "text"):
        run_script(
            review,
            "screening.py",
            "decide",
            tmp_path / "s.csv",
            "--id",
            *ids,
            "--stage",
            stage,
            "--decision",
            "include",
        )
    run_script(review, "screening.py", "prisma", tmp_path / "s.csv", "--records", found, "--svg", tmp_path / "flow.svg")
    printed = run_script(review, "references.py", found, "--style", "bibtex", "--ids-from", tmp_path / "s.csv")

    texts = etree.parse(tmp_path / "flow.svg").xpath("//*[local-name()='text']/text()")
    assert texts[0] == "Identified: 3" and texts[-1] == "Included: 3"
    entries = printed.split("\n\n")
    assert len(entries) == 3 and all(entry.count("{") == entry.count("}") for entry in entries)
    assert r"Kettles \& Pots" in printed and "author = {van der Berg, Ada and Müller Jr., Jean-Luc}" in printed


async def test_bootstrap_skill_creates_an_agent(tmp_path: Path) -> None:
    soul = "# Lotte\n\nYou are Lotte. You give the amount first, then the reason."
    location = "/mnt/skills/public/bootstrap/SKILL.md"
    model = ScriptedModel.saying(
        calling("read_file", description="how it is done", path=location),
        "What should it do that you are tired of doing?",
        calling("setup_agent", soul=soul, description="Looks over receipts"),
        "Lotte is ready.",
    )
    spec = AgentSpec(agent_name="lotte", is_bootstrap=True, owner=LOCAL_USER.user_id)
    settings = {"sandbox": {"toolbox": {"enabled": False}}, "suggestions": {"enabled": False}}
    async with open_harness(open_source(directory=tmp_path, environment={}, overrides=settings), model) as harness:
        for text in ("I want an agent", "Look over receipts. Yes, make it."):
            run = await harness.runs.create_or_reject(
                RunRequest("t", [{"type": "human", "content": text}], spec), LOCAL_USER
            )
            async with asyncio.timeout(20):
                run = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert run.status is RunStatus.SUCCESS, run.error
        made = await asyncio.to_thread(harness.core.custom_agents.load, LOCAL_USER.user_id, "lotte")

    assert location in model.requests[0].messages[0].text, "the prompt tells where the skill is"
    assert any("One question at a time" in message.text for message in model.requests[1].messages)
    assert made.soul == soul and made.config.description == "Looks over receipts"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rubbish", [b"\x82\xff\x00\x01" * 20, b'[1, "a", null]', b""], ids=["bytes", "list", "nothing"]
)
def test_scripts_reject_invalid_input_with_a_message(rubbish: bytes, tmp_path: Path) -> None:
    (tmp_path / "poor").mkdir()
    for name in ("x", "x.pdf", "poor/SKILL.md", "poor/repo.json"):
        (tmp_path / name).write_bytes(rubbish)
    commands = (
        "academic-paper-review paper_text.py x.pdf --out o",
        "consulting-analysis issue_tree.py check x",
        "deep-research check_citations.py x --notes x",
        "find-skills archive_info.py x",
        "github-deep-research metrics.py poor",
        "newsletter build_newsletter.py x --html o --text o",
        "podcast-script podcast.py check x",
        "skill-creator package_skill.py poor --out .",
        "skill-reviewer audit_skill.py poor",
        "skill-reviewer unpack_skill.py x --into new",
        "systematic-literature-review arxiv_search.py --from-file x --out o",
        "systematic-literature-review references.py x --style apa",
        "systematic-literature-review screening.py init x --out o.csv",
    )
    for command in commands:
        skill, name, *arguments = command.split()
        path = PUBLIC / skill / "scripts" / name
        done = subprocess.run(
            [sys.executable, "-B", path, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=30
        )
        assert done.returncode in (1, 2), command
        assert "Traceback" not in done.stderr and (done.stdout or done.stderr.startswith("Error: ")), command


def test_skills_that_read_the_web_declare_hosts() -> None:
    contracts = {file.parent.name: read_contract(file.parent) for file in sorted(PUBLIC.glob("*/skill.toml"))}
    reading = {name: each for name, each in contracts.items() if each and "web_fetch" in (each.needs.tools or ())}
    assert len(reading) >= 9
    assert [name for name, each in reading.items() if each.terms.confinement.allowed_hosts is not None] == []
