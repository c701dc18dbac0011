"""Skill folders, and a custom skill service with real files, a real scanner and scripted reviews."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deerflow.config.sections.base import Settings
from deerflow.skills.authoring.custom_skills import CustomSkillService, ReviewPolicy, SkillTester
from deerflow.skills.authoring.review import ReviewReply, ReviewRequest, SkillReviewer
from deerflow.skills.authoring.store import Author, SkillStore
from deerflow.skills.folders import builtin_root
from deerflow.skills.index import SkillIndex
from deerflow.skills.scanner.scanner import SkillScanner

KNOWN_FIELDS = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools", "version", "author"}
)
"""Header fields of built-in skills: those of the open format, and two of ours."""
OWNER = "ada"
PERSON, AGENT = Author(), Author("agent", "t1")
ALLOW = '{"decision": "allow", "reason": "It does what it says."}'


@dataclass
class ScriptedReviews:
    """Returns replies in turn, repeating the last one, and records the requests."""

    replies: list[ReviewReply] = field(default_factory=lambda: [ReviewReply(ALLOW)])
    requests: list[ReviewRequest] = field(default_factory=list)

    async def __call__(self, request: ReviewRequest) -> ReviewReply:
        self.requests.append(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def skip_scan() -> ReviewPolicy:
    """Policy without the scanner, which starts a process for each scan."""
    return ReviewPolicy(scans=False)


def open_service(
    home: Path,
    reviews: ScriptedReviews | None = None,
    *,
    policy: Callable[[], ReviewPolicy] = skip_scan,
    tester: SkillTester | None = None,
) -> CustomSkillService:
    """Return a service for the skills below `home`."""
    index = SkillIndex(home / "shipped", home)
    store = SkillStore(home, lambda owner: tuple(index.read(owner).skills.values()))
    return CustomSkillService(
        store, SkillScanner(), SkillReviewer(reviews or ScriptedReviews()), Settings(policy), tester
    )


def build_skill_md(name: str = "sample", body: str = "# How\n") -> str:
    """Return the content of a SKILL.md."""
    return f"---\nname: {name}\ndescription: Does one thing.\n---\n{body}"


def list_stored_files(home: Path) -> list[str]:
    """Return all files and folders of the owner's skills, except those that always exist."""
    root = home / "users" / OWNER / "skills"
    everything = (str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else ()
    return sorted(path for path in everything if path not in (".staging", ".lock"))


def write_skill(
    root: Path,
    name: str,
    description: str = "Does one thing well.",
    *,
    body: str = "# How\n",
    folder: str = "",
    more: str = "",
) -> Path:
    """Write a skill below `root` and return its folder. `more` is appended to the header."""
    path = root / (folder or name)
    path.mkdir(parents=True, exist_ok=True)
    header = f"---\nname: {name}\ndescription: {description}\n{more}---\n\n"
    (path / "SKILL.md").write_text(header + body, encoding="utf-8")
    return path


def run_script(skill: str, name: str, *arguments: str | Path) -> str:
    """Run a script of a skill and return its output."""
    path = builtin_root() / skill / "scripts" / name
    done = subprocess.run([sys.executable, "-B", path, *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
