"""The kinds of subagents, and what the configuration makes of them."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from deerflow.config.subagents import SubagentsConfig
from deerflow.domain.errors import ConfigError
from deerflow.subagents.files import KindFiles
from deerflow.subagents.kinds import SubagentConfig, kinds_of


def settings(**values: object) -> SubagentsConfig:
    return SubagentsConfig.model_validate(values)


def test_without_commands_there_is_nobody_to_run_them() -> None:
    assert list(kinds_of(settings(), runs_commands=True)) == ["general-purpose", "bash"]
    assert list(kinds_of(settings(), runs_commands=False)) == ["general-purpose"]


def test_one_setting_is_for_all_built_in_kinds_and_one_for_a_single_kind() -> None:
    given = settings(timeout_seconds=60.0, max_turns=5, agents={"bash": {"timeout_seconds": 9.0, "model": "small"}})
    kinds = kinds_of(given, runs_commands=True)
    assert (kinds["general-purpose"].timeout_seconds, kinds["general-purpose"].max_turns) == (60.0, 5)
    assert (kinds["bash"].timeout_seconds, kinds["bash"].max_turns, kinds["bash"].model) == (9.0, 5, "small")


def test_a_configured_kind_has_what_its_entry_says_and_the_usual_otherwise() -> None:
    entry = {"description": "Checks facts.", "system_prompt": "You check.", "tools": ["read_file", "task"]}
    kind = kinds_of(settings(custom_agents={"checker": entry}), runs_commands=True)["checker"]
    assert (kind.model, kind.max_turns, kind.timeout_seconds) == ("inherit", 50, 900.0)
    assert kind.allows("read_file") and not kind.allows("bash")


def test_the_kind_of_a_program_wins_over_one_of_the_same_name() -> None:
    own = SubagentConfig("bash", "Mine.", "You are mine.")
    assert kinds_of(settings(), [own], runs_commands=True)["bash"].description == "Mine."


@pytest.mark.parametrize("tool", ["task", "task_batch", "ask_clarification", "present_files"])
def test_no_subagent_gives_work_to_others_or_speaks_to_people_whatever_its_settings_say(tool: str) -> None:
    kind = SubagentConfig("x", "X.", "You are x.", tools=(tool, "bash"), disallowed_tools=())
    assert not kind.allows(tool) and kind.allows("bash")
    assert not SubagentConfig("x", "X.", "You are x.", disallowed_tools=("bash",)).allows(tool)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "bash\n- evil: x", "${kinds}", "日本", "x" * 65])
def test_a_configured_kind_has_a_name_that_models_can_say(name: str) -> None:
    entry = {"description": "x", "system_prompt": "You are x."}
    with pytest.raises(ValidationError, match="letters, digits"):
        settings(custom_agents={name: entry})
    assert "fact_checker-2" in settings(custom_agents={"fact_checker-2": entry}).custom_agents


@pytest.mark.parametrize("wrong", [{"name": "a b"}, {"max_turns": 0}, {"timeout_seconds": 0.0}])
def test_a_program_is_told_at_once_of_a_kind_that_cannot_be(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "x", "description": "X.", "system_prompt": "You are x."}
    with pytest.raises(ConfigError, match="subagent"):
        SubagentConfig(**{**given, **wrong})


@pytest.mark.parametrize("name", ["general-purpose", "bash"])
def test_a_configured_kind_takes_the_place_of_a_built_in_one_of_its_name_and_only_of_that(name: str) -> None:
    entry = {"description": "Mine.", "system_prompt": "You are mine."}
    kinds = kinds_of(settings(custom_agents={name: entry}, agents={name: {"max_turns": 3}}), runs_commands=True)
    assert list(kinds) == ["general-purpose", "bash"]
    assert (kinds[name].description, kinds[name].max_turns) == ("Mine.", 3)


@pytest.mark.parametrize(
    "values",
    [
        {"custom_agents": {"x": {"description": "no prompt"}}},
        {"custom_agents": {"x": {"description": "", "system_prompt": "s"}}},
        {"agents": {"bash": {"max_turns": 0}}},
        {"timeout_seconds": 0.0},
        {"max_concurrent": 0},
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        settings(**values)


CHECKER = """---
name: fact-checker
description: Checks facts.
tools: read_file, grep
skills: [sources]
max_turns: 7
---
You check facts.

Say where you read it.
"""


def test_a_markdown_file_describes_a_kind_and_an_edit_of_it_counts(tmp_path: Path) -> None:
    file, files = tmp_path / "checker.md", KindFiles([tmp_path / "missing", tmp_path])
    file.write_text(CHECKER)
    (kind,) = [filed.to_kind(60.0) for filed in files.kinds()]
    assert (kind.name, kind.description, kind.tools) == ("fact-checker", "Checks facts.", ("read_file", "grep"))
    assert (kind.max_turns, kind.timeout_seconds, kind.model) == (7, 60.0, "inherit")
    assert kind.skills == ("sources",)
    assert kind.system_prompt == "You check facts.\n\nSay where you read it."
    assert kinds_of(settings(), filed=[kind], runs_commands=False)["fact-checker"] is kind
    file.write_text(CHECKER.replace("Checks facts", "Doubts everything"))
    assert [filed.front.description for filed in files.kinds()] == ["Doubts everything."]
    file.unlink()
    assert files.kinds() == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("You check.", "begins with a line '---'"),
        ("---\ndescription: x\nYou check.", "do not end"),
        ("---\ndescription: x\n---\n", "no system prompt"),
        ("---\ndescription: x\nmax_tuns: 3\n---\nYou check.", "did you mean 'max_turns'"),
        ("---\nmodel: y\n---\nYou check.", "description"),
        ("---\nname: a b\ndescription: x\n---\nYou check.", "'a b'"),
        ("---\ndescription: x\nmax_turns: 0\n---\nYou check.", "max_turns"),
        ("---\ndescription: [x\n---\nYou check.", "wrong.md"),
        ("---\n- description\n---\nYou check.", "wrong.md"),
        (f"---\ndescription: x\n---\n{'You check. ' * 30_000}", "larger than"),
        (b"---\ndescription: \xff\n---\nYou check.", "not UTF-8"),
        ("", "begins with a line '---'"),
    ],
)
def test_a_file_that_describes_no_kind_is_left_out_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | bytes, complaint: str
) -> None:
    (tmp_path / "good.md").write_text("---\ndescription: Works.\n---\nYou work.")
    (tmp_path / "wrong.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert [kind.name for kind in KindFiles([tmp_path]).kinds()] == ["good"]
    assert complaint in caplog.text and "wrong.md" in caplog.text
