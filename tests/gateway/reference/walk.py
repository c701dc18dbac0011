"""One walk through the LangGraph API with its real client, which notes what a server answers."""

import re
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient

from tests.gateway.support import build_run_body

MISSING_ID = "6b3a2b1e-0000-4000-8000-000000000000"
AGENT = "lead_agent"
HEADERS = frozenset({"location", "content-location", "x-pagination-total"})
OPAQUE = frozenset(
    {"metadata", "kwargs", "configurable", "schema", "args", "value", "response_metadata", "additional_kwargs"}
)
"""Fields whose inside is nobody's promise."""
MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints"]


@dataclass(frozen=True)
class RecordedResponse:
    """What a server answered: status, headers, the names of all fields, and events in their order."""

    status: int
    headers: frozenset[str]
    fields: frozenset[str]
    events: tuple[str, ...] = ()


class Walk:
    """Takes one step after another and remembers what came back."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.client = LangGraphClient(http)
        self.notes: dict[str, RecordedResponse] = {}
        self._first: httpx.Response | None = None
        http.event_hooks["response"].append(self._see)

    async def _see(self, response: httpx.Response) -> None:
        self._first = self._first or response  # the client may come back for more of a stream

    async def step(self, name: str, call: Awaitable[Any]) -> Any:
        """Await one call of the client; what it gives."""
        answer: Any = None
        self._first = None
        try:
            answer = await call
            seen = answer
        except httpx.HTTPError:
            seen = self._error_body()
        self._note(name, list_field_paths(seen))
        return answer

    async def stream(self, name: str, parts: AsyncIterator[Any], until: str | None = None) -> list[Any]:
        """Read a stream to its end, or up to an event."""
        read = []
        self._first = None
        with suppress(httpx.HTTPStatusError):
            async for part in parts:
                read.append(part)
                if part.event == until:
                    break
        events = [part.event for part in read]
        fields = (f"{part.event}: {path}" for part in read for path in list_field_paths(part.data))
        self._note(
            name, fields, tuple(event for index, event in enumerate(events) if events[index - 1 : index] != [event])
        )
        return read

    def _note(self, name: str, fields: Any, events: tuple[str, ...] = ()) -> None:
        assert self._first is not None and name not in self.notes, name
        headers = HEADERS.intersection(self._first.headers)
        self.notes[name] = RecordedResponse(self._first.status_code, headers, frozenset(fields), events)

    def _error_body(self) -> Any:
        assert self._first is not None
        with suppress(ValueError, httpx.ResponseNotRead):
            return self._first.json()
        return None


def list_field_paths(value: Any, above: str = "") -> Iterator[str]:
    """The names of all fields in `value`, those of objects in lists once."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from list_field_paths(each, f"{above}[]")
    elif isinstance(value, dict):
        for key, inside in value.items():
            # Where names are made up, what counts is that there is one.
            path = f"{above}.{'*' if re.search(r'[0-9a-f]{8}-', key) else key}"
            yield path
            if key not in OPAQUE:
                yield from list_field_paths(inside, path)


async def walk(http: httpx.AsyncClient) -> dict[str, RecordedResponse]:
    """Every group of methods once, and the mistakes clients make."""
    each = Walk(http)
    for part in (walk_threads, walk_states, walk_runs, walk_streams, walk_pauses, walk_stops, walk_alone):
        await part(each)
    await walk_assistants(each)
    await walk_store(each)
    await each.step("ok", each.client.http.get("/ok"))
    await each.step("info", each.client.http.get("/info"))
    return each.notes


async def walk_threads(walk: Walk) -> None:
    threads = walk.client.threads
    made = await walk.step("threads.create", threads.create(metadata={"colour": "red"}))
    id_ = made["thread_id"]
    await walk.step("threads.create, again", threads.create(thread_id=id_))
    await walk.step("threads.create, may exist", threads.create(thread_id=id_, if_exists="do_nothing"))
    await walk.step("threads.get", threads.get(id_))
    await walk.step("threads.get, missing", threads.get(MISSING_ID))
    await walk.step("threads.update", threads.update(id_, metadata={"size": 3}))
    await walk.step("threads.update, missing", threads.update(MISSING_ID, metadata={}))
    search = threads.search(metadata={"colour": "red"}, status="idle", ids=[id_], sort_by="created_at", limit=5)
    await walk.step("threads.search", search)
    await walk.step("threads.search, bad status", threads.search(status="asleep"))  # type: ignore[arg-type]
    await walk.step("threads.count", threads.count(metadata={"colour": "red"}))
    await walk.step("threads.delete", threads.delete(id_))
    await walk.step("threads.delete, missing", threads.delete(id_))


async def walk_states(walk: Walk) -> None:
    threads, runs = walk.client.threads, walk.client.runs
    id_ = (await threads.create())["thread_id"]
    await walk.step("threads.get_state, empty", threads.get_state(id_))
    await walk.step("threads.get_state, missing", threads.get_state(MISSING_ID))
    await runs.wait(id_, AGENT, **build_run_body("Hi"))
    await walk.step("threads.get_state", threads.get_state(id_))
    history = await walk.step("threads.get_history", threads.get_history(id_, limit=5))
    await walk.step("threads.get_history, missing", threads.get_history(MISSING_ID))
    before: Any = {"configurable": history[1]["checkpoint"]}
    await walk.step("threads.get_history, before", threads.get_history(id_, limit=1, before=before))
    await walk.step("threads.get_history, by metadata", threads.get_history(id_, metadata={"source": "loop"}))
    at = history[1]["checkpoint"]
    await walk.step("threads.get_state, checkpoint", threads.get_state(id_, checkpoint=at))
    by_id = threads.get_state(id_, checkpoint_id=at["checkpoint_id"])
    await walk.step("threads.get_state, checkpoint id", by_id)
    await walk.step("threads.get_state, no such checkpoint", threads.get_state(id_, checkpoint_id=MISSING_ID))
    more = {"messages": [{"type": "human", "content": "And"}]}
    await walk.step("threads.update_state", threads.update_state(id_, more, as_node="model"))
    await walk.step("threads.update_state, no such step", threads.update_state(id_, more, as_node="nobody"))
    await walk.step("threads.copy", threads.copy(id_))
    await walk.step("threads.copy, missing", threads.copy(MISSING_ID))
    branch = await walk.step("runs.wait, checkpoint", runs.wait(id_, AGENT, checkpoint=at, **build_run_body("Instead")))
    assert branch["messages"][-2]["content"] == "Instead"


async def walk_runs(walk: Walk) -> None:
    threads, runs = walk.client.threads, walk.client.runs
    id_ = (await threads.create())["thread_id"]
    run = await walk.step("runs.create", runs.create(id_, AGENT, **build_run_body("Hi")))
    await walk.step("runs.join", runs.join(id_, run["run_id"]))
    await walk.step("runs.get", runs.get(id_, run["run_id"]))
    await walk.step("runs.get, missing", runs.get(id_, MISSING_ID))
    await walk.step("runs.list", runs.list(id_, limit=5, status="success"))
    await walk.step("runs.list, missing", runs.list(MISSING_ID))
    await walk.step("runs.cancel, ended", runs.cancel(id_, run["run_id"]))
    await walk.step("runs.delete", runs.delete(id_, run["run_id"]))
    await walk.step("runs.delete, missing", runs.delete(id_, run["run_id"]))
    await walk.step(
        "runs.create, no such thread", runs.create(MISSING_ID, AGENT, **build_run_body("Hi", if_not_exists="reject"))
    )
    await walk.step("runs.create, no such agent", runs.create(id_, MISSING_ID, **build_run_body("Hi")))
    await walk.step("runs.wait", runs.wait(id_, AGENT, **build_run_body("Hi")))
    await walk.step("runs.wait, failed", runs.wait(id_, AGENT, raise_error=False, **build_run_body("fail")))
    await walk.step("threads.get, failed", threads.get(id_))


async def walk_streams(walk: Walk) -> None:
    threads, runs = walk.client.threads, walk.client.runs
    for mode in (*MODES, "messages", "debug"):
        id_ = (await threads.create())["thread_id"]
        await walk.stream(f"runs.stream {mode}", runs.stream(id_, AGENT, stream_mode=mode, **build_run_body("Hi")))
    id_ = (await threads.create())["thread_id"]
    everything = build_run_body("Hi", stream_mode=MODES, stream_subgraphs=True, stream_resumable=True)
    await walk.stream("runs.stream, all at once", runs.stream(id_, AGENT, **everything))
    other = (await threads.create())["thread_id"]
    await walk.stream("runs.stream, failed", runs.stream(other, AGENT, stream_mode="updates", **build_run_body("fail")))
    alone = runs.stream(None, AGENT, stream_mode=["values"], **build_run_body("Hi"))
    await walk.stream("runs.stream, no thread", alone)
    bad = runs.stream(id_, AGENT, stream_mode="nonsense", **build_run_body("Hi"))  # type: ignore[call-overload]
    await walk.stream("runs.stream, no such mode", bad)
    run = await runs.create(id_, AGENT, stream_mode=["updates"], stream_resumable=True, **build_run_body("Hi"))
    await walk.stream("runs.join_stream", runs.join_stream(id_, run["run_id"], last_event_id="-"))
    waiting = await runs.create(
        id_, AGENT, stream_mode="messages-tuple", stream_resumable=True, **build_run_body("wait")
    )
    following = await threads.join_stream(id_, last_event_id="-")
    await walk.stream("threads.join_stream", following, until="messages")
    await runs.cancel(id_, waiting["run_id"], wait=True)


async def walk_pauses(walk: Walk) -> None:
    threads, runs = walk.client.threads, walk.client.runs
    id_ = (await threads.create())["thread_id"]
    both = ["values", "updates"]
    await walk.stream("runs.stream, asking", runs.stream(id_, AGENT, stream_mode=both, **build_run_body("launch")))
    await walk.step("threads.get, asking", threads.get(id_))
    await walk.step("threads.get_state, asking", threads.get_state(id_))
    answer = {"resume": {"decisions": [{"type": "approve"}]}}
    await walk.stream("runs.stream, answered", runs.stream(id_, AGENT, command=answer, stream_mode=both))
    await walk.step("runs.wait, asking", runs.wait(id_, AGENT, **build_run_body("launch")))
    await runs.wait(id_, AGENT, command=answer)
    stopped = await walk.step(
        "runs.wait, stopped before a step", runs.wait(id_, AGENT, interrupt_before=["model"], **build_run_body("Hi"))
    )
    assert stopped["messages"][-1]["content"] == "Hi"
    on = await walk.step("runs.wait, going on", runs.wait(id_, AGENT, input=None))
    assert on["messages"][-1]["content"] == "Hello there."
    change = {"update": {"messages": [{"type": "human", "content": "Hi again"}]}, "goto": "model"}
    moved = await walk.step("runs.wait, changed", runs.wait(id_, AGENT, command=change))
    assert [message["content"] for message in moved["messages"][-2:]] == ["Hi again", "Hello there."]


async def walk_stops(walk: Walk) -> None:
    threads, runs = walk.client.threads, walk.client.runs
    id_ = (await threads.create())["thread_id"]
    slow = build_run_body("wait", stream_mode="messages-tuple", stream_resumable=True)
    for name, options in {
        "wait": {"wait": True},
        "leave": {},
        "roll back": {"wait": True, "action": "rollback"},
    }.items():
        run = await runs.create(id_, AGENT, **slow)
        await walk.stream(f"runs.join_stream, {name}", runs.join_stream(id_, run["run_id"]), until="messages")
        if name == "wait":
            refused = runs.create(id_, AGENT, multitask_strategy="reject", **build_run_body("Hi"))
            await walk.step("runs.create, busy", refused)
            await walk.step("threads.get, busy", threads.get(id_))
        await walk.step(f"runs.cancel, {name}", runs.cancel(id_, run["run_id"], **options))
    run = await runs.create(id_, AGENT, multitask_strategy="enqueue", **slow)
    await walk.step("runs.cancel_many", runs.cancel_many(thread_id=id_, run_ids=[run["run_id"]]))
    await walk.step("runs.cancel_many, missing", runs.cancel_many(thread_id=id_, run_ids=[MISSING_ID]))
    await walk.step("runs.cancel_many, unnamed", runs.cancel_many())


async def walk_alone(walk: Walk) -> None:
    runs = walk.client.runs
    await walk.step("runs.create, no thread", runs.create(None, AGENT, **build_run_body("Hi")))
    await walk.step("runs.wait, no thread", runs.wait(None, AGENT, **build_run_body("Hi")))
    payload: Any = {"assistant_id": AGENT, **build_run_body("Hi")}
    await walk.step("runs.create_batch", runs.create_batch([payload, payload]))


async def walk_assistants(walk: Walk) -> None:
    assistants = walk.client.assistants
    found = await walk.step("assistants.search", assistants.search(graph_id=AGENT, limit=5))
    lead = found[0]["assistant_id"]
    await walk.step("assistants.count", assistants.count(graph_id=AGENT))
    await walk.step("assistants.get", assistants.get(lead))
    await walk.step("assistants.get, missing", assistants.get(MISSING_ID))
    await walk.step("assistants.get_graph", assistants.get_graph(lead))
    await walk.step("assistants.get_schemas", list_schemas(assistants.get_schemas(lead)))
    await walk.step("assistants.get_subgraphs", assistants.get_subgraphs(lead))
    context: Any = {"thinking_enabled": False}
    made = await walk.step(
        "assistants.create", assistants.create(AGENT, name="scribe", context=context, description="Writes.")
    )
    id_ = made["assistant_id"]
    await walk.step("assistants.create, again", assistants.create(AGENT, assistant_id=id_))
    await walk.step("assistants.create, may exist", assistants.create(AGENT, assistant_id=id_, if_exists="do_nothing"))
    await walk.step("assistants.create, no such graph", assistants.create("nobody", name="scribe"))
    await walk.step("assistants.update", assistants.update(id_, description="Reads."))
    await walk.step("assistants.get_versions", assistants.get_versions(id_))
    await walk.step("assistants.set_latest", assistants.set_latest(id_, 1))
    await walk.step("assistants.delete", assistants.delete(id_))
    await walk.step("assistants.delete, missing", assistants.delete(id_))


async def list_schemas(schemas: Awaitable[Any]) -> dict[str, None]:
    """Which schemas there are; what is in them is the graph's business."""
    return dict.fromkeys(await schemas)


async def walk_store(walk: Walk) -> None:
    store = walk.client.store
    await walk.step("store.put_item", store.put_item(["notes", "2026"], "one", {"size": 1}))
    await store.put_item(["notes", "2027"], "two", {"size": 2})
    bad = {"namespace": ["a.b"], "key": "one", "value": {}}  # which the client itself would refuse
    await walk.step("store.put_item, bad label", walk.client.http.put("/store/items", json=bad))
    await walk.step("store.get_item", store.get_item(["notes", "2026"], "one"))
    await walk.step("store.get_item, missing", store.get_item(["notes", "2026"], "none"))
    found = await walk.step("store.search_items", store.search_items(["notes"], filter={"size": 2}))
    assert [item["key"] for item in found["items"]] == ["two"]
    spaces = await walk.step("store.list_namespaces", store.list_namespaces(prefix=["notes"], max_depth=1))
    assert spaces["namespaces"] == [["notes"]]
    await walk.step("store.delete_item", store.delete_item(["notes", "2026"], "one"))
    await walk.step("store.delete_item, again", store.delete_item(["notes", "2026"], "one"))
