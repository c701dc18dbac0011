"""Test calls of MCP tools under the policy, switches of single tools, and tests of skills run by people."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from deerflow.config.loader.validation import MASK
from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import Harness, open_harness
from deerflow.skills.folders import custom_root
from deerflow.testing import ScriptedModel
from tests.mcp.shop_server import Shop, serving_shop
from tests.support import browse

USER = LOCAL_USER.user_id
DENY = {"rules": [{"name": "no-forecasts", "outcome": "deny", "tool": ["shop_forecast"], "reason": "no weather here"}]}
ASK = {"rules": [{"name": "ask-first", "outcome": "ask", "tool": ["shop_*"], "reason": "a person decides"}]}
CALL = "/api/mcp/servers/shop/tools/call"
SWITCH = "/api/mcp/servers/shop/tools"


@pytest.fixture(scope="module")
def shop() -> object:
    with serving_shop() as served:
        yield served


@pytest.fixture
async def harness(tmp_path: Path, shop: Shop) -> AsyncIterator[Harness]:
    entry = {"type": "http", "url": shop.url, "headers": {"X-Key": "secret-canary"}}
    (tmp_path / "extensions_config.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))
    source = open_source(directory=tmp_path, environment={})
    async with open_harness(source, ScriptedModel.saying()) as opened:
        await opened.core.mcp.prepare(USER, wait_s=10)
        yield opened


def write_policy(harness: Harness, policy: Mapping[str, object]) -> None:
    (harness.core.source.current.folder / "policy.yaml").write_text(json.dumps(policy))


async def try_forecast(http: httpx.AsyncClient, **more: object) -> dict[str, object]:
    body = {"tool": "forecast", "arguments": {"place": "Oslo"}, **more}
    response = await http.post(CALL, json=body)
    assert response.status_code == 200, response.text
    found: dict[str, object] = response.json()
    return found


async def test_a_tool_is_called_and_its_result_or_error_returned(harness: Harness) -> None:
    async with browse(harness) as http:
        done = await try_forecast(http)
        assert (done["outcome"], done["text"]) == ("done", "Rain in Oslo")
        failed = await try_forecast(http, arguments={})
        assert failed["outcome"] == "failed" and "place" in str(failed["text"])
        missing = await http.post(CALL, json={"tool": "other"})
        assert (missing.status_code, missing.json()["error"]) == (404, "NotFound")


async def test_the_policy_denies_a_call_or_wants_approval_first(harness: Harness) -> None:
    async with browse(harness) as http:
        write_policy(harness, DENY)
        denied = await try_forecast(http, approved=True)
        assert (denied["outcome"], denied["text"]) == ("deny", "")
        assert denied["reasons"] == [{"code": "no-forecasts", "message": "no weather here"}]
        write_policy(harness, ASK)
        assert (await try_forecast(http))["outcome"] == "ask"
        assert (await try_forecast(http, approved=True))["text"] == "Rain in Oslo"


async def test_agents_do_not_get_a_tool_that_is_switched_off(harness: Harness) -> None:
    file = harness.core.source.current.folder / "extensions_config.json"
    before = json.loads(file.read_text())
    first = harness.core.mcp.offer(USER)
    async with browse(harness) as http:
        off = (await http.patch(SWITCH, json={"tool": "forecast", "enabled": False})).json()
        assert [(tool["name"], tool["enabled"]) for tool in off["tools"]] == [("forecast", False)]
        assert off["state"] == "ready"  # it stays connected
        assert json.loads(file.read_text())["mcpServers"]["shop"]["tools"] == {"forecast": {"enabled": False}}
        offer = harness.core.mcp.offer(USER)
        assert offer.tools == () and offer.version != first.version
        names = [tool["name"] for tool in (await http.get("/api/tools")).json()["tools"]]
        assert "shop_forecast" not in names
        assert (await try_forecast(http))["outcome"] == "done"  # people can still try it
        on = (await http.patch(SWITCH, json={"tool": "forecast", "enabled": True})).json()
        assert on["tools"][0]["enabled"] is True
        assert json.loads(file.read_text()) == before
        assert harness.core.mcp.offer(USER) == first
        listed = (await http.get("/api/tools")).json()["tools"]
        groups = {tool["name"]: tool["group"] for tool in listed}
        assert (groups["shop_forecast"], groups["web_search"], groups["ask_clarification"]) == ("mcp:shop", "web", None)
        missing = await http.patch(SWITCH, json={"tool": "other", "enabled": False})
        assert missing.status_code == 404


async def test_tools_of_a_server_that_is_off_are_not_called(harness: Harness) -> None:
    await harness.resources.mcp_servers.switch("shop", enabled=False)
    with pytest.raises(Conflict, match="switched off"):
        await (await harness.resources.load_tool_tests()).run(USER, "shop", "forecast", {})


async def test_a_preview_names_the_problem_of_each_entry_and_writes_nothing(harness: Harness) -> None:
    file = harness.core.source.current.folder / "extensions_config.json"
    before = file.read_bytes()
    servers = {
        "shop": {"url": "https://shop.example/mcp"},
        "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"KEY": "secret-canary"}},
        "danger": {"command": "bash", "args": ["-c", "true"]},
        "note": {"text": "not a server"},
        "half": {"type": "http", "command": "npx"},
    }
    async with browse(harness) as http:
        shown = await http.post("/api/mcp/import/preview", json={"text": json.dumps({"servers": servers})})
        assert "canary" not in shown.text
        found = {server["name"]: server for server in shown.json()["servers"]}
        assert [server["problem"] is None for server in found.values()] == [True, True, False, False, False]
        assert found["shop"]["replaces"] and found["time"]["entry"]["env"] == {"KEY": MASK}
        assert "'bash' is not one of" in found["danger"]["problem"]
        assert found["note"]["problem"] == "needs 'command' or 'url'"
        assert "needs 'url'" in found["half"]["problem"]
        assert file.read_bytes() == before

        body = {"text": json.dumps({"mcpServers": servers}), "names": ["time"]}
        added = (await http.post("/api/mcp/import", json=body)).json()
        assert set(added["mcp_servers"]) == {"shop", "time"}
        unknown = await http.post("/api/mcp/import", json={**body, "names": ["nobody"]})
        assert (unknown.status_code, unknown.json()["detail"]) == (422, "the text has no server 'nobody'")
        refused = await http.post("/api/mcp/import", json={"text": body["text"], "names": ["note"]})
        assert "note: needs 'command' or 'url'" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}, "memory"),
        ({"command": "npx -y @playwright/mcp@latest --headless"}, "mcp"),
        ({"command": "uvx", "args": ["mcp-server-fetch"]}, "fetch"),
        ({"serverUrl": "https://mcp.linear.app/sse"}, "linear"),
        ({"url": "http://localhost:8000/mcp"}, "localhost"),
    ],
)
async def test_a_single_entry_gets_the_name_of_its_package_or_host(
    harness: Harness, entry: dict[str, object], name: str
) -> None:
    (found,) = await harness.resources.mcp_servers.preview_text(json.dumps(entry))
    assert (found.name, found.problem) == (name, None)


SKILL = "---\nname: greeter\ndescription: Greets.\n---\nSay hello.\n"
TEST = "description: it greets\nprompt: greet\nsteps:\n  - say: {say}\nexpect:\n  answer: [hello]\n"


async def test_a_skill_without_tests_has_no_results_and_an_unknown_one_is_not_found(harness: Harness) -> None:
    folder = custom_root(harness.core.source.current.home, USER) / "greeter"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    async with browse(harness) as http:
        assert (await http.post("/api/skills/greeter/test")).json() == {"cases": [], "problems": []}
    with pytest.raises(NotFound):
        await (await harness.resources.load_skill_tests()).run(USER, "nobody")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_test_of_a_skill_has_its_result(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> None:
    source = open_source(directory=tmp_path, environment=toolbox_environment)
    folder = custom_root(source.current.home, USER) / "greeter"
    (folder / "tests").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    for name, say in (("good", "hello you"), ("wrong", "goodbye")):
        (folder / "tests" / f"{name}.yaml").write_text(TEST.format(say=say))
    (folder / "tests" / "broken.yaml").write_text("prompt: 1\n")
    async with open_harness(source, ScriptedModel.saying()) as harness:
        results = await (await harness.resources.load_skill_tests()).run(USER, "greeter")
    assert [(case.name, case.passed) for case in results.cases] == [("good", True), ("wrong", False)]
    assert "expected 'hello', got 'goodbye'" in results.cases[1].failures[0]
    assert "broken.yaml" in results.problems[0]
