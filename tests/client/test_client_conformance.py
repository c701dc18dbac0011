"""Results of the client have the shape of the HTTP API; called by the flat names."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.web_pages import FetchedPage
from deerflow.gateway.routers.agents import Agent, UserProfile
from deerflow.gateway.routers.features import Features, Model, Models, PolicyInfo, ToolInfo
from deerflow.gateway.routers.threads.feedback import Feedback, FeedbackStats
from deerflow.gateway.routers.threads.files import WebPages, WebPageText
from deerflow.gateway.routers.threads.messages import Hits
from deerflow.gateway.routers.threads.sharing import NewShare, Share, SharedMessage, SharedThread
from deerflow.gateway.routers.threads.suggestions import Polished, Suggestions
from deerflow.gateway.routers.threads.threads import Thread
from deerflow.gateway.routers.usage import ConsoleRuns, ConsoleStats, ConsoleUsage, RunTokens, ThreadTokens
from deerflow.gateway.schemas.mcp import McpConfig, McpLogin, McpReset, McpServer, McpServers, Pins, StartedLogin
from deerflow.gateway.schemas.memory import MemoryDocument, MemorySettings, MemoryStatus
from deerflow.harness import open_harness
from deerflow.mcp.status import McpToolInfo
from deerflow.testing import ScriptedModel
from tests.client.support import is_valid
from tests.support import browse

AGENT: dict[str, Any] = {
    "description": "Counts — 数",
    "model": "demo",
    "tool_groups": ["web"],
    "skills": [],
    "model_settings": {"temperature": 0.5, "max_tokens": 10},
    "thinking_enabled": False,
    "reasoning_effort": "low",
    "soul": "You count.",
}


@pytest.fixture
def client() -> Any:
    model = ScriptedModel.saying("One.", "Two.", '["Three?"]', "Better.")
    with DeerFlowClient({"sharing": {"enabled": True}}, model=model) as client:
        client.chat("1", thread_id="t1")
        client.chat("2", thread_id="t2")
        client.create_agent("ada", **AGENT)
        client.create_agent("bob")
        yield client


def is_document(shown: dict[str, Any]) -> bool:
    """Return whether a memory document parses; its facts have a `sourceError` only if there was one."""
    return MemoryDocument.model_validate(shown).model_dump(by_alias=True, exclude_unset=True) == shown


def test_results_parse_with_the_gateway_models(client: DeerFlowClient) -> None:
    assert is_valid(Models, client.list_models())
    assert is_valid(Model, client.get_model("demo"))
    assert all(is_valid(Thread, thread) for thread in client.list_threads())
    thread = client.get_thread("t1")
    assert thread.pop("checkpoints") and is_valid(Thread, thread)
    assert all(is_valid(Agent, agent) for agent in client.list_agents())
    assert is_valid(Agent, client.get_agent("ada"))


async def test_web_pages_equal_the_http_responses(client: DeerFlowClient, tmp_path: Path) -> None:
    read = FetchedPage("https://a.example/", "https://a.example/", "A", "text/html", "Deer.")
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        await harness.resources.web_pages.for_thread("t1", LOCAL_USER.user_id).save(read)
        pages = await client.alist_web_pages("t1")
        (name,) = [page["snapshot_id"] for page in pages["pages"]]
        page = await client.aget_web_page("t1", name)
        assert is_valid(WebPages, pages) and is_valid(WebPageText, page) and page["text"] == "Deer."
        assert (await http.get("/api/threads/t1/web-pages")).json() == pages
        assert (await http.get(f"/api/threads/t1/web-pages/{name}")).json() == page
        text = await http.get(f"/api/threads/t1/web-pages/{name}/text")
        at = await http.get("/api/threads/t1/web-pages/at", params={"url": "https://A.example/#top"})
        assert at.text == text.text == "Deer." and text.headers["content-security-policy"].startswith("sandbox")
        never = await http.get("/api/threads/t1/web-pages/at", params={"url": "https://b.example/"})
        assert never.status_code == 404 and "was not read" in never.json()["detail"]


async def test_results_equal_the_http_responses(client: DeerFlowClient, tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"sharing": {"enabled": True}})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        assert (await http.get("/api/models")).json() == await client.alist_models()
        assert (await http.get("/api/models/demo")).json() == await client.aget_model("demo")
        assert (await http.post("/api/threads/search", json={})).json() == await client.alist_threads()
        assert (await http.get("/api/agents")).json()["agents"] == await client.alist_agents()
        assert (await http.get("/api/agents/ada")).json() == await client.aget_agent("ada")
        thread = await client.aget_thread("t1")
        steps = thread.pop("checkpoints")
        assert (await http.get("/api/threads/t1")).json() == thread
        history = (await http.post("/api/threads/t1/history", json={"limit": 100})).json()
        assert [(state["checkpoint"]["checkpoint_id"], state["values"], state["metadata"]) for state in history] == [
            (step["checkpoint_id"], step["values"], step["metadata"]) for step in steps
        ]
        state = (await http.get("/api/threads/t1/state")).json()
        assert state["interrupts"] == await client.apending("t1")


def test_usage_search_and_feedback_parse_with_the_gateway_models(client: DeerFlowClient) -> None:
    run = client.list_all_runs(limit=1)["runs"][0]
    place = (run["thread_id"], run["run_id"])
    assert is_valid(ConsoleRuns, client.list_all_runs(limit=1)) and is_valid(ConsoleStats, client.get_stats())
    assert is_valid(ConsoleUsage, client.get_usage(days=2)) and is_valid(ThreadTokens, client.get_token_usage("t1"))
    assert is_valid(RunTokens, client.get_run_usage(*place))
    assert client.search("one")["hits"] and is_valid(Hits, client.search("one"))
    assert is_valid(Feedback, client.give_feedback(*place, 1, "Good"))
    assert is_valid(FeedbackStats, client.get_feedback_stats(*place))
    assert is_valid(Suggestions, client.suggest("t1")) and is_valid(Polished, client.polish("better"))
    assert is_valid(UserProfile, client.update_user_profile("Me")) and is_valid(Features, client.get_features())


async def test_memory_parses_and_equals_the_http_responses(client: DeerFlowClient, tmp_path: Path) -> None:
    made = client.create_memory_fact("Likes tea", "preference", 0.9)
    fact_id = made["facts"][0]["id"]
    for shown in (
        made,
        client.update_memory_fact(fact_id, content="Likes green tea"),
        client.undo_memory_change(client.get_memory_history(limit=1)["changes"][0]["group"]),
        client.write_memory_summary("user.workContext", "Teaches physics"),
        client.reload_memory(),
        client.import_memory({**client.export_memory(), "facts": []}),
        client.undo_memory_change(client.get_memory_history(limit=1)["changes"][0]["change_id"]),
        client.delete_memory_fact(fact_id, keep_history=True),
        client.clear_memory(keep_history=True),
        client.create_memory_fact("喝茶"),
        client.erase_thread_memory("t1"),
        client.get_memory(as_of=datetime.now(UTC)),
    ):
        assert is_document(shown)
    assert is_valid(MemorySettings, client.switch_memory(False)) and not client.get_memory_config()["switched_on"]
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        for path, document in {
            "": await client.aget_memory(),
            "/config": await client.aget_memory_config(),
            "/status": await client.aget_memory_status(),
            "/export": await client.aexport_memory(),
            "/history": await client.aget_memory_history(),
            "/search?q=茶": await client.asearch_memory("茶"),
            f"/facts/{fact_id}/why": await client.aexplain_memory_fact(fact_id),
        }.items():
            assert (await http.get(f"/api/memory{path}")).json() == document, path
    assert is_document(client.delete_memory_fact(fact_id))
    assert client.clear_memory()["facts"] == []
    assert MemoryStatus.model_validate(client.get_memory_status()).data.facts == []


def test_tools_and_policy_parse_with_the_gateway_models(client: DeerFlowClient) -> None:
    assert all(is_valid(ToolInfo, tool) for tool in client.list_tools())
    assert is_valid(PolicyInfo, client.get_policy())


def test_shares_parse_with_the_gateway_models(client: DeerFlowClient) -> None:
    made = client.share_thread("t1", expires_in_days=2)
    assert is_valid(NewShare, made) and all(is_valid(Share, share) for share in client.list_shares("t1"))
    assert is_valid(Thread, client.rename_thread("t1", "Counting"))
    shared = client.read_shared(made["token"])
    messages = shared.pop("messages")
    assert [each["message"]["content"] for each in messages] == ["1", "One."] and shared["title"] == "Counting"
    assert is_valid(SharedThread, shared) and all(is_valid(SharedMessage, each) for each in messages)


async def test_usage_feedback_and_shares_equal_the_http_responses(client: DeerFlowClient, tmp_path: Path) -> None:
    run = (await client.alist_all_runs(limit=1))["runs"][0]
    place = (run["thread_id"], run["run_id"])
    await client.agive_feedback(*place, -1)
    await client.aupdate_user_profile("Me")
    token = (await client.ashare_thread("t1"))["token"]
    shared = await client.aread_shared(token)
    source = open_source(directory=tmp_path, environment={}, overrides={"sharing": {"enabled": True}})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        for path, shown in {
            "console/runs": await client.alist_all_runs(),
            "console/stats": await client.aget_stats(),
            "console/usage?days=3": await client.aget_usage(days=3),
            "threads/t1/token-usage": await client.aget_token_usage("t1"),
            f"threads/{place[0]}/runs/{place[1]}/token-usage": await client.aget_run_usage(*place),
            f"threads/{place[0]}/runs/{place[1]}/feedback": await client.alist_feedback(*place),
            f"threads/{place[0]}/runs/{place[1]}/feedback/stats": await client.aget_feedback_stats(*place),
            "search?q=one": await client.asearch("one"),
            "user-profile": await client.aget_user_profile(),
            "threads/t1/shares": await client.alist_shares("t1"),
            f"shared/{token}/messages": {"data": shared.pop("messages"), "before": None},
            f"shared/{token}": shared,
            "features": await client.aget_features(),
        }.items():
            assert (await http.get(f"/api/{path}")).json() == shown, path
        exported = (await http.get("/api/threads/t1/export")).content
        assert exported == await client.aexport_thread("t1")


def test_mcp_servers_parse_with_the_gateway_models(client: DeerFlowClient) -> None:
    login = {"authorization_url": "https://login.example/", "token_url": "https://login.example/t", "client_id": "me"}
    oauth = {"grant_type": "authorization_code", **login}
    entry = {"type": "http", "url": "https://mcp.example/", "oauth": oauth, "enabled": False}
    assert is_valid(McpServer, client.put_mcp_server("notes", entry))
    assert is_valid(McpServers, client.list_mcp_servers()) and is_valid(McpConfig, client.get_mcp_config())
    assert is_valid(McpConfig, client.update_mcp_config(client.get_mcp_config()["mcp_servers"]))
    assert is_valid(McpConfig, client.switch_mcp_server("notes", enabled=False))
    for words in ("Adds.", "Adds, and tells."):
        pins = client._session.harness.resources.mcp_servers.pins
        client._session.loop.call(pins.check("notes", [McpToolInfo("add", words)]))
    shown = client.get_mcp_pins("notes")
    assert is_valid(Pins, shown) and shown["tools"][0]["state"] == "changed"
    seen = {"add": shown["tools"][0]["offered"]["hash"]}
    assert is_valid(Pins, client.accept_mcp_tools("notes", seen))
    assert is_valid(StartedLogin, client.start_mcp_login("notes", "http://127.0.0.1:9/back"))
    assert is_valid(McpLogin, client.get_mcp_login("notes")) and is_valid(McpReset, client.reset_mcp_cache())
    client.forget_mcp_login("notes")
    client.remove_mcp_server("notes")
    assert client.list_mcp_servers() == {"servers": []}
