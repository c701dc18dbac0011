"""Migration from earlier versions of the public DeerFlow, and by `make config-upgrade`."""

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from typer.testing import CliRunner

from deerflow.cli.config import app
from deerflow.cli.migration import UNKNOWN, convert_config
from deerflow.config.load import PublicConfigFound, load
from deerflow.config.loader.document import format_path
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.cli.public_project import PUBLIC, drop_value, find_leaves
from tests.harness.support import ask_successfully
from tests.sandbox.support import act, tool_results
from tests.skills.support import write_skill
from tests.support import needs

ROOT = Path(__file__).parents[2]
GPT = '{name: gpt, use: "langchain_openai:ChatOpenAI", model: gpt-4, api_key: $OPENAI_API_KEY, max_tokens: 4096}'
SEARCH = '{name: web_search, group: web, use: "deerflow.community.tavily.tools:web_search_tool", max_results: 5}'
VERSIONS = {
    1: f"""
config_version: 1
models: [{GPT}]
tool_groups: [{{name: web}}, {{name: bash}}]
tools: [{SEARCH}, {{name: bash, group: bash, use: "src.sandbox.tools:bash_tool"}}]
sandbox: {{use: "src.community.aio_sandbox:AioSandboxProvider", port: 8080, auto_start: true}}
skills: {{container_path: /mnt/skills}}
title: {{enabled: true, max_words: 6, max_chars: 60, model_name: null}}
summarization: {{enabled: true, trigger: [{{type: tokens, value: 15564}}], keep: {{type: messages, value: 10}}}}
memory: {{enabled: true, storage_path: memory.json, debounce_seconds: 30, max_facts: 100}}
subagents: {{timeout_seconds: 900}}
""",
    5: f"""
config_version: 5
log_level: info
token_usage: {{enabled: false}}
models: [{GPT}]
tools: [{SEARCH}]
tool_search: {{enabled: false}}
sandbox: {{use: "deerflow.sandbox.local:LocalSandboxProvider", allow_host_bash: false, bash_output_max_chars: 20000}}
memory: {{enabled: true, storage_path: memory.json, injection_enabled: true, max_injection_tokens: 2000}}
checkpointer: {{type: sqlite, connection_string: checkpoints.db}}
guardrails: {{enabled: false}}
uploads: {{pdf_converter: auto}}
skill_evolution: {{enabled: false, moderation_model_name: null}}
channels: {{langgraph_url: "http://localhost:2024"}}
""",
    15: f"""
config_version: 15
log_level: info
models: [{GPT}]
tools: [{SEARCH}]
sandbox: {{use: "deerflow.sandbox.local:LocalSandboxProvider"}}
loop_detection: {{enabled: true, warn_threshold: 3, hard_limit: 5, max_tracked_threads: 100}}
circuit_breaker: {{failure_threshold: 5, recovery_timeout_sec: 60}}
database: {{backend: sqlite, sqlite_dir: .deer-flow/data}}
run_events: {{backend: memory, max_trace_content: 10240}}
stream_bridge: {{type: memory, queue_maxsize: 256}}
agents_api: {{enabled: false}}
memory: {{enabled: true, debounce_seconds: 30, model_name: gpt}}
""",
    27: f"""
config_version: 27
models: [{GPT}]
tools: [{SEARCH}]
sandbox: {{use: "deerflow.sandbox.local:LocalSandboxProvider", environment: {{MODE: test}}}}
memory: {{mode: middleware, manager_class: deermem, backend_config: {{max_facts: 80, debounce_seconds: 20}}}}
token_budget: {{enabled: true, max_tokens: 100000, warn_threshold: 0.7}}
read_before_write: {{enabled: true}}
suggestions: {{enabled: false}}
run_ownership: {{lease_seconds: 30, heartbeat_enabled: true}}
scheduler: {{enabled: true}}
""",
}
"""Configurations of earlier versions, as their examples had them."""


@pytest.mark.parametrize("version", VERSIONS)
def test_an_earlier_version_is_taken_over_and_nothing_is_lost_silently(tmp_path: Path, version: int) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(VERSIONS[version])
    with pytest.raises(PublicConfigFound):
        load(directory=tmp_path, environment={})

    environment = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path), "DEER_FLOW_HOME": str(tmp_path / ".deer-flow")}
    result = CliRunner().invoke(app, ["migrate"], env=environment)

    assert result.exit_code == 0, result.output
    loaded = load(directory=tmp_path, environment={"OPENAI_API_KEY": "k", "TAVILY_API_KEY": "k"})
    assert (loaded.config.models[0].name, loaded.config.tools[0].name) == ("gpt", "web_search")
    public: Any = yaml.safe_load(VERSIONS[version])
    made = convert_config(public)
    reasons = {re.sub(r" \(.*?\)", "", each.key): each.reason for each in made.left_out}
    assert UNKNOWN not in reasons.values()
    assert all(f"{key}" in result.output for key in reasons)
    untold = [path for path in find_leaves(public) if not format_path(path).startswith(tuple(reasons))]
    silent = {("config_version",), ("tools", 0, "group"), ("tools", 1, "group")}
    assert {path for path in untold if convert_config(drop_value(public, path)) == made} <= silent


def write_layout_without_users(project: Path) -> None:
    """Write the state of a version that had no users: next to its server, in `backend`."""
    home = project / "backend" / ".deer-flow"
    write_skill(project / "skills" / "custom", "tidy-up", body="Sort the files.\n")
    agent = home / "agents" / "helper"
    agent.mkdir(parents=True)
    (agent / "config.yaml").write_text("name: helper\ndescription: Helps.\nmodel: gpt\n")
    (agent / "SOUL.md").write_text("You are kind.")
    (agent / "memory.json").write_text(json.dumps({"facts": [{"content": "Is addressed as Ada"}]}))
    (home / "memory.json").write_text(json.dumps({"version": "1.0", "facts": [{"content": "Likes tea"}]}))
    for area, name in (("outputs", "report.md"), ("uploads", "table.csv"), ("workspace", "notes.txt")):
        folder = home / "threads" / "t1" / "user-data" / area
        folder.mkdir(parents=True)
        (folder / name).write_text(f"{name} of t1")
    messages = [HumanMessage("Write a report", id="h1"), AIMessage("Done.", id="a1")]
    with sqlite3.connect(home / "checkpoints.db") as connection:
        columns = "thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT"
        connection.execute(f"CREATE TABLE checkpoints ({columns}, checkpoint BLOB, metadata BLOB)")
        for thread in ("t1", "t2"):
            values = {"messages": messages, "title": "A report", "artifacts": ["/mnt/user-data/outputs/report.md"]}
            state = JsonPlusSerializer().dumps_typed({"v": 4, "id": "1", "channel_values": values})
            connection.execute("INSERT INTO checkpoints VALUES (?, '', '1', NULL, ?, ?, NULL)", (thread, *state))
    connection.close()


async def test_takes_over_threads_skills_and_agents_of_a_layout_without_users(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(VERSIONS[5])
    write_layout_without_users(tmp_path)
    environment = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path), "DEER_FLOW_HOME": str(tmp_path / ".deer-flow")}

    result = await asyncio.to_thread(CliRunner().invoke, app, ["migrate"], env=environment)

    assert [line for line in result.output.splitlines() if ": taken over" in line] == [
        "agent helper: taken over",
        "memory: taken over, 1 entries",
        "memory of helper: taken over, 1 entries",
        "thread t1: taken over, 2 messages",
        "thread t2: taken over, 2 messages",
    ], result.output
    source = open_source(directory=tmp_path, environment={"OPENAI_API_KEY": "k"}, overrides={"tools": []})
    model = ScriptedModel.saying(act("read_file", path="/mnt/skills/custom/tidy-up/SKILL.md"), "Tidied.")
    async with open_harness(source, model) as harness:
        await ask_successfully(harness)
        assert "Sort the files." in (await tool_results(harness))[0]["content"]
        assert harness.core.custom_agents.load(LOCAL_USER.user_id, "helper").soul == "You are kind."
        for agent, fact in ((None, "Likes tea"), ("helper", "Is addressed as Ada")):
            memory = await harness.resources.memory.read(MemoryScope(LOCAL_USER.user_id, agent))
            assert [each.content for each in memory.facts] == [fact]
        for thread in ("t1", "t2"):
            values = json.loads((await harness.threads.state(thread, LOCAL_USER)).values)
            assert [message["content"] for message in values["messages"]] == ["Write a report", "Done."]
        files = tmp_path / ".deer-flow" / "users" / LOCAL_USER.user_id / "threads" / "t1" / "user-data"
        for name in ("outputs/report.md", "uploads/table.csv", "workspace/notes.txt"):
            assert (files / name).read_text() == f"{Path(name).name} of t1"
    assert (tmp_path / "backend" / ".deer-flow" / "threads" / "t1" / "user-data" / "outputs" / "report.md").is_file()


def test_make_config_upgrade_migrates_the_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(PUBLIC)
    write_skill(tmp_path / ".deer-flow" / "users" / "default" / "skills" / "custom", "tidy-up")
    # What it installs first is installed already; it is not installed again while other tests use it.
    installed = ["BOOTSTRAP=:", f"BIN={Path(sys.executable).parent}"]
    command = [needs("make"), "-C", tmp_path, "-f", ROOT / "Makefile", "--no-print-directory", *installed]

    done = subprocess.run([*command, "config-upgrade"], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "skill tidy-up: taken over" in done.stdout and "not taken over: mystery" in done.stdout
    assert (tmp_path / "config.yaml.before-migration").read_text() == PUBLIC
    environment = {"DEEPSEEK_API_KEY": "k", "OPENAI_API_KEY": "k"}
    assert load(directory=tmp_path, environment=environment).config.models[0].name == "deepseek"
    again = subprocess.run([*command, "config-upgrade"], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode != 0 and "is not a configuration of the public DeerFlow" in again.stdout + again.stderr
