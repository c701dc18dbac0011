"""The API with the Python client of LangGraph, on a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import Harness
from tests.gateway.reference.walk import AGENT, walk
from tests.gateway.support import build_run_body, open_langgraph_api, open_parrot_harness, serve_langgraph_api

EXPENSIVE_MODES = {"updates", "checkpoints", "tasks", "debug"}


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder with a configuration of the database."""
    if request.param == "postgres":
        (tmp_path / "config.yaml").write_text(f"database:\n  url: {request.getfixturevalue('postgres_url')}\n")
    return tmp_path


@asynccontextmanager
async def open_client(home: Path) -> AsyncIterator[tuple[Harness, LangGraphClient]]:
    async with open_parrot_harness(home) as harness, serve_langgraph_api(harness) as http, asyncio.timeout(30):
        yield harness, LangGraphClient(http)


def list_contents(state: Any) -> list[str]:
    return [message["content"] for message in state["messages"]]


async def create_thread(client: LangGraphClient) -> str:
    thread_id: str = (await client.threads.create())["thread_id"]
    return thread_id


async def list_event_names(harness: Harness, thread_id: str) -> set[str]:
    run = (await harness.runs.list_by_thread(thread_id, LOCAL_USER))[0]
    return {event.event async for group in harness.runs.listen(run) for event in group}


async def read_until_end(stream: AsyncIterator[Any]) -> list[Any]:
    """Return the parts of a stream up to the end of a run."""
    parts = []
    async for part in stream:
        parts.append(part)
        if part.event == "end":
            break
    return parts


async def test_all_method_groups_of_the_python_client_work(home: Path) -> None:
    async with open_langgraph_api(home) as http, asyncio.timeout(60):
        notes = await walk(http)
    refused = {name for name, note in notes.items() if note.status >= 400}
    assert len(notes) > 80
    assert all(", " in name for name in refused), refused  # only what was meant to be refused


async def test_redundant_stream_modes_are_logged_only_if_requested(home: Path) -> None:
    async with open_client(home) as (harness, client):
        plain, streamed = await create_thread(client), await create_thread(client)
        await client.runs.wait(plain, AGENT, **build_run_body("Hi"))
        modes: list[Any] = [*EXPENSIVE_MODES, "values"]
        async for _ in client.runs.stream(streamed, AGENT, stream_mode=modes, **build_run_body("Hi")):
            pass
        assert not EXPENSIVE_MODES & await list_event_names(harness, plain)
        assert await list_event_names(harness, streamed) > EXPENSIVE_MODES
        assert "values" not in await list_event_names(harness, streamed)


async def test_joining_a_stream_uses_the_modes_of_the_run(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        run = await client.runs.create(thread, AGENT, stream_mode=["updates"], **build_run_body("Hi"))
        events = [part.event async for part in client.runs.join_stream(thread, run["run_id"])]
        assert set(events) == {"metadata", "updates", "end"}
        asked = client.runs.join_stream(thread, run["run_id"], stream_mode=["values"])
        assert {part.event async for part in asked} == {"metadata", "values", "end"}


async def test_the_events_mode_is_rejected_with_alternatives(home: Path) -> None:
    async with open_client(home) as (_, client):
        with pytest.raises(httpx.HTTPStatusError) as refusal:
            await client.runs.wait(None, AGENT, input={}, config={"recursion_limit": 0})
        assert refusal.value.response.status_code == 422
        with pytest.raises(httpx.HTTPStatusError) as refusal:
            async for _ in client.runs.stream(None, AGENT, stream_mode="events", **build_run_body("Hi")):
                pass
        assert refusal.value.response.status_code == 422


async def test_a_branch_drops_later_messages_for_readers(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        for word in ("One", "Two"):
            await client.runs.wait(thread, AGENT, **build_run_body(word))
        history = await client.threads.get_history(thread, limit=20)
        after_one = next(state for state in history if len(state["values"]["messages"]) == 2 and not state["next"])
        stream = client.runs.stream(thread, AGENT, checkpoint=after_one["checkpoint"], **build_run_body("Other"))
        streamed = [part.data async for part in stream if part.event == "values"]
        expected = ["One", "Hello there.", "Other", "Hello there."]
        assert list_contents(streamed[-1]) == expected
        assert list_contents((await client.threads.get_state(thread))["values"]) == expected
        later = [
            part async for part in client.runs.stream(thread, AGENT, **build_run_body("On")) if part.event == "values"
        ]
        assert list_contents(later[-1].data) == [*expected, "On", "Hello there."]


async def test_an_answer_is_regenerated_from_a_checkpoint(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        first = await client.runs.wait(thread, AGENT, **build_run_body("Hi"))
        history = await client.threads.get_history(thread, limit=20)
        asked = next(state for state in history if len(state["values"]["messages"]) == 1 and state["next"])
        again = await client.runs.wait(thread, AGENT, checkpoint_id=asked["checkpoint"]["checkpoint_id"])
        assert list_contents(again) == list_contents(first) == ["Hi", "Hello there."]
        assert again["messages"][1]["id"] != first["messages"][1]["id"]  # type: ignore[call-overload, index]


async def test_state_updates_are_visible_to_readers_of_later_runs(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        first: Any = await client.runs.wait(thread, AGENT, **build_run_body("Hi"))
        edited = {**first["messages"][1], "content": "Good day."}
        await client.threads.update_state(thread, {"messages": [edited]}, as_node="model")
        values = [
            part.data
            async for part in client.runs.stream(thread, AGENT, **build_run_body("On"))
            if part.event == "values"
        ]
        assert list_contents(values[0]) == ["Hi", "Good day.", "On"]


@pytest.mark.parametrize(
    ("values", "as_node"),
    [({"nothing": 1}, None), ({"messages": [{"type": "human", "content": "x"}]}, "nobody"), ({"messages": [7]}, None)],
)
async def test_an_invalid_state_update_is_rejected(home: Path, values: dict[str, Any], as_node: str | None) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        await client.runs.wait(thread, AGENT, **build_run_body("Hi"))
        with pytest.raises(httpx.HTTPStatusError) as refusal:
            await client.threads.update_state(thread, values, as_node=as_node)
        assert refusal.value.response.status_code == 422
        assert list_contents((await client.threads.get_state(thread))["values"]) == ["Hi", "Hello there."]


async def test_only_message_classes_are_deserialized(home: Path) -> None:
    message = ["langchain_core", "messages", "human", "HumanMessage"]
    sent = {"lc": 1, "type": "constructor", "id": message, "kwargs": {"content": "Hi"}}
    secret = {"lc": 1, "type": "secret", "id": ["HOME"]}
    async with open_client(home) as (_, client):
        answered: Any = await client.runs.wait(None, AGENT, input={"messages": [sent]})
        assert list_contents(answered) == ["Hi", "Hello there."]
        for other in ({**sent, "id": ["langchain_core", "prompts", "PromptTemplate"]}, secret):
            with pytest.raises(httpx.HTTPStatusError) as refusal:
                await client.runs.wait(None, AGENT, input={"messages": [other]})
            assert refusal.value.response.status_code == 422


async def test_a_copied_thread_has_files_and_history_and_is_independent(home: Path) -> None:
    async with open_client(home) as (harness, client):
        thread = await create_thread(client)
        await client.runs.wait(thread, AGENT, **build_run_body("Hi"))
        file = "/mnt/user-data/outputs/note.bin"
        await harness.files_of(await harness.threads.get(thread, LOCAL_USER)).write(file, b"\x00\xff")
        copy = (await client.threads.copy(thread))["thread_id"]
        states = await client.threads.get_history(copy, limit=20)
        assert len(states) == len(await client.threads.get_history(thread, limit=20))
        assert await harness.files_of(await harness.threads.get(copy, LOCAL_USER)).read(file) == b"\x00\xff"
        on = client.runs.stream(copy, AGENT, **build_run_body("On"))
        values = [part.data async for part in on if part.event == "values"]
        assert list_contents(values[-1]) == ["Hi", "Hello there.", "On", "Hello there."]
        await client.threads.delete(copy)
        assert list_contents((await client.threads.get_state(thread))["values"]) == ["Hi", "Hello there."]


async def test_a_paused_thread_is_copied_with_its_interrupt(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        await client.runs.wait(thread, AGENT, **build_run_body("launch"))
        copy = (await client.threads.copy(thread))["thread_id"]
        answer: Any = {"resume": {"decisions": [{"type": "reject", "message": "no"}]}}
        assert list_contents(await client.runs.wait(copy, AGENT, command=answer))[-1] == "Hello there."
        assert (await client.threads.get_state(thread))["interrupts"]


async def test_a_thread_stream_resumes_after_the_last_event(home: Path) -> None:
    async with open_client(home) as (harness, client):
        thread = await create_thread(client)
        run = await client.runs.create(thread, AGENT, stream_mode="messages-tuple", **build_run_body("wait"))
        following = await client.threads.join_stream(thread)
        async for part in following:
            if part.event == "messages":
                break
        await client.runs.cancel(thread, run["run_id"], wait=True)
        again = await client.threads.join_stream(thread, last_event_id=f"{run['run_id']}.1")
        names = [part.event for part in await read_until_end(again)]
        assert names[0] == "messages" and names[-1] == "end"
        with pytest.raises(httpx.HTTPStatusError):
            async for _ in await client.threads.join_stream(thread, last_event_id="nonsense"):
                pass


async def test_a_thread_stream_follows_runs_as_they_come(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        await client.runs.wait(thread, AGENT, **build_run_body("Before"))
        following = await client.threads.join_stream(thread)
        for text in ("One", "Two"):
            run = await client.runs.create(thread, AGENT, stream_mode="values", **build_run_body(text))
            parts = await read_until_end(following)
            assert parts[0].data["run_id"] == run["run_id"]
            assert list_contents(parts[-2].data)[-2:] == [text, "Hello there."]


async def test_a_thread_stream_resumes_with_the_runs_that_have_ended_since(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        ids = []
        for text in ("One", "Two", "Three"):
            run = await client.runs.create(thread, AGENT, stream_mode="values", **build_run_body(text))
            await client.runs.join(thread, run["run_id"])
            ids.append(run["run_id"])
        again = await client.threads.join_stream(thread, last_event_id=f"{ids[0]}.1000")
        seen = [(await read_until_end(again))[0].data["run_id"] for _ in range(2)]
        assert seen == ids[1:]


async def test_a_thread_stream_shows_only_begin_and_end_of_runs_if_asked(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        following = await client.threads.join_stream(thread, stream_mode="lifecycle")
        await client.runs.create(thread, AGENT, stream_mode="values", **build_run_body("Hi"))
        assert [part.event for part in await read_until_end(following)] == ["metadata", "end"]


async def test_a_thread_has_the_values_of_its_state(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        assert (await client.threads.get(thread))["values"] == {"messages": []}
        await client.runs.wait(thread, AGENT, **build_run_body("Hi"))
        shown = await client.threads.get(thread)
        state = (await client.threads.get_state(thread))["values"]
        assert list_contents(shown["values"]) == ["Hi", "Hello there."]
        assert {**state, "title": shown["values"]["title"]} == shown["values"]
        await client.threads.update(thread, metadata={"title": "Mine"})
        assert (await client.threads.get(thread))["values"]["title"] == "Mine"
        assert "messages" not in (await client.threads.search(ids=[thread]))[0]["values"]


async def test_runs_show_the_request_they_were_started_with(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        body = build_run_body("Hi", stream_mode=["values", "updates"], context={"is_plan_mode": True})
        run = await client.runs.create(thread, AGENT, config={"recursion_limit": 77}, **body)
        await client.runs.join(thread, run["run_id"])
        listed = await client.runs.list(thread)
        for shown in (run, await client.runs.get(thread, run["run_id"]), *listed):
            kwargs = shown["kwargs"]
            assert [message["content"] for message in kwargs["input"]["messages"]] == ["Hi"]
            assert kwargs["config"] == {"configurable": {"thread_id": thread}, "recursion_limit": 77}
            assert kwargs["context"]["is_plan_mode"] is True and kwargs["command"] is None
            assert kwargs["stream_mode"] == ["values", "updates"]
        some = await client.runs.list(thread, select=["run_id", "status"])
        assert some == [{"run_id": run["run_id"], "status": "success"}]
        with pytest.raises(httpx.HTTPStatusError):
            await client.runs.list(thread, select=["nonsense"])  # type: ignore[list-item]


async def test_a_resumed_run_shows_its_command(home: Path) -> None:
    async with open_client(home) as (_, client):
        thread = await create_thread(client)
        await client.runs.wait(thread, AGENT, **build_run_body("launch"))
        decisions = {"decisions": [{"type": "reject", "message": "no"}]}
        await client.runs.wait(thread, AGENT, command={"resume": decisions})
        kwargs = (await client.runs.list(thread, limit=1))[0]["kwargs"]
        assert kwargs["input"] is None
        (answer,) = kwargs["command"]["resume"].values()
        assert answer["decisions"] == decisions["decisions"]


async def test_assistants_keep_their_metadata(home: Path) -> None:
    async with open_client(home) as (_, client):
        made = await client.assistants.create(AGENT, name="scribe", metadata={"team": "docs", "tags": ["a", "b"]})
        assert made["metadata"] == {"team": "docs", "tags": ["a", "b"]}
        changed = await client.assistants.update("scribe", metadata={"team": None, "level": 2}, description="Writes.")
        assert changed["metadata"] == {"tags": ["a", "b"], "level": 2}
        assert (await client.assistants.get("scribe"))["metadata"] == changed["metadata"]
        found = await client.assistants.search(metadata={"level": 2})
        assert [each["assistant_id"] for each in found] == ["scribe"]
        assert await client.assistants.search(metadata={"level": 3}) == []
        assert await client.assistants.count(metadata={"created_by": "system"}) == 1


async def test_all_runs_of_a_user_are_cancelled_at_once(home: Path) -> None:
    async with open_client(home) as (_, client):
        slow = build_run_body("wait", stream_mode="messages-tuple")
        threads = [await create_thread(client) for _ in range(2)]
        started = [await client.runs.create(thread, AGENT, **slow) for thread in threads]
        await client.runs.cancel_many(status="all")
        ended = [await client.runs.get(run["thread_id"], run["run_id"]) for run in started]
        assert [run["status"] for run in ended] == ["interrupted", "interrupted"]
        with pytest.raises(httpx.HTTPStatusError):
            await client.runs.cancel_many(status="all")


async def test_threads_are_searched_by_metadata_ids_and_status(home: Path) -> None:
    async with open_client(home) as (_, client):
        marks: list[dict[str, Any]] = [{"n": 1, "on": True}, {"n": 2, "on": False}, {"n": 3, "on": True, "name": "x"}]
        ids = [(await client.threads.create(metadata=mark))["thread_id"] for mark in marks]
        await client.runs.wait(ids[0], AGENT, **build_run_body("launch"))

        async def found(**wanted: Any) -> list[int]:
            threads = await client.threads.search(sort_by="created_at", sort_order="asc", **wanted)
            return [ids.index(thread["thread_id"]) for thread in threads]

        assert await found(metadata={"on": True}) == [0, 2]
        assert await found(metadata={"on": True, "name": "x"}) == [2]
        assert await found(metadata={"n": 2}) == [1]
        assert await found(status="interrupted") == [0]
        assert await found(status="idle") == [1, 2]
        assert await found(ids=[ids[1]]) == [1]
        assert await found(limit=1, offset=1) == [1]
        assert await client.threads.count(status="idle") == 2
        with pytest.raises(httpx.HTTPStatusError):
            await client.threads.search(metadata={"on": {"deep": 1}})


async def test_an_assistant_is_a_custom_agent(home: Path) -> None:
    async with open_client(home) as (harness, client):
        context: Any = {"soul": "You rhyme.", "model_name": "parrot"}
        made = await client.assistants.create(AGENT, name="poet", context=context, description="Rhymes.")
        agent = harness.core.custom_agents.load(LOCAL_USER.user_id, "poet")
        assert (agent.soul, agent.config.model, agent.config.description) == ("You rhyme.", "parrot", "Rhymes.")
        assert made["context"] == context
        await client.assistants.update("poet", context={"soul": "You do not."})  # type: ignore[arg-type]
        assert harness.core.custom_agents.load(LOCAL_USER.user_id, "poet").soul == "You do not."
        assert harness.core.custom_agents.load(LOCAL_USER.user_id, "poet").config.model == "parrot"
        for call in (
            client.assistants.update(AGENT, description="Mine."),
            client.assistants.delete(AGENT),
            client.assistants.update("poet", name="other"),
            client.assistants.create(AGENT, name="odd", context={"colour": "red"}),  # type: ignore[arg-type]
            client.assistants.set_latest("poet", 2),
        ):
            with pytest.raises(httpx.HTTPStatusError):
                await call
