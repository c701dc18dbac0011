"""DeerFlow inside a Python program."""

import asyncio
import inspect
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.agents import Next, Prev, RuntimeFeatures
from deerflow.agents.middlewares.clarification_middleware import ClarificationMiddleware
from deerflow.agents.middlewares.todo_middleware import TodoMiddleware
from deerflow.client import DeerFlowClient
from deerflow.domain.errors import ConfigError, ModelRejected, NotFound, RunFailed
from deerflow.sandbox.middleware import SandboxMiddleware
from deerflow.testing import ScriptedModel, ScriptedServer, calling, thinking
from tests.support import said

README = Path(__file__).parents[2] / "README.md"


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


def test_what_is_not_there_is_not_found() -> None:
    with DeerFlowClient(model=ScriptedModel.saying()) as client:
        for missing in (client.get_thread, client.get_model, client.get_agent, client.pending):
            with pytest.raises(NotFound):
                missing("none")
        with pytest.raises(NotFound):
            client.get_artifact("none", "/mnt/user-data/outputs/a.txt")


def test_a_thread_is_shown_with_its_steps() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        client.chat("1", thread_id="t")
        steps = client.get_thread("t")["checkpoints"]
        assert [len(step["values"]["messages"]) for step in steps][:2] == [2, 1]
        assert steps[0]["parent_checkpoint_id"] == steps[1]["checkpoint_id"]


async def test_the_async_faces_say_the_same() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        await client.achat("1", thread_id="t")
        await client.acreate_agent("ada")
        for awaited, plain in (
            (client.alist_threads(), client.list_threads),
            (client.alist_models(), client.list_models),
            (client.alist_agents(), client.list_agents),
            (client.aget_thread("t"), partial(client.get_thread, "t")),
            (client.aget_model("demo"), partial(client.get_model, "demo")),
            (client.aget_agent("ada"), partial(client.get_agent, "ada")),
            (client.apending("t"), partial(client.pending, "t")),
        ):
            assert await awaited == await asyncio.to_thread(plain)


def test_every_method_has_two_faces_and_says_what_it_does() -> None:
    methods = {name: method for name, method in vars(DeerFlowClient).items() if not name.startswith("_")}
    plain = {name for name in methods if f"a{name}" in methods}
    assert plain | {f"a{name}" for name in plain} == methods.keys()
    assert all(inspect.getdoc(method) for method in methods.values())
    assert "create_agent" in plain and "stream_resume" in plain


def test_features_reach_the_agent() -> None:
    model = ScriptedModel.saying("Hello.")
    with DeerFlowClient({"title": {"enabled": False}}, model=model, features=RuntimeFeatures(todo=True)) as client:
        assert client.chat("Hi", thread_id="t") == "Hello."
        assert client.list_threads()[0]["values"] == {}
    assert "write_todos" in model.requests[0].tool_names


class Noting(AgentMiddleware):
    """Notes its name when the model is asked."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.notes = notes

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.notes.append(self.name)
        return await handler(request)


def test_middlewares_of_ones_own_stand_where_they_are_anchored() -> None:
    @Next(SandboxMiddleware)
    class Outer(Noting): ...

    @Prev(ClarificationMiddleware)
    class Inner(Noting): ...

    @Next(Inner)
    class Innermost(Noting): ...

    class Anywhere(Noting): ...

    notes: list[str] = []
    extras = [Innermost(notes), Inner(notes), Anywhere(notes), Outer(notes)]
    with DeerFlowClient(model=ScriptedModel.saying("Hello."), extra_middleware=extras) as client:
        assert client.chat("Hi") == "Hello."
    assert notes == ["Outer", "Anywhere", "Inner", "Innermost"]


def test_middlewares_without_a_place_are_told_of_when_the_client_is_made() -> None:
    @Next(SandboxMiddleware)
    class One(AgentMiddleware): ...

    @Next(SandboxMiddleware)
    class Two(AgentMiddleware): ...

    @Prev(TodoMiddleware)
    class Lost(AgentMiddleware): ...

    class Hen(AgentMiddleware): ...

    @Next(Hen)
    class Egg(AgentMiddleware): ...

    Next(Egg)(Hen)

    for extras, problem in (
        ([One(), Two()], "One and Two both want to stand right after SandboxMiddleware"),
        ([Lost()], "Lost is anchored to TodoMiddleware, which is not in the chain"),
        ([Hen(), Egg()], "circular: Hen to Egg, Egg to Hen"),
    ):
        with pytest.raises(ValueError, match=problem):
            DeerFlowClient(model=ScriptedModel.saying(), extra_middleware=extras)
    with pytest.raises(TypeError, match="must be an instance of AgentMiddleware"):
        DeerFlowClient(model=ScriptedModel.saying(), extra_middleware=[One])
    with DeerFlowClient(model=ScriptedModel.saying("Found."), extra_middleware=[Lost()], plan_mode=True) as client:
        assert client.chat("Hi") == "Found."


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
