"""Samples of the founding documents, as they are printed."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.agents import make_lead_agent
from deerflow.cli.config import app
from deerflow.config.imports import load_object
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.subagents import SubagentConfig
from deerflow.testing import ScriptedModel, ScriptedServer, calling
from tests.harness.founding_documents import CONTAINERS, EXTENSIONS, GUIDE, MEMORY
from tests.harness.support import ask_successfully
from tests.mcp.support import McpHarness
from tests.memory.support import LOCAL_SCOPE, TABS_FACT, build_extraction_output, extract_now
from tests.sandbox.support import act, ask, end, open_sandbox_harness, tool_results
from tests.skills.support import write_skill
from tests.support import browse, needs

ROOT = Path(__file__).parents[2]
PASSED_ON = ("PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NPM_CONFIG_REGISTRY")
"""Variables that `npx` needs to reach the registry."""


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
    assert server.network_access  # without it, `npx` could not start


async def test_the_printed_model_answers_although_its_window_is_small(tmp_path: Path) -> None:
    async with ScriptedServer(["Hello."]) as server:
        printed = GUIDE.replace("model: gpt-4", f"model: gpt-4\n    base_url: {server.base_url}")
        (tmp_path / "config.yaml").write_text(printed)
        # Containers have a test of their own.
        local = {"sandbox": {"use": "deerflow.sandbox.local:LocalSandboxProvider"}}
        source = open_source(directory=tmp_path, environment={"OPENAI_API_KEY": "k"}, overrides=local)
        async with open_harness(source) as harness:
            await ask_successfully(harness, agent=AgentSpec(subagent_enabled=True))
    (request,) = server.requests
    assert "Go on" in [message["content"] for message in request.messages]


@pytest.mark.nightly
async def test_starts_the_printed_server_with_npx_and_calls_its_tools(tmp_path: Path) -> None:
    needs("npx")
    (tmp_path / "extensions_config.json").write_text(EXTENSIONS)
    settings = {
        "sandbox": {"use": "tests.harness.registry_sandbox:RegistrySandboxProvider", "toolbox": {"enabled": False}},
        "tool_search": {"enabled": False},
    }
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}  # noqa: TID251
    source = open_source(directory=tmp_path, environment=environment, overrides=settings)
    # The server answers this itself; other calls would reach GitHub.
    model = ScriptedModel.saying(calling("github_search_repositories", query="deer", page="first"), "Done.")
    async with open_harness(source, model) as harness:
        world = McpHarness(harness, model)
        await world.wait_until_listed()
        assert (world.status("github").state, world.status("github").error) == ("ready", None)
        await world.run()
        (result,) = await world.results()
    assert "Expected number, received string" in result.text
    assert "github_get_file_contents" in model.requests[0].tool_names


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


async def test_extracts_and_injects_with_the_printed_memory(tmp_path: Path) -> None:
    home = tmp_path / ".deer-flow"
    home.mkdir()
    (home / "memory.json").write_text(json.dumps({"version": "1.0", "facts": [{"content": "Likes tea"}]}))
    unsure = {"content": "The user likes deer", "message": 1, "quote": "I prefer tabs", "confidence": 0.6}
    learned = build_extraction_output(TABS_FACT, unsure, workContext="Writes code.")
    async with ScriptedServer(["Noted.", learned]) as server:
        entries = [
            server.model_config(name, model=name).model_dump(exclude_none=True) for name in ("main", "minimax-m2.7")
        ]
        (tmp_path / "config.yaml").write_text(MEMORY)
        source = open_source(directory=tmp_path, environment={}, overrides={"models": entries})
        async with open_harness(source) as harness:
            await ask_successfully(harness, "I prefer tabs")
            assert len(server.requests) == 1  # facts are extracted after `debounce_seconds`
            assert await extract_now(harness, LOCAL_SCOPE) == 1

    answer, extraction = server.requests
    assert "Likes tea" in json.dumps(answer.messages)
    assert (answer.model, extraction.model) == ("main", "minimax-m2.7")
    document = json.loads((home / "memory.json").read_bytes())
    assert [each["content"] for each in document["facts"]] == ["Likes tea", TABS_FACT["content"]]
    assert document["user"]["workContext"]["summary"] == "Writes code."


def test_rejects_two_storages_of_memory(tmp_path: Path) -> None:
    both = "memory: {storage_path: a.json, storage_class: 'deerflow.memory.service:JsonFileStorage'}\n"
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
    public, path = "/mnt/skills/public/house-style/SKILL.md", "/mnt/skills/custom/report-generation/SKILL.md"
    model = ScriptedModel.saying(
        act("read_file", path=public), act("read_file", path=path), act("bash", command="true"), "Done."
    )

    async with open_sandbox_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        results = [each["content"] for each in await tool_results(harness)]
        found = await harness.core.skills.find(LOCAL_USER.user_id, "report-generation")

    assert "name: house-style" in results[0]
    assert "Write three sections." in results[1]
    assert "report-generation" in results[2]  # the skill does not allow bash
    assert (found.description, found.allowed_tools, found.editable) == (
        "报告生成: Writes reports.",
        ("read_file", "write_file"),
        False,
    )
    prompt = model.requests[0].messages[0].text
    assert public in prompt and path in prompt


async def test_answers_the_printed_requests_with_the_printed_events(tmp_path: Path) -> None:
    graphs = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert load_object(graphs["lead_agent"]) is make_lead_agent
    body = {"assistant_id": "lead_agent", "input": {"messages": [{"role": "user", "content": "Hi"}]}}
    modes = ["messages-tuple", "values"]
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying("One.", "Two.")) as harness, browse(harness) as http:
        runs = "/api/langgraph/threads/t1/runs"
        created = (await http.post(runs, json=body)).json()
        followed = (await http.get(f"{runs}/{created['run_id']}/stream", params={"stream_mode": ",".join(modes)})).text
        streamed = (await http.post(f"{runs}/stream", json={**body, "stream_mode": modes})).text
        assert [run["status"] for run in (await http.get(runs)).json()] == ["success", "success"]
    for text, answer in ((followed, "One."), (streamed, "Two.")):
        events = re.findall(r"^event: (\S+)$", text, re.MULTILINE)
        # As in LangGraph, the events of the mode `messages-tuple` have the name `messages`.
        assert {*events} == {"metadata", "messages", "values", "end"}
        assert events[-1] == "end" and answer in text


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
