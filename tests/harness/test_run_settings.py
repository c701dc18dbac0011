"""A run keeps the settings with which it was accepted; the next run gets the edited ones."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import yaml
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, calling

WRITE = calling("write_file", description="", path="/mnt/user-data/outputs/note.txt", content="written")
DENY = {"rules": [{"name": "no-writing", "outcome": "deny", "reason": "writing is denied", "tool": "write_file"}]}


async def run(harness: Harness) -> RunStatus:
    request = RunRequest("t", [{"type": "human", "content": "Go on"}], AgentSpec(subagent_enabled=True))
    record = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(30):
        return (await harness.runs.join("t", record.run_id, LOCAL_USER)).status


def results(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


async def test_editing_the_configuration_during_a_run_applies_to_the_next_run(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    settings: dict[str, object] = {"memory": {"debounce_seconds": 3600}}
    config.write_text(yaml.safe_dump(settings))

    def edit_and_write(_: Sequence[BaseMessage]) -> Answer:
        edited = {**settings, "subagents": {"enabled": False}}
        config.write_text(yaml.safe_dump(edited))
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(DENY))
        assert not source.refresh().config.subagents.enabled  # as a request of somebody else would do
        return WRITE

    model = ScriptedModel.saying(edit_and_write, WRITE, "First run.", WRITE, "Second run.")
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, model) as harness:
        assert await run(harness) is RunStatus.SUCCESS
        first, second, third = model.requests
        assert first.tool_names == second.tool_names == third.tool_names
        assert "task" in first.tool_names
        assert first.messages[0] == second.messages[0] == third.messages[0]
        assert not any("denied" in result for result in results(third.messages))

        await run(harness)
        assert "task" not in model.requests[3].tool_names
        assert "writing is denied" in results(model.requests[4].messages)[-1]
