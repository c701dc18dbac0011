"""A workshop as tests use it: real files, a real scanner, and a model that says what it is told to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deerflow.skills.index import SkillIndex
from deerflow.skills.review import Opinion, ReviewQuestion, SkillReviewer
from deerflow.skills.scanner.scanner import SkillScanner
from deerflow.skills.store import Author, SkillStore
from deerflow.skills.workshop import Rules, SkillTrial, SkillWorkshop

OWNER = "ada"
PERSON, AGENT = Author(), Author("agent", "t1")
ALLOW = '{"decision": "allow", "reason": "It does what it says."}'


@dataclass
class Reviews:
    """Answers questions in turn, the last answer for good; remembers what it was asked."""

    answers: list[Opinion] = field(default_factory=lambda: [Opinion(ALLOW)])
    asked: list[ReviewQuestion] = field(default_factory=list)

    async def __call__(self, question: ReviewQuestion) -> Opinion:
        self.asked.append(question)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def unscanned() -> Rules:
    """For what is not about the scanner, which starts a process each time."""
    return Rules(scans=False)


def open_workshop(
    home: Path,
    reviews: Reviews | None = None,
    *,
    rules: Callable[[], Rules] = unscanned,
    trial: SkillTrial | None = None,
) -> SkillWorkshop:
    """A workshop for the skills below `home`."""
    index = SkillIndex(home / "shipped", home)
    store = SkillStore(home, lambda owner: tuple(index.current(owner).skills.values()))
    return SkillWorkshop(store, SkillScanner(), SkillReviewer(reviews or Reviews()), rules, trial)


def skill(name: str = "sample", body: str = "# How\n") -> str:
    """A SKILL.md."""
    return f"---\nname: {name}\ndescription: Does one thing.\n---\n{body}"


def left_on_disk(home: Path) -> list[str]:
    """Every file and folder of the owner's skills, but for what is always there."""
    root = home / "users" / OWNER / "skills"
    everything = (str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else ()
    return sorted(path for path in everything if path not in (".staging", ".lock"))
