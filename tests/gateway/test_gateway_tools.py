"""Tools and policy over HTTP."""

from pathlib import Path

import httpx
import yaml

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.support import browse


async def get_all(home: Path, *paths: str, **config: object) -> list[httpx.Response]:
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    source = open_source(home / "config.yaml", directory=home, environment={})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        return [await http.get(path) for path in paths]


async def test_models_follow_the_configuration_and_an_invalid_one_is_shown_without_secrets(tmp_path: Path) -> None:
    file, entry = tmp_path / "config.yaml", {"use": "deerflow.models.demo:DemoChatModel", "model": "demo"}
    secret = "sk-0123456789abcdef"

    def write(**config: object) -> None:
        file.write_text(yaml.safe_dump(config))

    write(models=[{"name": "heron", **entry}])
    source = open_source(file, directory=tmp_path, environment={"EXAMPLE_API_KEY": secret})
    async with open_harness(source) as harness, browse(harness) as http:
        first = (await http.get("/api/models")).json()
        assert (first["default"], first["problem"]) == ("heron", None)
        write(models=[{"name": "egret", **entry}], title={"enabled": False})
        assert (await http.get("/api/models")).json()["default"] == "egret"
        write(models=[{"name": "ibis", **entry, "supports_vision": secret}], title={"enabled": False})
        shown = (await http.get("/api/models")).json()
        assert shown["default"] == "egret" and "supports_vision" in shown["problem"]
        assert secret not in shown["problem"]
        write(models=[{"name": "ibis", **entry}])
        assert (await http.get("/api/models")).json()["problem"] is None


async def test_tools_have_a_source_and_an_approval_setting(tmp_path: Path) -> None:
    web = {"name": "web_fetch", "group": "web", "use": "deerflow.community.web_fetch.tools:web_fetch_tool"}
    (response,) = await get_all(tmp_path, "/api/tools", tools=[{**web, "approval": "always"}])
    tools = {tool["name"]: tool for tool in response.json()["tools"]}
    fetch, ours = tools["web_fetch"], tools["present_files"]
    assert fetch["source"] == "web" and fetch["brings_untrusted"] and fetch["needs_approval"]
    assert ours["source"] == "builtin" and not ours["needs_approval"] and ours["description"]
    assert "task" in tools and not any(tool["server"] for tool in tools.values())


async def test_rules_are_listed_in_order(tmp_path: Path) -> None:
    rule = {"name": "no-mail", "tool": "mail_*", "outcome": "deny", "reason": "nobody mails from here"}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"rules": [rule]}))
    (response,) = await get_all(tmp_path, "/api/policy")
    first, second, *_ = response.json()["rules"]
    assert (first["name"], first["is_shipped"], first["conditions"]) == ("no-mail", False, {"tool": ["mail_*"]})
    assert second["is_shipped"] and second["outcome"] == "ask" and response.json()["otherwise"] == "allow"


async def test_without_guardrails_the_policy_is_disabled(tmp_path: Path) -> None:
    (response,) = await get_all(tmp_path, "/api/policy", guardrails={"enabled": False})
    assert response.json()["enabled"] is False
