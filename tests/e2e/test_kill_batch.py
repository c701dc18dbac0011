"""A server that dies while subagents are at work."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import httpx
import orjson

from deerflow.testing import Answer, ScriptedServer, ServerFault, ServerRequest, Stall, calling, in_parallel
from deerflow.testing.scripted_server import ServerReply
from tests.e2e.stage import serving

ITEMS, AT_ONCE, KILLED_AFTER = 1000, 16, 400
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


class Counting:
    """Asks for a batch, counts for every item, and refuses one in twenty."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.is_time = asyncio.Event()

    def answer(self, request: ServerRequest) -> ServerReply:
        if "<subagent_system>" in request.messages[0]["content"]:
            return "All counted." if request.messages[-1]["role"] == "tool" else self.order()
        number = next(
            int(found[1]) for each in request.messages if (found := re.match(r"Count (\d+)", each["content"]))
        )
        self.asked[number] += 1
        if len(self.asked) == KILLED_AFTER:
            self.is_time.set()
        return ServerFault(400, "no such number") if number % 20 == 0 else Answer((f"It is {number}.",))

    def order(self) -> Answer:
        items = [{"number": number} for number in range(ITEMS)]
        return calling(
            "task_batch",
            description="counting",
            prompt="Count {number}",
            subagent_type="counter",
            items=items,
            concurrency=AT_ONCE,
            retries=0,
        )


async def test_after_kill_a_batch_goes_on_and_every_item_has_one_outcome(tmp_path: Path) -> None:
    counting, config = Counting(), tmp_path / "config.yaml"
    async with ScriptedServer([counting.answer], endless=True) as model, asyncio.timeout(100):
        config.write_text(CONFIG.format(base_url=model.base_url))
        with serving(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=20) as http:
                run = (await http.post("/threads/t/runs", json=BODY)).json()
            await counting.is_time.wait()
            server.kill()
        with serving(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=60) as http:
                await http.get(f"/threads/t/runs/{run['run_id']}/join")
                state = (await http.get("/threads/t/state")).json()["values"]
                noted = await item_events(http, run["run_id"])
                results = (await http.get(f"/threads/t/artifacts{state['artifacts'][0]}")).text

    lines = [orjson.loads(line) for line in results.splitlines()]
    assert [line["index"] for line in lines] == list(range(ITEMS))
    assert all(line["status"] == ("failed" if line["index"] % 20 == 0 else "completed") for line in lines)
    assert all(line["result"] == f"It is {line['index']}." for line in lines if line["status"] == "completed")
    assert sorted(noted) == list(range(ITEMS))  # every item exactly once, also in the log
    # Nothing was done again but what was under way, or done in the moment before the end.
    again = sum(counting.asked.values()) - ITEMS
    assert again <= 4 * AT_ONCE
    assert state["messages"][-1]["content"] == "All counted."


async def item_events(http: httpx.AsyncClient, run_id: str) -> list[int]:
    """The items whose outcomes are in the log of a run."""
    found, page = list[int](), {"has_more": True, "next_after_seq": 0}
    while page["has_more"]:
        query = {"limit": 1000, "after_seq": page["next_after_seq"], "event_types": "batch_item"}
        page = (await http.get(f"/threads/t/runs/{run_id}/events", params=query)).json()
        found += [each["data"]["outcome"]["index"] for each in page["data"]]
    return found


class Working:
    """Gives one task that only looks and one that writes; both are stuck until the server is another."""

    def __init__(self) -> None:
        self.stuck = 0
        self.are_stuck = asyncio.Event()
        self.is_again = False

    def answer(self, request: ServerRequest) -> ServerReply:
        used = sum(each["role"] == "tool" for each in request.messages)
        if "<subagent_system>" in request.messages[0]["content"]:
            return "In the end." if used else in_parallel(*map(self.order, ("Look", "Write")))
        if self.is_again:
            return "Looked again."
        if used:
            self.stuck += 1
            if self.stuck == 2:
                self.are_stuck.set()
            return Stall()
        if any(each["content"] == "Look" for each in request.messages):
            return calling("ls", description="look", path="/mnt/user-data")
        return calling("write_file", description="note", path="/mnt/user-data/outputs/note.txt", content="deer")

    def order(self, prompt: str) -> Answer:
        return calling("task", description=prompt, prompt=prompt, subagent_type="general-purpose")


async def test_after_kill_a_task_begins_again_unless_it_may_have_changed_something(tmp_path: Path) -> None:
    working, config = Working(), tmp_path / "config.yaml"
    async with ScriptedServer([working.answer], endless=True) as model, asyncio.timeout(60):
        config.write_text(CONFIG.format(base_url=model.base_url))
        with serving(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=20) as http:
                run = (await http.post("/threads/t/runs", json=BODY)).json()
            await working.are_stuck.wait()
            server.kill()
        working.is_again = True
        with serving(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=60) as http:
                await http.get(f"/threads/t/runs/{run['run_id']}/join")
                state = (await http.get("/threads/t/state")).json()["values"]
                query = {"event_types": "custom", "limit": 1000}
                events = (await http.get(f"/threads/t/runs/{run['run_id']}/events", params=query)).json()["data"]

    looked, wrote = [message for message in state["messages"] if message["type"] == "tool"]
    assert looked["content"] == "Task Succeeded. Result: Looked again."
    assert wrote["content"].startswith("Task interrupted.") and "write_file" in wrote["content"]
    assert state["messages"][-1]["content"] == "In the end."
    told = [each["data"] for each in events if each["data"]["type"].startswith("task_")]
    ends = {each["task_id"]: each["type"] for each in told}
    assert ends == {looked["tool_call_id"]: "task_completed", wrote["tool_call_id"]: "task_failed"}
