"""The configuration guide matches the code."""

import re
from contextlib import chdir
from pathlib import Path

import pytest

from deerflow.config.load import load
from deerflow.config.root import Config

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "configuration.md").read_text(encoding="utf-8")


def find_examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", find_examples("yaml"))
def test_loads_each_example_of_the_guide(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)

    assert load(directory=tmp_path, environment={"OPENAI_API_KEY": "key"}).config != Config()


@pytest.mark.parametrize("text", find_examples("json"))
def test_loads_each_extensions_example_of_the_guide(tmp_path: Path, text: str) -> None:
    (tmp_path / "extensions_config.json").write_text(text)

    extensions = load(directory=tmp_path, environment={}).extensions

    assert extensions.mcp_servers["files"].args[-1] == "/srv"


@pytest.mark.parametrize("code", find_examples("python"))
def test_runs_the_code_of_the_guide(tmp_path: Path, code: str) -> None:
    with chdir(tmp_path):
        exec(compile(code, "configuration.md", "exec"), {})


def test_the_guide_lists_every_section_and_whether_it_needs_a_restart() -> None:
    table = dict(re.findall(r"^\| `([a-z_]+)` \|.*\| ([\w ]*) \|$", GUIDE, flags=re.MULTILINE))

    assert list(table) == list(Config.model_fields)
    assert {name for name, change in table.items() if change == "restart"} == Config().get_restart_settings().keys()
