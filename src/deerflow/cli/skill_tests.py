"""Which skills are tested, and how what came of it is told."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from deerflow.cli.skill_trials import Candidate, TrialGround, Verdict
from deerflow.config.load import Loaded, load
from deerflow.domain.errors import ConfigError, NotFound, SkillInvalid
from deerflow.domain.principal import LOCAL_USER
from deerflow.skills.format import SKILL_FILE
from deerflow.skills.roots import custom_root, shipped_root
from deerflow.skills.skill import Category
from deerflow.skills.trial_files import find_trials
from deerflow.skills.trials import read_trial

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tested:
    """How the tests of one skill went."""

    skill: str
    verdicts: Sequence[Verdict]
    problems: Sequence[str] = ()
    """What kept tests from being run at all."""

    @property
    def passed(self) -> bool:
        return not self.problems and all(verdict.passed for verdict in self.verdicts)


async def test_skills(
    names: Sequence[str], config: Path | None, *, every: bool, as_json: bool, as_custom: bool = False
) -> int:
    """Run tests and tell how they went; the exit code."""
    loaded = load(config)
    folders = [find_skill(loaded, name) for name in names]
    if every:
        folders += [folder for folder in all_skills() if folder not in folders]
    if not folders:
        raise NotFound("name a skill or its folder, or say --all")
    ground, tell = TrialGround(loaded), silent if as_json else typer.echo
    results = []
    for folder in folders:
        category: Category = "custom" if as_custom else category_of(loaded, folder)
        results.append(await test_skill(ground, folder, tell, category))
    if as_json:
        typer.echo(json.dumps([{**asdict(each), "passed": each.passed} for each in results], ensure_ascii=False))
    return int(not all(each.passed for each in results))


async def test_skill(ground: TrialGround, folder: Path, tell: Tell, category: Category = "public") -> Tested:
    """Run the tests of the skill in a folder, one after the other, and tell how each went."""
    try:
        skill = await asyncio.to_thread(Candidate.read, folder, category)
    except SkillInvalid as problem:
        tell(f"✗ {folder.name}: {problem}")
        return Tested(folder.name, (), [str(problem)])
    verdicts, problems = [], []
    files = await asyncio.to_thread(find_trials, folder)
    if not files:
        tell(f"! {skill.name}: has no tests")
    for file in files:
        try:
            trial = await asyncio.to_thread(read_trial, file)
        except ConfigError as problem:
            problems.append(str(problem))
            tell(f"✗ {skill.name}/{file.stem}: the test cannot be read\n{indented(str(problem))}")
            continue
        verdict = await ground.run(skill, trial)
        verdicts.append(verdict)
        tell(describe(skill.name, verdict))
    return Tested(skill.name, verdicts, problems)


def find_skill(loaded: Loaded, name: str) -> Path:
    """The folder of a skill that is named, or whose folder is given.

    Raises:
        NotFound: There is none.
    """
    roots = (shipped_root(), custom_root(loaded.home, LOCAL_USER.user_id))
    for folder in (Path(name), *(root / name for root in roots)):
        if (folder / SKILL_FILE).is_file():
            return folder.resolve()
    raise NotFound(f"there is no skill {name!r}: neither a folder with a {SKILL_FILE} nor the name of a skill")


def all_skills() -> list[Path]:
    """The folders of the built-in skills."""
    return sorted(file.parent for file in shipped_root().glob(f"*/{SKILL_FILE}"))


def category_of(loaded: Loaded, folder: Path) -> Category:
    """Where the agent sees a skill."""
    return "custom" if folder.is_relative_to(custom_root(loaded.home, LOCAL_USER.user_id).resolve()) else "public"


def describe(skill: str, verdict: Verdict) -> str:
    """A line for a test that went well; for another, what was expected and what came."""
    head = f"{'✓' if verdict.passed else '✗'} {skill}/{verdict.trial} ({verdict.seconds:.1f} s)"
    outputs = [f"last output of {output}" for output in verdict.outputs]
    return "\n".join([head, *map(indented, [*verdict.complaints, *outputs])])


def indented(text: str) -> str:
    """A text below a line it belongs to."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def silent(text: str) -> None:
    """Keep it to yourself."""
