"""Stream modes."""

import re
from pathlib import Path
from typing import Any

import orjson
from langchain.agents import create_agent

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, calling
from tests.support import OpenHarness, browse

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
ALL_MODES = ["values", "updates", "messages-tuple", "tasks", "checkpoints", "debug"]


async def ask_inner(question: str) -> str:
    """Ask somebody else.

    Args:
        question: What to ask.
    """
    inner = create_agent(ScriptedModel.saying("Inside."))
    state = await inner.ainvoke({"messages": [{"role": "user", "content": question}]})
    return str(state["messages"][-1].content)


def parse_events(text: str) -> list[tuple[int, str, Any]]:
    found = re.findall(r"id: (\d+)\nevent: (\S+)\ndata: (.*)\n\n", text)
    return [(int(id_), event, orjson.loads(data)) for id_, event, data in found]


async def test_langgraph_internals_are_not_streamed(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness, browse(harness) as http:
        whole = await http.post("/api/threads/t/runs/stream", json={**HI, "stream_mode": ALL_MODES})
        state = await http.get("/api/threads/t/state")
        for text in (whole.text, state.text):
            assert "__pregel_" not in text.replace('"__pregel_pull"', "") and "branch:to:" not in remove_triggers(text)
        last = [data for _, event, data in parse_events(whole.text) if event == "checkpoints"][-1]
        assert last["config"]["configurable"].keys() == {"thread_id", "checkpoint_ns", "checkpoint_id"}
        assert last["config"]["configurable"]["checkpoint_id"] == state.json()["checkpoint"]["checkpoint_id"]


def remove_triggers(text: str) -> str:
    """Remove the triggers of a step."""
    return re.sub(r'"triggers":\[[^\]]*\]', "", text)


async def test_subgraph_events_have_their_namespace(tmp_path: Path) -> None:
    tool = {"name": "ask_inner", "group": "x", "use": "tests.gateway.test_stream_modes:ask_inner"}
    source = open_source(directory=tmp_path, environment={}, overrides={"tools": [tool]})
    model = ScriptedModel.saying(
        calling("ask_inner", question="Well?"), "Done.", calling("ask_inner", question="So?"), "Ok."
    )
    async with open_harness(source, model) as harness, browse(harness) as http:
        body = {**HI, "stream_mode": ALL_MODES, "stream_subgraphs": True}
        heard = parse_events((await http.post("/api/threads/t/runs/stream", json=body)).text)
        inside = {event for _, event, _ in heard if re.match(r"updates\|tools:", event)}
        assert len(inside) == 1
        said = [data for _, event, data in heard if event in inside]
        assert said[-1]["model"]["messages"][-1]["content"] == "Inside."
        assert {event.split("|")[0] for _, event, _ in heard if "|" in event} >= {"values", "messages", "tasks"}
        alone = parse_events(
            (await http.post("/api/threads/t/runs/stream", json={**body, "stream_subgraphs": False})).text
        )
        assert not [event for _, event, _ in alone if "|" in event]


async def test_accumulated_messages_resume_after_the_last_event(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("One two three four.")) as harness, browse(harness) as http:
        whole = await http.post("/api/threads/t/runs/stream", json={**HI, "stream_mode": "messages"})
        events = parse_events(whole.text)
        partial = [data[0]["content"] for _, event, data in events if event == "messages/partial"]
        assert partial[-1] == "One two three four." and all(partial[-1].startswith(part) for part in partial)
        place = f"/api{whole.headers['content-location']}/stream?stream_mode=messages"
        for index, (id_, _, _) in enumerate(events):
            rest = await http.get(place, headers={"Last-Event-ID": str(id_)})
            assert parse_events(rest.text) == events[index + 1 :]


async def test_unlogged_modes_are_silent_and_unknown_ones_rejected(
    harness_saying: OpenHarness,
) -> None:
    async with harness_saying(ScriptedModel.saying("Hello.")) as harness, browse(harness) as http:
        whole = await http.post("/api/threads/t/runs/stream", json=HI)
        place = f"/api{whole.headers['content-location']}/stream"
        silent = parse_events((await http.get(f"{place}?stream_mode=tasks")).text)
        assert [event for _, event, _ in silent] == ["metadata", "end"]
        for wish in ('["values","updates"]', "values,updates"):  # how clients write lists
            assert parse_events((await http.get(place, params={"stream_mode": wish})).text) == parse_events(whole.text)
        for wish, word in (("events", "messages-tuple"), ("nonsense", "input should be")):
            refused = await http.get(place, params={"stream_mode": wish})
            assert refused.status_code == 422 and word in refused.json()["detail"]
            body = await http.post("/api/threads/t/runs", json={**HI, "stream_mode": wish})
            assert body.status_code == 422 and word in body.json()["detail"]
