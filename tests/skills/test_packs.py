"""Packs as they are found elsewhere: each loads, or is refused with a reason a person understands."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from deerflow.skills.folders import find_skills
from tests.skills.packs import write_skill

LONG = "Reads invoices in any layout and writes them into one table. " * 16
assert len(LONG) < 1024


@dataclass(frozen=True)
class Pack:
    """A tree of files, and what is to be found in it."""

    name: str
    files: Mapping[str, str | bytes]
    skills: tuple[str, ...] = ()
    refused: Mapping[str, str] = ()  # type: ignore[assignment]
    """Paths of folders, and a part of the reason."""


PACKS = [
    Pack(
        "a repository with categories and a marketplace file",
        {
            ".claude-plugin/marketplace.json": "{}",
            "README.md": "# Skills\n",
            "document-skills/pdf/SKILL.md": f"---\nname: pdf\ndescription: >\n  {LONG}\nlicense: see LICENSE\n---\n",
            "document-skills/pdf/scripts/fill_form.py": "import sys\n",
            "document-skills/pdf/reference.md": "more",
            "document-skills/docx/SKILL.md": '---\nname: docx\ndescription: "Makes \\"Word\\" files: letters."\n---\n',
            "document-skills/docx/ooxml/schemas/a/b/c/d/e/f/g/h/wml.xsd": "<x/>",
        },
        ("document-skills/docx", "document-skills/pdf"),
    ),
    Pack(
        "fields of another agent",
        {
            "SKILLS/commit/SKILL.md": "---\nname: commit\ndescription: Commits.\nmodel: opus\nuser-invocable: true\n"
            "argument-hint: '[files]'\nhooks:\n  Stop:\n    - matcher: ''\n      hooks: [{type: command, command: x}]\n"
            "allowed-tools: Bash(git add:*), Bash(git commit:*), Read\n---\n"
        },
        ("SKILLS/commit",),
    ),
    Pack(
        "Chinese throughout, with full-width punctuation",
        {"周报/SKILL.md": "---\nname: weekly-report\ndescription: 生成周报：汇总工作。当用户说“写周报”时使用。\n---\n"},
        ("周报",),
    ),
    Pack(
        "German, saved on Windows",
        {"b/SKILL.md": "\ufeff---\r\nname: brief\r\ndescription: |\r\n  Briefe – förmlich.\r\n  Auch so.\r\n---\r\n"},
        ("b",),
    ),
    Pack(
        "emoji, arrows and right-to-left text",
        {"fun/SKILL.md": "---\nname: fun\ndescription: 🎉 Parties → מסיבות\nmetadata: {tags: [a, ב]}\n---\n"},
        ("fun",),
    ),
    Pack(
        "a skill that keeps others as examples",
        {
            "creator/SKILL.md": "---\nname: creator\ndescription: Makes skills.\n---\n",
            "creator/templates/basic/SKILL.md": "---\nname: your-skill-name\ndescription: TODO\n---\n",
            "creator/examples/bad/SKILL.md": "no header on purpose",
        },
        ("creator",),
    ),
    Pack(
        "what macOS and version control leave",
        {
            "__MACOSX/tidy/._SKILL.md": b"\x00\x05\x16\x07",
            "__MACOSX/tidy/SKILL.md": b"\x00\x05\x16\x07",
            "tidy/.DS_Store": b"\x00\x00\x00\x01Bud1",
            "tidy/.git/HEAD": "ref: refs/heads/main",
            "tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies.\n---\n",
            ".git/hooks/SKILL.md": "x",
        },
        ("tidy",),
    ),
    Pack(
        "a name for people instead of one for programs",
        {"seo/SKILL.md": "---\nname: SEO Audit (Pro)\ndescription: Audits.\n---\n"},
        refused={"seo": "small letters a-z, digits and single hyphens between them, not 'SEO Audit (Pro)'"},
    ),
    Pack(
        "a description that is not quoted",
        {"sql/SKILL.md": "---\nname: sql\ndescription: Writes SQL. Use when: the user asks for a query\n---\n"},
        refused={"sql": "SKILL.md:3: unexpected ':'; check the indentation, or put the value in quotes"},
    ),
    Pack(
        "only text, as for older agents",
        {"rules/SKILL.md": "# Rules\n\nBe brief.\n", "rules/AGENTS.md": "x"},
        refused={"rules": "the header is missing or not closed; begin it with a line '---'"},
    ),
    Pack(
        "a whole manual in the description",
        {"manual/SKILL.md": f"---\nname: manual\ndescription: {LONG * 3}\n---\n"},
        refused={"manual": "at most 1,024 are allowed, the rest belongs below the header"},
    ),
    Pack(
        "another alphabet's encoding",
        {"old/SKILL.md": "---\nname: old\ndescription: Grüße\n---\n".encode("cp1252")},
        refused={"old": "is not UTF-8 text; save it in that encoding"},
    ),
    Pack(
        "one skill at the top, without a folder, beside another",
        {
            "SKILL.md": "---\nname: top\ndescription: On top.\n---\n",
            "good/SKILL.md": "---\nname: good\ndescription: Good.\n---\n",
        },
        ("good",),
        {".": "a skill needs a folder of its own"},
    ),
    Pack(
        "a file in small letters, and a folder in the place of the file",
        {"low/skill.md": "---\nname: low\ndescription: x\n---\n", "folder/SKILL.md/README.md": "x"},
        refused={"low": "skill.md: must be called SKILL.md", "folder": "SKILL.md: is not a file"},
    ),
    Pack("too deep", {"/".join("abcdefghij") + "/SKILL.md": "x"}, refused={"/".join("abcdefghi"): "folders deep"}),
]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_a_pack_from_elsewhere_loads_or_is_refused_with_a_reason(pack: Pack, tmp_path: Path) -> None:
    for path, content in pack.files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    found = find_skills(tmp_path, "custom")

    assert tuple(str(skill.relative) for skill in found.skills) == pack.skills
    reasons = {refused.path: refused.reason for refused in found.refused}
    assert reasons.keys() == dict(pack.refused).keys()
    assert all(reason in reasons[path] for path, reason in dict(pack.refused).items())
    assert all(0 < len(skill.description) <= 1024 for skill in found.skills)


def test_a_folder_whose_name_is_no_text_is_refused_and_can_be_told_of(tmp_path: Path) -> None:
    write_skill(tmp_path, "cafe", folder=os.fsdecode(b"caf\xe9"))
    [refused] = find_skills(tmp_path, "custom").refused
    assert refused.path == "caf\ufffd" and refused.reason == "the name of the folder is no text in UTF-8; rename it"


def test_a_folder_with_too_much_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big" / "data").mkdir(parents=True)
    (tmp_path / "big" / "SKILL.md").write_text("---\nname: big\ndescription: x\n---\n")
    with (tmp_path / "big" / "data" / "sparse").open("wb") as file:
        file.truncate(600 * 2**20)
    [refused] = find_skills(tmp_path, "custom").refused
    assert refused.reason == "there is more in the folder than a skill can have, which is 4,096 files and 512 MB"
