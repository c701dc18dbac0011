"""Samples of the founding documents, as they are printed."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.cli.config import app
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.subagents import SubagentConfig
from deerflow.testing import ScriptedModel, calling
from tests.harness.support import ask_successfully
from tests.sandbox.support import act, ask, end, open_sandbox_harness, tool_results
from tests.skills.support import write_skill

GUIDE = """
models:
  - name: gpt-4
    use: langchain_openai:ChatOpenAI
    model: gpt-4
    api_key: $OPENAI_API_KEY
tools:
  - name: web_search
    use: deerflow.community.tavily:tavily_search
sandbox:
  use: deerflow.community.aio_sandbox:AioSandboxProvider
memory:
  enabled: true
  debounce_seconds: 30
subagents:
  enabled: true
"""
EXTENSIONS = """
{"mcpServers": {"github": {"enabled": true, "type": "stdio", "command": "npx",
                           "args": ["-y", "@modelcontextprotocol/server-github"]}},
 "skills": {"research": {"enabled": true}, "report-generation": {"enabled": true}}}
"""
CONTAINERS = """
sandbox:
  use: deerflow.community.aio_sandbox:AioSandboxProvider
  image: some-registry/all-in-one-sandbox:latest
  port: 8080
  container_prefix: deer-flow-sandbox
  idle_timeout: 600
  replicas: 3
  mounts: [{host_path: /home/user/projects, container_path: /mnt/projects, read_only: false}]
"""
MEMORY = """
memory: {enabled: true, storage_path: memory.json, debounce_seconds: 30, model_name: minimax-m2.7, max_facts: 100,
         fact_confidence_threshold: 0.7, injection_enabled: true, max_injection_tokens: 2000}
"""


def check(project: Path, text: str) -> Result:
    (project / "config.yaml").write_text(text)
    environment = {"DEER_FLOW_PROJECT_ROOT": str(project), "OPENAI_API_KEY": "k"}
    return CliRunner().invoke(app, ["check"], env=environment)


@pytest.mark.parametrize("text", [GUIDE, CONTAINERS, MEMORY])
def test_accepts_the_printed_configuration(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, text).output == "config.yaml is valid\n"


def test_accepts_the_printed_extensions_and_names_skills_that_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "extensions_config.json").write_text(EXTENSIONS)

    result = check(tmp_path, GUIDE)

    assert result.exit_code == 0
    assert result.output.splitlines()[1:] == [
        "extensions_config.json is valid",
        "extensions_config.json: skills.research: no skill has this name",
    ]
    server = open_source(directory=tmp_path, environment={"OPENAI_API_KEY": "k"}).current.extensions.mcp_servers[
        "github"
    ]
    assert server.has_network  # without it, `npx` could not start


async def test_offers_a_tool_without_a_group_by_its_printed_path(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello.")
    tools = [{"name": "web_search", "use": "deerflow.community.tavily:tavily_search", "api_key": "k"}]
    async with open_sandbox_harness(tmp_path, model, tools=tools) as harness:
        assert (await ask(harness)).status is RunStatus.SUCCESS
    assert model.requests[0].tool_names[0] == "web_search"


async def test_reads_and_writes_memory_as_the_document_at_the_storage_path(tmp_path: Path) -> None:
    home, scope = tmp_path / ".deer-flow", MemoryScope(LOCAL_USER.user_id)
    file = home / "memory.json"
    home.mkdir()
    fact = {"id": "fact_1", "content": "Likes tea", "category": "preference", "confidence": 0.9, "source": "t1"}
    summary = {"summary": "Builds agents.", "updatedAt": "2026-05-01T09:30:00Z"}
    file.write_text(json.dumps({"version": "1.0", "user": {"workContext": summary}, "history": {}, "facts": [fact]}))
    source = open_source(directory=tmp_path, environment={}, overrides={"memory": {"storage_path": "memory.json"}})

    async with open_harness(source, ScriptedModel.saying()) as harness:
        memory = harness.resources.memory
        state = await memory.read(scope)
        assert [each.content for each in state.facts] == ["Likes tea"]
        assert state.summaries["user.workContext"].summary == "Builds agents."

        await memory.add_fact(scope, "Lives in Rome")
        await memory.add_fact(MemoryScope(LOCAL_USER.user_id, "helper"), "Belongs to another memory")

    document = json.loads(file.read_bytes())
    assert [each["content"] for each in document["facts"]] == ["Likes tea", "Lives in Rome"]
    assert list(document["user"]) == ["workContext", "personalContext", "topOfMind"]
    assert list(document["history"]) == ["recentMonths", "earlierContext", "longTermBackground"]


def test_rejects_two_storages_of_memory(tmp_path: Path) -> None:
    both = "memory: {storage_path: a.json, storage_class: 'deerflow.memory.storage:JsonFileStorage'}\n"
    assert "storage_path and storage_class exclude each other" in check(tmp_path, both).output


async def test_uses_the_skills_of_the_project_folder(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("log_level: info\n")
    skills = tmp_path / "skills"
    write_skill(skills / "public", "house-style")
    report = skills / "custom" / "report-generation"
    report.mkdir(parents=True)
    header = (
        "name: 报告生成\ndescription: Writes reports.\nlicense: MIT\nallowed-tools:\n  - read_file\n  - write_file\n"
    )
    (report / "SKILL.md").write_text(f"---\n{header}---\nWrite three sections.\n")
    path = "/mnt/skills/custom/report-generation/SKILL.md"
    model = ScriptedModel.saying(act("read_file", path=path), act("bash", command="true"), "Done.")

    async with open_sandbox_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        results = [each["content"] for each in await tool_results(harness)]
        found = await harness.core.skills.find(LOCAL_USER.user_id, "report-generation")

    assert "Write three sections." in results[0]
    assert "report-generation" in results[1]  # the skill does not allow bash
    assert (found.description, found.allowed_tools, found.editable) == (
        "报告生成: Writes reports.",
        ("read_file", "write_file"),
        False,
    )
    prompt = model.requests[0].messages[0].text
    assert "/mnt/skills/public/house-style/SKILL.md" in prompt and path in prompt


async def test_a_run_has_no_time_limit_if_none_is_configured(tmp_path: Path) -> None:
    assert open_source(directory=tmp_path, environment={}).current.config.runs.timeout_seconds == 6 * 60 * 60
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying("Done."), runs={"timeout_seconds": None}) as harness:
        assert (await ask(harness)).status is RunStatus.SUCCESS


async def test_delegates_to_a_subagent_defined_as_printed(tmp_path: Path) -> None:
    reviewer = SubagentConfig(
        name="reviewer",
        description="Reviews texts.",
        system_prompt="You review texts.",
        tools=["read_file"],
        disallowed_tools=["task"],
        model="inherit",
        max_turns=50,
        timeout_seconds=900,
    )
    task = calling("task", description="review", prompt="Review it.", subagent_type="reviewer")
    model = ScriptedModel.saying(task, "It is good.", "Done.")
    source = open_source(directory=tmp_path, environment={}, overrides={"memory": {"enabled": False}})

    async with open_harness(source, model, subagents=[reviewer]) as harness:
        run = await harness.runs.create_or_reject(
            RunRequest("t", [{"type": "human", "content": "Go on"}], AgentSpec(subagent_enabled=True)), LOCAL_USER
        )
        await end(harness, run)
        assert "It is good." in (await tool_results(harness))[0]["content"]
    assert "You review texts." in model.requests[1].messages[0].text
