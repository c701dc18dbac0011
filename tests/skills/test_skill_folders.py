"""Discovery of skills in packs of other projects."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from deerflow.skills.folders import find_skills
from tests.skills.support import write_skill

LONG = "Reads invoices in any layout and writes them into one table. " * 16
assert len(LONG) < 1024


@dataclass(frozen=True)
class Pack:
    """A file tree with the expected skills."""

    name: str
    files: Mapping[str, str | bytes]
    skills: tuple[str, ...] = ()
    rejected: Mapping[str, str] = ()  # type: ignore[assignment]
    """Folders with a part of the expected reason."""


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
        rejected={"seo": "lower-case letters a-z, digits and single hyphens between them, not 'SEO Audit (Pro)'"},
    ),
    Pack(
        "a description that is not quoted",
        {"sql/SKILL.md": "---\nname: sql\ndescription: Writes SQL. Use when: the user asks for a query\n---\n"},
        rejected={"sql": "SKILL.md:3: unexpected ':'; check the indentation, or put the value in quotes"},
    ),
    Pack(
        "only text, as for older agents",
        {"rules/SKILL.md": "# Rules\n\nBe brief.\n", "rules/AGENTS.md": "x"},
        rejected={"rules": "the header is missing or not closed; begin it with a line '---'"},
    ),
    Pack(
        "a whole manual in the description",
        {"manual/SKILL.md": f"---\nname: manual\ndescription: {LONG * 3}\n---\n"},
        rejected={"manual": "at most 1,024 are allowed, the rest belongs below the header"},
    ),
    Pack(
        "another alphabet's encoding",
        {"old/SKILL.md": "---\nname: old\ndescription: Grüße\n---\n".encode("cp1252")},
        rejected={"old": "is not UTF-8 text; save it in that encoding"},
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
        rejected={"low": "skill.md: must be called SKILL.md", "folder": "SKILL.md: is not a file"},
    ),
    Pack("too deep", {"/".join("abcdefghij") + "/SKILL.md": "x"}, rejected={"/".join("abcdefghi"): "folders deep"}),
]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_packs_load_or_are_rejected_with_a_reason(pack: Pack, tmp_path: Path) -> None:
    for path, content in pack.files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    found = find_skills(tmp_path, "custom")

    assert tuple(str(skill.relative) for skill in found.skills) == pack.skills
    reasons = {rejected.path: rejected.reason for rejected in found.rejected}
    assert reasons.keys() == dict(pack.rejected).keys()
    assert all(reason in reasons[path] for path, reason in dict(pack.rejected).items())
    assert all(0 < len(skill.description) <= 1024 for skill in found.skills)


def test_rejects_folder_names_that_are_not_utf8(tmp_path: Path) -> None:
    write_skill(tmp_path, "cafe", folder=os.fsdecode(b"caf\xe9"))
    [rejected] = find_skills(tmp_path, "custom").rejected
    assert rejected.path == "caf\ufffd" and rejected.reason == "folder name is not valid UTF-8; rename it"


def test_rejects_oversized_folders(tmp_path: Path) -> None:
    (tmp_path / "big" / "data").mkdir(parents=True)
    (tmp_path / "big" / "SKILL.md").write_text("---\nname: big\ndescription: x\n---\n")
    with (tmp_path / "big" / "data" / "sparse").open("wb") as file:
        file.truncate(600 * 2**20)
    [rejected] = find_skills(tmp_path, "custom").rejected
    assert rejected.reason == "skill folder is too large; the limit is 4,096 files and 512 MB"
