"""Skill tests: parsing, real runs and evaluation."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from deerflow.cli.skill_test_runner import SkillTestResult, SkillTestRunner, SkillUnderTest
from deerflow.config.load import load
from deerflow.domain.errors import ConfigError
from deerflow.skills.contract import find_tests
from deerflow.skills.testing import read_test

SKILL = """---
name: table-maker
description: Makes tables.
license: MIT
---
Run scripts/make.py.
"""
MAKE = """
import sys
from docx import Document
from openpyxl import Workbook
from PIL import Image
from pptx import Presentation
from reportlab.pdfgen.canvas import Canvas

source, target = sys.argv[1:]
word = open(source).read().strip()
deck = Presentation()
slide = deck.slides.add_slide(deck.slide_layouts[1])
slide.shapes.title.text = word
slide.notes_slide.notes_text_frame.text = f"say {word}"
deck.save(f"{target}/made.pptx")
letter = Document()
letter.add_table(1, 1).cell(0, 0).text = word
letter.save(f"{target}/made.docx")
book = Workbook()
book.active.append([word, 7])
book.save(f"{target}/made.xlsx")
page = Canvas(f"{target}/made.pdf")
page.drawString(72, 72, word)
page.save()
Image.new("RGB", (2, 2)).save(f"{target}/made.png")
Image.new("RGB", (2, 2)).save(f"{target}/made.jpg")
texts = {
    "svg": f'<svg xmlns="http://www.w3.org/2000/svg"><text>{word}</text></svg>',
    "html": f"<!doctype html><html><body><p>{word[:4]}<b>{word[4:]}</b></p></body></html>",
    "json": f'["{word}"]',
    "csv": f"a,b\\n{word},1\\n",
    "md": f"# {word}\\n",
    "txt": word,
}
for kind, text in texts.items():
    open(f"{target}/made.{kind}", "w").write(text)
print("made", len(texts), "texts")
"""
KINDS = ("pptx", "docx", "xlsx", "pdf", "png", "jpg", "svg", "html", "json", "csv", "md", "txt")
OUTPUTS = "/mnt/user-data/outputs"
EXPECTED = "\n".join(
    f"    {OUTPUTS}/made.{kind}: {{kind: {kind}, contains: [{'' if kind in ('png', 'jpg') else 'Kingfisher'}]}}"
    for kind in KINDS
)
RUN = f"python /mnt/skills/public/table-maker/scripts/make.py /mnt/user-data/uploads/word.txt {OUTPUTS}"
PASSING_TEST = f"""
description: every kind of file is made and known for what it is
prompt: /table-maker make them
uploads:
  word.txt: {{from: data/word.txt}}
  other.txt: {{text: "other"}}
environment: {{COLOUR: blue}}
steps:
  - calls:
      - {{tool: read_file, args: {{description: d, path: /mnt/skills/public/table-maker/SKILL.md}}}}
  - calls:
      - {{tool: bash, args: {{description: d, command: "{RUN}; ls /mnt/user-data/uploads; echo $COLOUR"}}}}
  - calls:
      - {{tool: bash, args: {{description: d, command: "echo no > /mnt/skills/public/table-maker/SKILL.md"}}}}
      - {{tool: web_fetch, args: {{url: "https://example.org/"}}}}
  - say: All twelve are made.
expect:
  answer: [twelve]
  tools:
    - {{tool: bash, contains: [made 6 texts, other.txt, blue], fails: false}}
    - {{tool: bash, contains: [Read-only file system], fails: true}}
    - {{tool: web_fetch, contains: [no network in a test], fails: true}}
  files:
{EXPECTED}
  absent: [{OUTPUTS}/draft.md]
"""
FAILING_TEST = f"""
description: nothing of this is so
prompt: make them
steps:
  - calls:
      - {{tool: bash, args: {{description: d, command: "echo x > {OUTPUTS}/x.png; echo y > {OUTPUTS}/y.md; exit 3"}}}}
  - say: done
  - say: never said
expect:
  answer: [ready]
  tools:
    - {{tool: bash, contains: [made], fails: false}}
    - {{tool: grep}}
  files:
    {OUTPUTS}/x.png: {{kind: png}}
    {OUTPUTS}/y.md: {{kind: md, contains: [z]}}
    {OUTPUTS}/z.md: {{}}
  absent: [{OUTPUTS}/y.md]
"""


def make_skill(folder: Path, **tests: str) -> Path:
    skill = folder / "table-maker"
    (skill / "tests" / "data").mkdir(parents=True)
    (skill / "scripts").mkdir()
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "scripts" / "make.py").write_text(MAKE)
    (skill / "tests" / "data" / "word.txt").write_text("Kingfisher")
    for name, text in tests.items():
        (skill / "tests" / f"{name}.yaml").write_text(text)
    return skill


async def run_single_test(skill: Path, environment: Mapping[str, str]) -> SkillTestResult:
    machine = load(directory=skill, environment=environment)
    (file,) = find_tests(skill)
    return await SkillTestRunner(machine).run(SkillUnderTest.read(skill), read_test(file))


async def test_runs_scripts_in_the_sandbox_and_checks_all_file_types(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    result = await run_single_test(make_skill(tmp_path, kinds=PASSING_TEST), toolbox_environment)

    assert list(result.complaints) == []
    assert result.passed


async def test_reports_each_failed_expectation_with_the_actual_value(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    result = await run_single_test(make_skill(tmp_path, wrong=FAILING_TEST), toolbox_environment)

    assert [complaint.partition(":")[0] for complaint in result.complaints] == [
        "the last 1 of 3 steps were not used",
        "answer",
        "tools[1] (bash, call 1)",
        "tools[1] (bash, call 1)",
        "tools[2]",
        f"{OUTPUTS}/x.png",
        f"{OUTPUTS}/y.md",
        f"{OUTPUTS}/z.md",
        f"{OUTPUTS}/y.md",
    ]
    assert "expected png, but it cannot be read as that: UnidentifiedImageError" in result.complaints[5]
    assert result.complaints[6].endswith("expected 'z' in it, it begins 'y'")
    assert list(result.outputs) == ["bash: (no output)\n[exit code 3]"]


async def test_too_few_steps_fail_with_the_last_output(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> None:
    short = "description: d\nprompt: p\nsteps:\n- calls: [{tool: ls, args: {description: d, path: /mnt/skills}}]\n"

    result = await run_single_test(make_skill(tmp_path, short=short), toolbox_environment)

    assert len(result.complaints) == 1 and "the script ended before call 2" in result.complaints[0]
    assert "/mnt/skills/public" in result.outputs[0]


STEPS = "steps: [{say: x}]"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prompt: p\nsteps: [{say: x}]", "description: is missing: purpose of the test, in one sentence"),
        (f"description: d\nprompt: p\nstep: []\n{STEPS}", "t.yaml:3: step: unknown key; did you mean 'steps'?"),
        (
            f"description: d\nprompt: p\n{STEPS}\nexpect: {{file: {{}}}}",
            "expect.file: unknown key; did you mean 'files'?",
        ),
        ("description: d\nprompt: p\nsteps: [{}]", "steps[0]: must have 'calls', 'say' or both"),
        ("description: d\nprompt: p\nsteps: [{calls: [{args: {}}]}]", "steps[0].calls[0].tool: is missing"),
        (
            f"description: d\nprompt: p\n{STEPS}\nexpect: {{files: {{/mnt/user-data/outputs/a: {{kind: ppt}}}}}}",
            "kind: must be 'pptx', 'xlsx'",
        ),
        (f"description: d\nprompt: p\n{STEPS}\nexpect: {{absent: [a.md]}}", "must be paths in the sandbox"),
        (f"description: d\nprompt: p\n{STEPS}\nuploads: {{a: {{}}}}", "uploads.a: must have either 'from' or 'text'"),
        (f"description: d\nprompt: p\n{STEPS}\nuploads: {{a: {{from: b}}}}", "file not found in the tests folder: 'b'"),
        (
            f"description: d\nprompt: p\n{STEPS}\nuploads: {{a: {{from: ../SKILL.md}}}}",
            "must be inside the tests folder",
        ),
        (f"description: d\nprompt: p\n{STEPS}\nuploads: {{x/y: {{text: t}}}}", "must have plain file names"),
        (f"description: d\nprompt: p\n{STEPS}\nlimits: {{seconds: 0}}", "limits.seconds: must be more than 0"),
        (f"description: d\nprompt: p\n{STEPS}\nenvironment: {{1A: b}}", "environment: must have names of letters"),
        ("description: [", "t.yaml:1:"),
    ],
)
def test_invalid_test_is_reported_with_file_line_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    skill = make_skill(tmp_path, t=text)

    with pytest.raises(ConfigError) as rejected:
        read_test(skill / "tests" / "t.yaml")

    assert complaint in str(rejected.value)
    assert str(rejected.value).startswith("tests/t.yaml")
