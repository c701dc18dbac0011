"""Usage, search and feedback over HTTP."""

from pathlib import Path

import httpx

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.models.factory import ENTRY_KEY
from deerflow.testing import Answer, ScriptedModel, calling
from deerflow.testing.turns import Usage
from tests.support import OpenHarness, browse

ASK = {"input": {"messages": [{"type": "human", "content": "Which hills has Rome?"}]}}
PRICED = {
    "name": "dear",
    "use": "deerflow.models.demo:DemoChatModel",
    "model": "demo",
    "pricing": {"input": 0.1, "output": 0.2},
}


async def test_costs_are_decimal_numbers_as_text(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer("Seven.", usage=Usage(input_tokens=1, output_tokens=1)))
    model.metadata = {ENTRY_KEY: "dear"}
    source = open_source(directory=tmp_path, environment={}, overrides={"models": [PRICED]})
    async with open_harness(source, model) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=ASK)
        usage = (await http.get("/api/threads/t/token-usage")).json()
        run = (await http.get("/api/threads/t/runs")).json()[0]
        day = (await http.get("/api/console/usage", params={"days": 1, "timezone": "Asia/Tokyo"})).json()
        runs = (await http.get("/api/console/runs", params={"limit": 1})).json()
    assert usage["totals"]["cost"] == {"amount": "0.0000003", "currency": "USD"}
    assert usage["by_model"][0]["name"] == "dear" and usage["context_usage"]["window_tokens"] is None
    assert (run["total_input_tokens"], run["total_output_tokens"], run["total_tokens"]) == (1, 1, 2)
    assert day["totals"] == usage["totals"] and len(day["days"]) == 1
    assert runs["next_offset"] is None and runs["runs"][0]["usage"] == usage["totals"]


async def test_the_usage_of_a_run_includes_the_prefix_cache(harness_saying: OpenHarness) -> None:
    look = calling("ls", description="look", path="/mnt/user-data/workspace")
    spent = Usage(input_tokens=200, output_tokens=3, cached_tokens=150)
    model = ScriptedModel.saying(look, Answer("Seven.", usage=spent), "Eight.")
    async with harness_saying(model) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=ASK)
        (first,) = (await http.get("/api/threads/t/runs")).json()
        usage = (await http.get(f"/api/threads/t/runs/{first['run_id']}/token-usage")).json()
        again = {"input": {"messages": [{"id": first_message_id(await http.get("/api/threads/t/state"))}]}}
        again["input"]["messages"][0] |= {"type": "human", "content": "Which rivers?"}
        await http.post("/api/threads/t/runs/wait", json=again)
        newest = (await http.get("/api/threads/t/runs")).json()[0]
        edited = (await http.get(f"/api/threads/t/runs/{newest['run_id']}/token-usage")).json()["prefix_cache"]
    cache = usage["prefix_cache"]
    assert (usage["calls"], usage["input_tokens"], usage["cached_tokens"]) == (2, 210, 150)
    assert (cache["requests"], cache["input_tokens"], cache["cached_tokens"]) == (2, 210, 150)
    assert cache["cached_fraction"] == 0.7143 and 0.9 < cache["prefix_fraction"] < 1 and cache["breaks"] == []
    (broken,) = edited["breaks"]
    about = {"request": 1, "caller": "lead_agent", "segment": "message", "cause": "edited", "name": None}
    assert broken == {**about, "position": 1, "role": "human", "lost_tokens": broken["lost_tokens"]}
    assert broken["lost_tokens"] > 0  # what follows the edited message is sent again


def first_message_id(state: httpx.Response) -> str:
    return str(state.json()["values"]["messages"][0]["id"])


async def test_a_run_request_can_set_a_budget(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Seven.")) as harness, browse(harness) as http:
        for wrong in ({"max_tokens": 10}, {"max_cost": -1}, {"max_cost": "much"}, {"tokens": 5000}):
            refused = await http.post("/api/threads/t/runs/wait", json={**ASK, "context": {"budget": wrong}})
            assert refused.status_code == 422
        little = {"budget": {"max_tokens": 1000, "max_cost": 2.5}}
        ended = await http.post("/api/threads/t/runs/wait", json={**ASK, "context": {"budget": {"max_tokens": 1000}}})
        unpriced = await http.post("/api/threads/u/runs/wait", json={**ASK, "config": {"configurable": little}})
        whole = await http.post("/api/threads/v/runs/wait", json=ASK)
    assert "the budget of this run is used up" in ended.json()["messages"][-1]["content"]
    assert "has no pricing in USD" in unpriced.text
    assert whole.json()["messages"][-1]["content"] == "Seven."


async def test_invalid_requests_get_named_errors(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Seven.")) as harness, browse(harness) as http:
        await http.post("/api/threads/t/runs/wait", json=ASK)
        run_id = (await http.get("/api/threads/t/runs")).json()[0]["run_id"]
        feedback = f"/api/threads/t/runs/{run_id}/feedback"
        for path, status in {
            "/api/console/usage?timezone=Nowhere": 422,
            "/api/console/usage?days=0": 422,
            "/api/console/runs?status=lost": 422,
            "/api/search": 422,
            "/api/search?q=": 422,
            f"/api/search?q={'a' * 501}": 422,
            "/api/search?q=a&cursor=x": 422,
            "/api/search?q=%22%2A%00NEAR(": 200,
            "/api/threads/none/token-usage": 404,
            f"/api/threads/none/runs/{run_id}/token-usage": 404,
            "/api/threads/t/runs/none/feedback": 404,
            f"{feedback}/stats": 200,
        }.items():
            response = await http.get(path)
            assert response.status_code == status, (path, response.text)
        for body, status in (
            ({"rating": 0}, 422),
            ({"rating": 1, "comment": "x" * 4001}, 422),
            ({"rating": 1, "more": 1}, 422),
            ({"rating": 1}, 201),
            ({"rating": -1}, 409),
        ):
            assert (await http.post(feedback, json=body)).status_code == status, body
        assert (await http.put(feedback, json={"rating": -1, "comment": "Eight!"})).json()["rating"] == -1
        assert (await http.get(f"{feedback}/stats")).json() == {"total": 1, "positive": 0, "negative": 1}
        assert (await http.delete(f"{feedback}/none")).status_code == 404
        assert (await http.delete(feedback)).status_code == 204
        found = (await http.post("/api/search", json={"q": "rome seven"})).json()
        assert found == {"hits": [], "next_cursor": None}  # no message has both
