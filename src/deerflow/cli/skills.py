"""`deerflow skills`: install, update and test skills."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.runs import ConfigOption
from deerflow.cli.skill_test_runner import SkillTestResult, SkillTestRunner, SkillUnderTest
from deerflow.client import DeerFlowClient
from deerflow.config.load import LoadedConfig, load
from deerflow.domain.errors import ConfigError, Conflict, NotFound, SkillInvalid
from deerflow.domain.identity import LOCAL_USER
from deerflow.skills.contract import find_tests
from deerflow.skills.folders import builtin_root, custom_root
from deerflow.skills.format import SKILL_FILE, Category
from deerflow.skills.testing import read_test

app = typer.Typer(help="Install, update and test skills.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Install, update and test skills."""


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="HTTPS URL of a Git repository or an archive, or a .skill file.")],
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit of the repository.")] = None,
    folder: Annotated[str | None, typer.Option(help="Folder of the skill in the repository.")] = None,
    config: ConfigOption = None,
) -> None:
    """Install a skill after a scan and a review by a model, pinned to what was downloaded."""
    with DeerFlowClient(config_path=config) as client:
        typer.echo(client.skills.install(source, ref=ref, folder=folder)["message"])


@app.command()
def update(
    name: Annotated[str, typer.Argument(help="Name of the skill.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Update without asking.")] = False,
    config: ConfigOption = None,
) -> None:
    """Show what an update of a skill from its source would change, and ask whether to install it."""
    with DeerFlowClient(config_path=config) as client:
        update_skill(client, name, confirm=(lambda: True) if yes else confirm_update)


def update_skill(client: DeerFlowClient, name: str, confirm: Callable[[], bool]) -> None:
    """Print the changes of an update, and install it if `confirm` returns True.

    Raises:
        Conflict: The skill was not installed from a URL.
    """
    found = client.custom_skills.check_update(name)
    source, installed = found["source"], found["installed_revision"]
    if source is None:
        raise Conflict(f"skill {name!r} was not installed from a URL, so it has no updates")
    if not found["diff"]:
        typer.echo(f"{name} is up to date: {source['revision']} of {source['url']}")
        return
    typer.echo(found["diff"])
    typer.echo(f"{name}: {installed} -> {source['revision']} of {source['url']}", err=True)
    if confirm():
        typer.echo(client.custom_skills.update(name, source["revision"])["message"])
    else:
        typer.echo("nothing was changed", err=True)


def confirm_update() -> bool:
    """Ask on the terminal; without one, the answer is no."""
    if not sys.stdin.isatty():
        typer.echo("run the command with --yes to install this update", err=True)
        return False
    return typer.confirm("Install this update?", err=True)


@app.command()
def test(
    skills: Annotated[list[str] | None, typer.Argument(help="Skill names or folders.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Test all built-in skills.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    as_custom: Annotated[bool, typer.Option("--custom", help="Install them as custom skills.")] = False,
    config: ConfigOption = None,
) -> None:
    """Run the tests of skills offline, with a scripted model and the real sandbox; exit with code 1 if one fails."""
    sys.exit(asyncio.run(test_skills(skills or [], config, every=every, as_json=as_json, as_custom=as_custom)))


@dataclass(frozen=True, slots=True)
class SkillTestReport:
    """Results of the tests of one skill."""

    skill: str
    verdicts: Sequence[SkillTestResult]
    problems: Sequence[str] = ()
    """Errors that prevented tests from running."""

    @property
    def passed(self) -> bool:
        return not self.problems and all(verdict.passed for verdict in self.verdicts)


async def test_skills(
    names: Sequence[str], config: Path | None, *, every: bool, as_json: bool, as_custom: bool = False
) -> int:
    """Run tests, print the results and return the exit code."""
    loaded = load(config)
    folders = [find_skill(loaded, name) for name in names]
    if every:
        folders += [folder for folder in list_builtin_skills() if folder not in folders]
    if not folders:
        raise NotFound("no skill given; name a skill or its folder, or use --all")
    runner, write = SkillTestRunner(loaded), ignore if as_json else typer.echo
    reports = []
    for folder in folders:
        category: Category = "custom" if as_custom else find_category(loaded, folder)
        reports.append(await test_skill(runner, folder, write, category))
    if as_json:
        typer.echo(json.dumps([{**asdict(each), "passed": each.passed} for each in reports], ensure_ascii=False))
    return int(not all(each.passed for each in reports))


async def test_skill(
    runner: SkillTestRunner, folder: Path, write: Callable[[str], None], category: Category = "public"
) -> SkillTestReport:
    """Run the tests of the skill in a folder, one after the other, and write a line for each."""
    try:
        skill = await asyncio.to_thread(SkillUnderTest.read, folder, category)
    except SkillInvalid as error:
        write(f"✗ {folder.name}: {error}")
        return SkillTestReport(folder.name, (), [str(error)])
    verdicts, problems = [], []
    files = await asyncio.to_thread(find_tests, folder)
    if not files:
        write(f"! {skill.name}: no tests")
    for file in files:
        try:
            test = await asyncio.to_thread(read_test, file)
        except ConfigError as error:
            problems.append(str(error))
            write(f"✗ {skill.name}/{file.stem}: invalid test\n{indent(str(error))}")
            continue
        verdict = await runner.run(skill, test)
        verdicts.append(verdict)
        write(format_result(skill.name, verdict))
    return SkillTestReport(skill.name, verdicts, problems)


def find_skill(loaded: LoadedConfig, name: str) -> Path:
    """Return the folder of a skill, given its name or its folder.

    Raises:
        NotFound: the skill does not exist.
    """
    project = loaded.folder / "skills"
    roots = (custom_root(loaded.home, LOCAL_USER.user_id), project / "custom", project / "public", builtin_root())
    for folder in (Path(name), *(root / name for root in roots)):
        if (folder / SKILL_FILE).is_file():
            return folder.resolve()
    raise NotFound(f"skill {name!r} not found: neither a skill name nor a folder with a {SKILL_FILE}")


def list_builtin_skills() -> list[Path]:
    """Return the folders of the built-in skills."""
    return sorted(file.parent for file in builtin_root().glob(f"*/{SKILL_FILE}"))


def find_category(loaded: LoadedConfig, folder: Path) -> Category:
    """Return the category of the skill in a folder."""
    return "custom" if folder.is_relative_to(custom_root(loaded.home, LOCAL_USER.user_id).resolve()) else "public"


def format_result(skill: str, result: SkillTestResult) -> str:
    """Return the line of a test, followed by its failures and the last tool output."""
    head = f"{'✓' if result.passed else '✗'} {skill}/{result.trial} ({result.seconds:.1f} s)"
    outputs = [f"last output of {output}" for output in result.outputs]
    return "\n".join([head, *map(indent, [*result.complaints, *outputs])])


def indent(text: str) -> str:
    """Return `text` with each line indented."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def ignore(text: str) -> None:
    """Write nothing."""
