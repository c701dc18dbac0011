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


def test_chat_returns_the_answer_and_continues_the_thread() -> None:
    model = ScriptedModel.saying("Four.", "Eight.")
    with DeerFlowClient(model=model) as client:
        assert client.chat("2 + 2?", thread_id="sums") == "Four."
        assert client.chat("Twice that?", thread_id="sums") == "Eight."
    assert said(model.requests[1].messages) == ["2 + 2?", "Four.", "Twice that?"]


def test_stream_yields_chunks_states_and_usage() -> None:
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


async def test_async_methods_work_in_the_callers_loop() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.")) as client, asyncio.timeout(10):
        assert await client.achat("1") == "One."
        assert [event.type async for event in client.astream("2")][-1] == "end"


def test_a_dictionary_suffices_as_configuration(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with ScriptedServer(["From the server."]) as server:
            lean = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"
            entry = {"name": "m", "use": lean, "model": "m", "base_url": server.base_url}
            async with DeerFlowClient(config={"models": [entry]}) as client:
                return await client.achat("Hi")

    assert asyncio.run(scenario()) == "From the server."


def test_a_failed_run_raises_and_the_thread_continues() -> None:
    with DeerFlowClient(model=ScriptedModel.saying(ModelRejected("down"), "Up again.")) as client:
        with pytest.raises(RunFailed, match="down"):
            client.chat("1", thread_id="t")
        assert client.chat("2", thread_id="t") == "Up again."


def test_leaving_a_stream_early_cancels_the_run() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One two three.", "Next.")) as client:
        for event in client.stream("1", thread_id="t"):
            if event.type == "messages-tuple":
                break
        assert client.chat("2", thread_id="t") == "Next."


def test_a_stream_that_outlives_its_client_is_closed_quietly() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One two three.")) as client:
        events = client.stream("Count.", thread_id="t")
        next(events)
    events.close()  # type: ignore[attr-defined]  # as the interpreter does when it drops a generator


def test_an_invalid_configuration_raises_in_the_constructor() -> None:
    with pytest.raises(ConfigError, match="did you mean 'models'"):
        DeerFlowClient(config={"modles": []})


def test_closing_twice_is_harmless() -> None:
    client = DeerFlowClient(model=ScriptedModel.saying())
    client.close()
    client.close()


@pytest.mark.slow
def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    exec(compile(example, str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "super agent harness" in printed and "OPENAI_API_KEY" in printed


def test_missing_objects_raise_not_found() -> None:
    with DeerFlowClient(model=ScriptedModel.saying()) as client:
        for missing in (client.threads.get, client.models.get, client.agents.get, client.approvals.list):
            with pytest.raises(NotFound):
                missing("none")
        with pytest.raises(NotFound):
            client.artifacts.get("none", "/mnt/user-data/outputs/a.txt")


def test_a_thread_is_returned_with_its_checkpoints() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        client.chat("1", thread_id="t")
        steps = client.threads.get("t")["checkpoints"]
        assert [len(step["values"]["messages"]) for step in steps][:2] == [2, 1]
        assert steps[0]["parent_checkpoint_id"] == steps[1]["checkpoint_id"]


async def test_async_methods_return_the_same() -> None:
    async with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        await client.achat("1", thread_id="t")
        await client.agents.acreate("ada")
        for awaited, plain in (
            (client.threads.alist(), client.threads.list),
            (client.models.alist(), client.models.list),
            (client.agents.alist(), client.agents.list),
            (client.threads.aget("t"), partial(client.threads.get, "t")),
            (client.models.aget("demo"), partial(client.models.get, "demo")),
            (client.agents.aget("ada"), partial(client.agents.get, "ada")),
            (client.approvals.alist("t"), partial(client.approvals.list, "t")),
        ):
            assert await awaited == await asyncio.to_thread(plain)


def test_chat_and_stream_have_two_forms_and_a_docstring() -> None:
    methods = {name: method for name, method in vars(DeerFlowClient).items() if not name.startswith("_")}
    assert methods.keys() == {"chat", "achat", "stream", "astream", "close", "aclose"}
    assert all(inspect.getdoc(method) for method in methods.values())


def test_features_reach_the_agent() -> None:
    model = ScriptedModel.saying("Hello.")
    with DeerFlowClient({"title": {"enabled": False}}, model=model, features=RuntimeFeatures(todo=True)) as client:
        assert client.chat("Hi", thread_id="t") == "Hello."
        assert client.threads.list()[0]["values"] == {}
    assert "write_todos" in model.requests[0].tool_names


class RecordingMiddleware(AgentMiddleware):
    """Records its name at each model call."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.notes = notes

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.notes.append(self.name)
        return await handler(request)


def test_extra_middlewares_are_placed_at_their_anchors() -> None:
    @Next(SandboxMiddleware)
    class Outer(RecordingMiddleware): ...

    @Prev(ClarificationMiddleware)
    class Inner(RecordingMiddleware): ...

    @Next(Inner)
    class Innermost(RecordingMiddleware): ...

    class Anywhere(RecordingMiddleware): ...

    notes: list[str] = []
    extras = [Innermost(notes), Inner(notes), Anywhere(notes), Outer(notes)]
    with DeerFlowClient(model=ScriptedModel.saying("Hello."), extra_middleware=extras) as client:
        assert client.chat("Hi") == "Hello."
    assert notes == ["Outer", "Anywhere", "Inner", "Innermost"]


def test_misplaced_middlewares_raise_in_the_constructor() -> None:
    @Next(SandboxMiddleware)
    class One(AgentMiddleware): ...

    @Next(SandboxMiddleware)
    class Two(AgentMiddleware): ...

    @Prev(TodoMiddleware)
    class Misplaced(AgentMiddleware): ...

    class Hen(AgentMiddleware): ...

    @Next(Hen)
    class Egg(AgentMiddleware): ...

    Next(Egg)(Hen)

    for extras, problem in (
        ([One(), Two()], "One and Two both want to stand right after SandboxMiddleware"),
        ([Misplaced()], "Misplaced is anchored to TodoMiddleware, which is not in the chain"),
        ([Hen(), Egg()], "circular: Hen to Egg, Egg to Hen"),
    ):
        with pytest.raises(ValueError, match=problem):
            DeerFlowClient(model=ScriptedModel.saying(), extra_middleware=extras)
    with pytest.raises(TypeError, match="must be an instance of AgentMiddleware"):
        DeerFlowClient(model=ScriptedModel.saying(), extra_middleware=[One])
    with DeerFlowClient(model=ScriptedModel.saying("Found."), extra_middleware=[Misplaced()], plan_mode=True) as client:
        assert client.chat("Hi") == "Found."


def test_values_contain_the_whole_thread_and_tokens_are_counted_once() -> None:
    with DeerFlowClient(model=ScriptedModel.saying("One.", "Two.")) as client:
        first = list(client.stream("1", thread_id="t"))
        second = list(client.stream("2", thread_id="t"))
    texts = [message["content"] for message in [e for e in second if e.type == "values"][-1].data["messages"]]
    assert texts == ["1", "One.", "2", "Two."]
    assert first[-1].data["usage"]["total_tokens"] == second[-1].data["usage"]["total_tokens"] > 0


def test_chat_returns_a_clarification_question() -> None:
    question = calling("ask_clarification", question="Which one?", clarification_type="missing_info")
    with DeerFlowClient(model=ScriptedModel.saying("Hello.", question)) as client:
        client.chat("Hi", thread_id="t")
        assert "Which one?" in client.chat("Do it", thread_id="t")
