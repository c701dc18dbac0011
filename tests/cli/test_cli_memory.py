"""`deerflow memory`, and `/memory` in a chat, seen from a terminal."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.cli.main import command_for
from deerflow.domain.errors import InvalidRequest, NotFound
from tests.canary import files_with

Command = Callable[..., Result]


@pytest.fixture
def memory(tmp_path: Path) -> Command:
    """Runs a command of the project in `tmp_path`; in a chat where it begins with `/memory`."""

    def run(*words: str, answer: str | None = None) -> Result:
        command = ["chat", " ".join(words)] if words[0] == "/memory" else ["memory", *words]
        return CliRunner().invoke(
            command_for(command), command, env={"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}, input=answer
        )

    return run


def taken_in(home: Path, memory: Command, *facts: str) -> str:
    """Have facts be known; the name of the first."""
    file = home / "memory.json"
    known = [{"id": f"fact_{at}", "content": fact, "category": "preference"} for at, fact in enumerate(facts, start=1)]
    file.write_text(json.dumps({"facts": known}))
    assert memory("import", str(file)).output.startswith(f"{len(facts)} changes;")
    file.unlink()
    return "fact_1"


@pytest.mark.parametrize(
    ("words", "kind", "complaint"),
    [
        (["why", "none"], NotFound, "no fact 'none'"),
        (["undo"], NotFound, "there is nothing to undo"),
        (["undo", "none"], NotFound, "no change 'none'"),
        (["erase", "--yes"], InvalidRequest, "say one of"),
        (["erase", "a", "--all", "--yes"], InvalidRequest, "say one of"),
        (["erase", "none", "--yes"], NotFound, "no fact 'none'"),
        (["import", "nowhere.json"], InvalidRequest, "cannot be read"),
        (["/memory", "forget"], InvalidRequest, "say which fact"),
        (["/memory", "forget", "none"], NotFound, "no fact 'none'"),
    ],
)
def test_what_cannot_be_done_is_said_by_name(
    memory: Command, words: list[str], kind: type[Exception], complaint: str
) -> None:
    problem = memory(*words).exception
    assert isinstance(problem, kind) and complaint in str(problem)


@pytest.mark.parametrize("content", ["{", "[]", '{"facts": [{}]}'])
def test_a_file_that_is_no_memory_is_refused_and_changes_nothing(memory: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    assert isinstance(memory("import", str(tmp_path / "bad.json")).exception, InvalidRequest)
    assert memory("list").output == "nothing is known yet\n"


def test_what_is_known_is_listed_found_explained_undone_and_carried_out(memory: Command, tmp_path: Path) -> None:
    tea = taken_in(tmp_path, memory, "Likes kingfisher tea", "Lives in Oslo")
    assert f"{tea}  Likes kingfisher tea  (preference, 50% sure, written by hand)" in memory("list").output
    assert "Lives in Oslo" not in memory("search", "tea").output
    assert memory("search", "zebra").output == "no fact has these words\n"
    assert "fact added, from a file\n  + Likes kingfisher tea" in memory("why", tea).output
    written = memory("export", "-o", str(tmp_path / "out.json"))
    assert written.exit_code == 0 and len(json.loads((tmp_path / "out.json").read_text())["facts"]) == 2
    assert json.loads(memory("export").output)["version"] == "1.0"
    assert "  - Lives in Oslo" in memory("undo").output
    assert memory("list").output == "nothing is known yet\n"
    assert memory("history").output.count("undone") == 2
    assert "Lives in Oslo" in memory("undo").output


def test_nothing_is_erased_before_it_is_agreed_to_and_then_all_of_it_is(memory: Command, tmp_path: Path) -> None:
    tea = taken_in(tmp_path, memory, "Likes kingfisher tea")
    assert memory("erase", tea, answer="n\n").exit_code == 1
    assert "kingfisher" in memory("list").output
    assert "erased for good" in memory("erase", tea, answer="y\n").output
    assert memory("list").output == "nothing is known yet\n" and files_with("kingfisher", tmp_path) == []


def test_in_a_chat_memory_is_looked_at_forgotten_and_brought_back_and_no_model_hears_of_it(
    memory: Command, tmp_path: Path
) -> None:
    tea = taken_in(tmp_path, memory, "Likes tea")
    assert "Likes tea" in memory("/memory").output
    assert "Likes tea" in memory("/memory", "some", "tea").output
    assert memory("/memory", "forget", tea).output.startswith("forgotten;")
    assert memory("/memory").output == "nothing is known yet\n"
    assert "+ Likes tea" in memory("/memory", "undo").output


def test_memory_is_switched_off_and_on(memory: Command) -> None:
    assert "nothing is told" in memory("off").output and memory("on").output == "memory is on\n"
