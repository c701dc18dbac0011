"""The harness built from its configuration."""

import asyncio
from pathlib import Path

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedServer


def model_entry(name: str, server: ScriptedServer) -> dict[str, object]:
    use = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"
    return {"name": name, "use": use, "model": name, "base_url": server.base_url}


async def ask(harness: Harness, thread_id: str, text: str, agent: AgentSpec = AgentSpec()) -> str:
    request = RunRequest(thread_id, [{"type": "human", "content": text}], agent)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(10):
        run = await harness.runs.join(thread_id, run.run_id, LOCAL_USER)
    assert run.status is RunStatus.SUCCESS, run.error
    state = orjson.loads((await harness.threads.state(thread_id, LOCAL_USER)).values)
    return str(state["messages"][-1]["content"])


async def test_two_harnesses_with_different_configurations_coexist_in_one_process(tmp_path: Path) -> None:
    async with ScriptedServer(["I am one.", "Still one."]) as one, ScriptedServer(["I am two."]) as two:
        sources = [
            open_source(directory=tmp_path / name, environment={}, overrides={"models": [model_entry(name, server)]})
            for name, server in (("one", one), ("two", two))
        ]
        async with open_harness(sources[0]) as first, open_harness(sources[1]) as second:
            answers = await asyncio.gather(ask(first, "t", "Who?"), ask(second, "t", "Who?"))
            assert answers == ["I am one.", "I am two."]
            assert first.core.agents.catalog.default.name == "one" and second.core.agents.catalog.default.name == "two"
            await second.threads.delete("t", LOCAL_USER)
            assert await ask(first, "t", "And now?") == "Still one."
            assert await second.threads.search(LOCAL_USER, 10, 0) == []


async def test_a_configuration_change_takes_effect_in_the_next_run(tmp_path: Path) -> None:
    def write(name: str, server: ScriptedServer) -> None:
        fields = "\n".join(f"    {key}: {value}" for key, value in model_entry(name, server).items())
        (tmp_path / "config.yaml").write_text(f"models:\n  -\n{fields}\n")

    async with ScriptedServer(["Before."]) as one, ScriptedServer(["After."]) as two:
        write("first", one)
        async with open_harness(open_source(directory=tmp_path, environment={})) as harness:
            assert await ask(harness, "t", "1") == "Before."
            write("second-name", two)
            assert await ask(harness, "t", "2") == "After."
            assert [model.name for model in harness.core.agents.catalog.models] == ["second-name"]
            assert two.requests[0].body["messages"][1]["content"] == "1"


async def test_an_invalid_configuration_change_is_ignored_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer(["Still here."]) as server:
        overrides = {"models": [model_entry("m", server)]}
        source = open_source(directory=tmp_path, environment={}, overrides=overrides)
        async with open_harness(source) as harness:
            (tmp_path / "config.yaml").write_text("titel: {}\n")
            assert await ask(harness, "t", "hello?") == "Still here."
    assert source.problem is not None and "did you mean 'title'" in source.problem


async def test_a_request_selects_its_model_and_an_unknown_model_falls_back_to_the_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer(["Default.", "Default again."]) as one, ScriptedServer(["Other."]) as two:
        overrides = {"models": [model_entry("one", one), model_entry("two", two)]}
        async with open_harness(open_source(directory=tmp_path, environment={}, overrides=overrides)) as harness:
            assert await ask(harness, "a", "?", AgentSpec("two")) == "Other."
            assert await ask(harness, "b", "?", AgentSpec("three")) == "Default."
            assert "there is no model 'three'" in caplog.text


async def test_the_demo_model_answers_without_configuration(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={})) as harness:
        assert harness.core.agents.catalog.default.name == "demo"
        answer = await ask(harness, "t", "How do I connect a real model?")
        assert "OPENAI_API_KEY" in answer


async def test_an_api_key_in_the_environment_configures_models(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={"DEEPSEEK_API_KEY": "sk-x"})) as harness:
        models = harness.core.agents.catalog.models
        assert models and all("deepseek" in model.name for model in models)
        assert "sk-x" not in repr(models)
