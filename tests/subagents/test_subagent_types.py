"""Subagent types: built-in, configured, programmatic and from files."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from deerflow.config.sections.agents import SubagentsConfig
from deerflow.domain.errors import ConfigError
from deerflow.subagents.types import SubagentConfig, SubagentFiles, resolve_types


def build_config(**values: object) -> SubagentsConfig:
    return SubagentsConfig.model_validate(values)


def test_bash_type_requires_command_execution() -> None:
    assert list(resolve_types(build_config(), runs_commands=True)) == ["general-purpose", "bash"]
    assert list(resolve_types(build_config(), runs_commands=False)) == ["general-purpose"]


def test_global_limits_apply_to_builtin_types_and_overrides_to_one_type() -> None:
    given = build_config(timeout_seconds=60.0, max_turns=5, agents={"bash": {"timeout_seconds": 9.0, "model": "small"}})
    types = resolve_types(given, runs_commands=True)
    assert (types["general-purpose"].timeout_seconds, types["general-purpose"].max_turns) == (60.0, 5)
    assert (types["bash"].timeout_seconds, types["bash"].max_turns, types["bash"].model) == (9.0, 5, "small")


def test_configured_type_uses_its_entry_and_defaults() -> None:
    entry = {"description": "Checks facts.", "system_prompt": "You check.", "tools": ["read_file", "task"]}
    subagent_type = resolve_types(build_config(custom_agents={"checker": entry}), runs_commands=True)["checker"]
    assert (subagent_type.model, subagent_type.max_turns, subagent_type.timeout_seconds) == ("inherit", 50, 900.0)
    assert subagent_type.allows("read_file") and not subagent_type.allows("bash")


def test_programmatic_type_overrides_builtin_type() -> None:
    own = SubagentConfig("bash", "Mine.", "You are mine.")
    assert resolve_types(build_config(), [own], runs_commands=True)["bash"].description == "Mine."


@pytest.mark.parametrize("tool", ["task", "task_batch", "ask_clarification", "present_files"])
def test_denies_delegation_and_user_facing_tools_regardless_of_settings(tool: str) -> None:
    subagent_type = SubagentConfig("x", "X.", "You are x.", tools=(tool, "bash"), disallowed_tools=())
    assert not subagent_type.allows(tool) and subagent_type.allows("bash")
    assert not SubagentConfig("x", "X.", "You are x.", disallowed_tools=("bash",)).allows(tool)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "bash\n- evil: x", "${kinds}", "日本", "x" * 65])
def test_refuses_invalid_type_names(name: str) -> None:
    entry = {"description": "x", "system_prompt": "You are x."}
    with pytest.raises(ValidationError, match="letters, digits"):
        build_config(custom_agents={name: entry})
    assert "fact_checker-2" in build_config(custom_agents={"fact_checker-2": entry}).custom_agents


@pytest.mark.parametrize("wrong", [{"name": "a b"}, {"max_turns": 0}, {"timeout_seconds": 0.0}])
def test_refuses_invalid_programmatic_types(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "x", "description": "X.", "system_prompt": "You are x."}
    with pytest.raises(ConfigError, match="subagent"):
        SubagentConfig(**{**given, **wrong})


@pytest.mark.parametrize("name", ["general-purpose", "bash"])
def test_configured_type_replaces_the_builtin_type_of_the_same_name(name: str) -> None:
    entry = {"description": "Mine.", "system_prompt": "You are mine."}
    types = resolve_types(
        build_config(custom_agents={name: entry}, agents={name: {"max_turns": 3}}), runs_commands=True
    )
    assert list(types) == ["general-purpose", "bash"]
    assert (types[name].description, types[name].max_turns) == ("Mine.", 3)


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
def test_refuses_invalid_settings(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        build_config(**values)


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


def test_loads_types_from_markdown_files_and_reloads_edits(tmp_path: Path) -> None:
    file, files = tmp_path / "checker.md", SubagentFiles([tmp_path / "missing", tmp_path])
    file.write_text(CHECKER)
    (subagent_type,) = [file.to_config(60.0) for file in files.load()]
    assert (subagent_type.name, subagent_type.description, subagent_type.tools) == (
        "fact-checker",
        "Checks facts.",
        ("read_file", "grep"),
    )
    assert (subagent_type.max_turns, subagent_type.timeout_seconds, subagent_type.model) == (7, 60.0, "inherit")
    assert subagent_type.skills == ("sources",)
    assert subagent_type.system_prompt == "You check facts.\n\nSay where you read it."
    assert (
        resolve_types(build_config(), from_files=[subagent_type], runs_commands=False)["fact-checker"] is subagent_type
    )
    file.write_text(CHECKER.replace("Checks facts", "Doubts everything"))
    assert [file.front_matter.description for file in files.load()] == ["Doubts everything."]
    file.unlink()
    assert files.load() == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("You check.", "must begin with front matter"),
        ("---\ndescription: x\nYou check.", "not closed"),
        ("---\ndescription: x\n---\n", "no system prompt"),
        ("---\ndescription: x\nmax_tuns: 3\n---\nYou check.", "did you mean 'max_turns'"),
        ("---\nmodel: y\n---\nYou check.", "description"),
        ("---\nname: a b\ndescription: x\n---\nYou check.", "'a b'"),
        ("---\ndescription: x\nmax_turns: 0\n---\nYou check.", "max_turns"),
        ("---\ndescription: [x\n---\nYou check.", "wrong.md"),
        ("---\n- description\n---\nYou check.", "wrong.md"),
        (f"---\ndescription: x\n---\n{'You check. ' * 30_000}", "larger than"),
        (b"---\ndescription: \xff\n---\nYou check.", "not UTF-8"),
        ("", "must begin with front matter"),
    ],
)
def test_skips_and_logs_invalid_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | bytes, complaint: str
) -> None:
    (tmp_path / "good.md").write_text("---\ndescription: Works.\n---\nYou work.")
    (tmp_path / "wrong.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert [subagent_type.name for subagent_type in SubagentFiles([tmp_path]).load()] == ["good"]
    assert complaint in caplog.text and "wrong.md" in caplog.text
