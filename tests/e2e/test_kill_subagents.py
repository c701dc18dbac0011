"""A server killed while subagents run."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import httpx
import orjson

from deerflow.testing import Answer, ScriptedServer, ServerFault, ServerRequest, Stall, calling, in_parallel
from deerflow.testing.scripted_server import ServerReply
from tests.e2e.server_process import serve

ITEMS, CONCURRENCY, KILLED_AFTER = 1000, 16, 400
CONFIG = """
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
subagents:
  max_concurrent: 16
  max_concurrent_per_user: 16
  custom_agents: {{counter: {{description: Counts., system_prompt: You count., tools: []}}}}
sandbox: {{toolbox: {{enabled: false}}}}
"""
BODY = {
    "input": {"messages": [{"type": "human", "content": "Count them all"}]},
    "context": {"subagent_enabled": True},
    "on_disconnect": "continue",
}


class BatchModel:
    """Starts a batch, answers every item, and fails one in twenty."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.reached_kill_point = asyncio.Event()

    def answer(self, request: ServerRequest) -> ServerReply:
        if "<subagent_system>" in request.messages[0]["content"]:
            return "All counted." if request.messages[-1]["role"] == "tool" else self.make_call()
        number = next(
            int(found[1]) for message in request.messages if (found := re.match(r"Count (\d+)", message["content"]))
        )
        self.requests[number] += 1
        if len(self.requests) == KILLED_AFTER:
            self.reached_kill_point.set()
        return ServerFault(400, "no such number") if number % 20 == 0 else Answer((f"It is {number}.",))

    def make_call(self) -> Answer:
        items = [{"number": number} for number in range(ITEMS)]
        return calling(
            "task_batch",
            description="counting",
            prompt="Count {number}",
            subagent_type="counter",
            items=items,
            concurrency=CONCURRENCY,
            retries=0,
        )


async def test_a_batch_resumes_after_kill_and_every_item_has_one_outcome(tmp_path: Path) -> None:
    batch_model, config = BatchModel(), tmp_path / "config.yaml"
    async with ScriptedServer([batch_model.answer], endless=True) as model, asyncio.timeout(100):
        config.write_text(CONFIG.format(base_url=model.base_url))
        with serve(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=20) as http:
                run = (await http.post("/threads/t/runs", json=BODY)).json()
            await batch_model.reached_kill_point.wait()
            server.kill()
        with serve(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=60) as http:
                await http.get(f"/threads/t/runs/{run['run_id']}/join")
                state = (await http.get("/threads/t/state")).json()["values"]
                logged_items = await item_events(http, run["run_id"])
                results = (await http.get(f"/threads/t/artifacts{state['artifacts'][0]}")).text

    lines = [orjson.loads(line) for line in results.splitlines()]
    assert [line["index"] for line in lines] == list(range(ITEMS))
    assert all(line["status"] == ("failed" if line["index"] % 20 == 0 else "completed") for line in lines)
    assert all(line["result"] == f"It is {line['index']}." for line in lines if line["status"] == "completed")
    assert sorted(logged_items) == list(range(ITEMS))  # every item exactly once in the log
    # Only items in progress or completed just before the kill are repeated.
    repeated = sum(batch_model.requests.values()) - ITEMS
    assert repeated <= 4 * CONCURRENCY
    assert state["messages"][-1]["content"] == "All counted."


async def item_events(http: httpx.AsyncClient, run_id: str) -> list[int]:
    """Return the items with outcomes in the log of a run."""
    found, page = list[int](), {"has_more": True, "next_after_seq": 0}
    while page["has_more"]:
        query = {"limit": 1000, "after_seq": page["next_after_seq"], "event_types": "batch_item"}
        page = (await http.get(f"/threads/t/runs/{run_id}/events", params=query)).json()
        found += [event["data"]["outcome"]["index"] for event in page["data"]]
    return found


class TaskModel:
    """Starts a task that only reads and one that writes; both stall until the server is restarted."""

    def __init__(self) -> None:
        self.stalled = 0
        self.both_stalled = asyncio.Event()
        self.is_restarted = False

    def answer(self, request: ServerRequest) -> ServerReply:
        results = sum(message["role"] == "tool" for message in request.messages)
        if "<subagent_system>" in request.messages[0]["content"]:
            return "In the end." if results else in_parallel(*map(self.make_call, ("Look", "Write")))
        if self.is_restarted:
            return "Looked again."
        if results:
            self.stalled += 1
            if self.stalled == 2:
                self.both_stalled.set()
            return Stall()
        if any(message["content"] == "Look" for message in request.messages):
            return calling("ls", description="look", path="/mnt/user-data")
        return calling("write_file", description="note", path="/mnt/user-data/outputs/note.txt", content="deer")

    def make_call(self, prompt: str) -> Answer:
        return calling("task", description=prompt, prompt=prompt, subagent_type="general-purpose")


async def test_a_task_restarts_after_kill_unless_it_may_have_changed_something(tmp_path: Path) -> None:
    task_model, config = TaskModel(), tmp_path / "config.yaml"
    async with ScriptedServer([task_model.answer], endless=True) as model, asyncio.timeout(60):
        config.write_text(CONFIG.format(base_url=model.base_url))
        with serve(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=20) as http:
                run = (await http.post("/threads/t/runs", json=BODY)).json()
            await task_model.both_stalled.wait()
            server.kill()
        task_model.is_restarted = True
        with serve(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=60) as http:
                await http.get(f"/threads/t/runs/{run['run_id']}/join")
                state = (await http.get("/threads/t/state")).json()["values"]
                query = {"event_types": "custom", "limit": 1000}
                events = (await http.get(f"/threads/t/runs/{run['run_id']}/events", params=query)).json()["data"]

    read_task, write_task = [message for message in state["messages"] if message["type"] == "tool"]
    assert read_task["content"] == "Task Succeeded. Result: Looked again."
    assert write_task["content"].startswith("Task interrupted.") and "write_file" in write_task["content"]
    assert state["messages"][-1]["content"] == "In the end."
    task_events = [event["data"] for event in events if event["data"]["type"].startswith("task_")]
    outcomes = {event["task_id"]: event["type"] for event in task_events}
    assert outcomes == {read_task["tool_call_id"]: "task_completed", write_task["tool_call_id"]: "task_failed"}
