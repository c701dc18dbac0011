"""`deerflow memory`, and `/memory` in `deerflow chat`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.cli.main import build_app
from deerflow.domain.errors import InvalidRequest, NotFound
from tests.canary import files_with

Command = Callable[..., Result]


@pytest.fixture
def memory(tmp_path: Path) -> Command:
    """Return a function that runs a command in the project at `tmp_path`, with `deerflow chat` for `/memory`."""

    def run(*words: str, answer: str | None = None) -> Result:
        command = ["chat", " ".join(words)] if words[0] == "/memory" else ["memory", *words]
        return CliRunner().invoke(
            build_app(command), command, env={"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}, input=answer
        )

    return run


def import_facts(home: Path, memory: Command, *facts: str) -> str:
    """Import facts and return the id of the first."""
    file = home / "memory.json"
    entries = [
        {"id": f"fact_{number}", "content": fact, "category": "preference"}
        for number, fact in enumerate(facts, start=1)
    ]
    file.write_text(json.dumps({"facts": entries}))
    assert memory("import", str(file)).output.startswith(f"{len(facts)} changes;")
    file.unlink()
    return "fact_1"


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["why", "none"], NotFound, "no fact 'none'"),
        (["undo"], NotFound, "no changes to undo"),
        (["undo", "none"], NotFound, "no change 'none'"),
        (["erase", "--yes"], InvalidRequest, "give exactly one of"),
        (["erase", "a", "--all", "--yes"], InvalidRequest, "give exactly one of"),
        (["erase", "none", "--yes"], NotFound, "no fact 'none'"),
        (["import", "nowhere.json"], InvalidRequest, "cannot read"),
        (["/memory", "forget"], InvalidRequest, "no fact id given"),
        (["/memory", "forget", "none"], NotFound, "no fact 'none'"),
    ],
)
def test_invalid_commands_raise_named_errors(
    memory: Command, words: list[str], error: type[Exception], message: str
) -> None:
    raised = memory(*words).exception
    assert isinstance(raised, error) and message in str(raised)


@pytest.mark.parametrize("content", ["{", "[]", '{"facts": [{}]}'])
def test_import_refuses_an_invalid_file_and_changes_nothing(memory: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    assert isinstance(memory("import", str(tmp_path / "bad.json")).exception, InvalidRequest)
    assert memory("list").output == "memory is empty\n"


def test_facts_are_listed_searched_explained_exported_and_undone(memory: Command, tmp_path: Path) -> None:
    tea = import_facts(tmp_path, memory, "Likes kingfisher tea", "Lives in Oslo")
    assert f"{tea}  Likes kingfisher tea  (preference, confidence 50%, added manually)" in memory("list").output
    assert "Lives in Oslo" not in memory("search", "tea").output
    assert memory("search", "zebra").output == "no facts found\n"
    assert "fact added, imported\n  + Likes kingfisher tea" in memory("why", tea).output
    written = memory("export", "-o", str(tmp_path / "out.json"))
    assert written.exit_code == 0 and len(json.loads((tmp_path / "out.json").read_text())["facts"]) == 2
    assert json.loads(memory("export").output)["version"] == "1.0"
    assert "  - Lives in Oslo" in memory("undo").output
    assert memory("list").output == "memory is empty\n"
    assert memory("history").output.count("undone") == 2
    assert "Lives in Oslo" in memory("undo").output


def test_erase_asks_for_confirmation_and_leaves_no_trace(memory: Command, tmp_path: Path) -> None:
    tea = import_facts(tmp_path, memory, "Likes kingfisher tea")
    assert memory("erase", tea, answer="n\n").exit_code == 1
    assert "kingfisher" in memory("list").output
    assert "erased permanently" in memory("erase", tea, answer="y\n").output
    assert memory("list").output == "memory is empty\n" and files_with("kingfisher", tmp_path) == []


def test_memory_commands_in_a_chat_do_not_call_a_model(memory: Command, tmp_path: Path) -> None:
    tea = import_facts(tmp_path, memory, "Likes tea")
    assert "Likes tea" in memory("/memory").output
    assert "Likes tea" in memory("/memory", "some", "tea").output
    assert memory("/memory", "forget", tea).output.startswith("deleted;")
    assert memory("/memory").output == "memory is empty\n"
    assert "+ Likes tea" in memory("/memory", "undo").output


def test_memory_is_disabled_and_enabled(memory: Command) -> None:
    assert "no extraction" in memory("off").output and memory("on").output == "memory enabled\n"
