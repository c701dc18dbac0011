"""DeerFlow inside a Python program."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.agents import Next, RuntimeFeatures
from deerflow.client import DeerFlowClient
from deerflow.domain.errors import ConfigError, ModelRejected, NotFound, RunFailed
from deerflow.gateway.routers.models import Model, Models
from deerflow.gateway.routers.threads import Thread
from deerflow.sandbox.middleware import SandboxMiddleware
from deerflow.testing import ScriptedModel, ScriptedServer, calling, thinking
from tests.support import said

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_question_gets_its_answer_and_a_thread_goes_on() -> None:
    model = ScriptedModel.saying("Four.", "Eight.")
    with DeerFlowClient(model=model) as client:
        assert client.chat("2 + 2?", thread_id="sums") == "Four."
        assert client.chat("Twice that?", thread_id="sums") == "Eight."
    assert said(model.requests[1].messages) == ["2 + 2?", "Four.", "Twice that?"]


def test_a_run_is_followed_piece_by_piece() -> None:
    with DeerFlowClient(model=ScriptedModel.saying(thinking("Hm.", then="One two three."))) as client:
        events = list(client.stream("Count"))
    pieces = [event.data for event in events if event.type == "messages-tuple"]
    assert "".join(piece["content"] for piece in pieces) == "One two three."
    assert "".join(piece["additional_kwargs"].get("reasoning_content", "") for piece in pieces) == "Hm."
    assert {piece["type"] for piece in pieces} == {"ai"}
    states = [event.data for event in events if event.type == "values"]
    assert [[message["type"] for message in state["messages"]] for state in states][-1] == ["human", "ai"]
    assert events[-1].type == "end" and events[-1].data["usage"].keys() == {
        "input_tokens",
        "output_tokens",
        "total_tokens",
    }


async def test_the_async_face_works_in_the_callers_loop() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.")) as client, asyncio.timeout(10):
        assert await client.achat("1") == "One."
        assert [event.type async for event in client.astream("2")][-1] == "end"


def test_a_dictionary_is_all_the_configuration_needed(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with ScriptedServer(["From the server."]) as server:
            lean = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"
            entry = {"name": "m", "use": lean, "model": "m", "base_url": server.base_url}
            async with DeerFlowClient(config={"models": [entry]}) as client:
                return await client.achat("Hi")

    assert asyncio.run(scenario()) == "From the server."


def test_a_failed_run_raises_its_reason_and_the_thread_goes_on() -> None:
    with DeerFlowClient(model=ScriptedModel.saying(ModelRejected("down"), "Up again.")) as client:
        with pytest.raises(RunFailed, match="down"):
            client.chat("1", thread_id="t")
        assert client.chat("2", thread_id="t") == "Up again."


def test_leaving_a_stream_early_stops_the_run() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One two three.", "Next.")) as client:
        for event in client.stream("1", thread_id="t"):
            if event.type == "messages-tuple":
                break
        assert client.chat("2", thread_id="t") == "Next."


def test_a_wrong_configuration_is_told_when_the_client_is_made() -> None:
    with pytest.raises(ConfigError, match="did you mean 'models'"):
        DeerFlowClient(config={"modles": []})


def test_closing_twice_is_harmless() -> None:
    client = DeerFlowClient(model=ScriptedModel.saying())
    client.close()
    client.close()


def test_the_readme_tells_no_lies(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    exec(compile(example, str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "super agent harness" in printed and "OPENAI_API_KEY" in printed


def test_threads_and_models_have_the_shape_of_the_http_api() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        client.chat("1", thread_id="t")
        (thread,) = client.list_threads()
        whole = client.get_thread("t")
        models = client.list_models()
        assert Thread.model_validate(thread).thread_id == "t" and thread["values"] == {"title": "1"}
        assert [len(state["values"]["messages"]) for state in whole["checkpoints"]][:2] == [2, 1]
        assert Models.model_validate(models).default == "demo"
        assert Model.model_validate(client.get_model("demo")).scripted
        for missing in (lambda: client.get_thread("none"), lambda: client.get_model("none")):
            with pytest.raises(NotFound):
                missing()


async def test_the_async_faces_say_the_same() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        await client.achat("1", thread_id="t")
        assert await client.alist_threads() == await asyncio.to_thread(client.list_threads)
        assert (await client.aget_thread("t"))["thread_id"] == "t"
        assert await client.alist_models() == await asyncio.to_thread(client.list_models)
        assert (await client.aget_model("demo"))["name"] == "demo"


def test_features_and_middlewares_of_ones_own_reach_the_agent() -> None:
    calls: list[str] = []

    @Next(SandboxMiddleware)
    class Audit(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            calls.append("audit")
            return await handler(request)

    model = ScriptedModel.saying("Hello.")
    with DeerFlowClient(
        {"title": {"enabled": False}}, model=model, features=RuntimeFeatures(todo=True), extra_middleware=[Audit()]
    ) as client:
        assert client.chat("Hi", thread_id="t") == "Hello."
        assert client.list_threads()[0]["values"] == {}
    assert calls == ["audit"]
    assert "write_todos" in model.requests[0].tool_names


def test_values_show_the_whole_thread_and_tokens_are_counted_once() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.")) as client:
        first = list(client.stream("1", thread_id="t"))
        second = list(client.stream("2", thread_id="t"))
    texts = [message["content"] for message in [e for e in second if e.type == "values"][-1].data["messages"]]
    assert texts == ["1", "One.", "2", "Two."]
    assert first[-1].data["usage"]["total_tokens"] == second[-1].data["usage"]["total_tokens"] > 0


def test_a_question_of_the_agent_is_what_chat_returns() -> None:
    question = calling("ask_clarification", question="Which one?", clarification_type="missing_info")
    with DeerFlowClient(model=ScriptedModel.saying("Hello.", question)) as client:
        client.chat("Hi", thread_id="t")
        assert "Which one?" in client.chat("Do it", thread_id="t")
