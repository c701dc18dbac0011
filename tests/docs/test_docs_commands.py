"""Commands and Python in the tutorial and the guides work."""

import os
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.sections.guardrails import parse_policy
from tests.e2e.server_process import run_deerflow

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs/tutorial/first-hour.md"
PAGES = [
    ROOT / "README.md",
    TUTORIAL,
    *sorted((ROOT / "docs/guides").glob("*.md")),
    *sorted((ROOT / "docs/zh").glob("*.md")),
]
QUICK = ("deerflow --version", "deerflow config init", "deerflow config check", "deerflow memory list")
"""Commands of the tutorial that run in an empty folder without a model and without a server."""


def code_blocks(page: Path, *languages: str) -> list[str]:
    return re.findall(rf"```(?:{'|'.join(languages)})\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def deerflow_commands(page: Path) -> Iterator[str]:
    """Yield the `deerflow` commands of a page, without prompt, path, pipes and comments."""
    for block in code_blocks(page, "bash", "console"):
        for line in block.splitlines():
            command = re.sub(r"\s+#.*", "", line.removeprefix("$ ")).split(" | ")[-1]
            if re.match(r"(\.venv/bin/)?deerflow ", command):
                yield command.removeprefix(".venv/bin/")


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    reference = runpy.run_path(str(ROOT / "scripts/reference.py"))
    root = reference["typer"].main.get_command(reference["build_app"](()))
    return {"deerflow": root, **dict(reference["commands"](root, "deerflow"))}


def test_every_command_in_the_documents_exists_with_its_options(commands: dict[str, Any]) -> None:
    invalid = []
    seen = [(page, command) for page in PAGES for command in deerflow_commands(page)]
    for page, line in seen:
        words = shlex.split(line)
        name = max((known for known in commands if f"{line} ".startswith(f"{known} ")), key=len)
        options = {
            option for parameter in commands[name].params for option in parameter.opts + parameter.secondary_opts
        }
        is_group = bool(getattr(commands[name], "commands", None))
        unknown = [
            word for word in words if word.startswith("--") and word.partition("=")[0] not in {*options, "--help"}
        ]
        if unknown or (is_group and name != "deerflow"):
            invalid.append(f"{page.name}: {line}")
    assert len(seen) > 30
    assert invalid == []


@pytest.mark.slow
def test_quick_commands_of_the_tutorial_succeed_in_an_empty_folder(tmp_path: Path) -> None:
    written = set(deerflow_commands(TUTORIAL))
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    for command in QUICK:
        assert command in written
        result = run_deerflow(*shlex.split(command)[1:], folder=tmp_path, environment=environment)
        assert result.returncode == 0, f"{command}: {result.stderr}"


@pytest.mark.slow
def test_the_python_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = code_blocks(TUTORIAL, "python")
    exec(compile(code, str(TUTORIAL), "exec"), {"__name__": "example"})


def test_the_policy_of_the_tutorial_asks_before_commands() -> None:
    (policy,) = code_blocks(TUTORIAL, "yaml")
    (rule,) = parse_policy(policy).rules
    assert (rule.tool, rule.outcome) == (("bash",), "ask")
