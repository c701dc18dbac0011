"""Web tools in a run: defaults, configuration and lazy loading."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deerflow.community.web.tool import WebTool
from deerflow.config.imports import load_object
from deerflow.config.root import Config
from deerflow.config.sections.tools import ToolConfig
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.assembly import get_available_tools
from tests.agents.support import WEB_TOOLS
from tests.community.web_site import html_response, open_site
from tests.sandbox.support import ask, open_sandbox_harness, tool_results, use

LOADED = """
import asyncio, pathlib, sys
from deerflow.config.source import open_source
from deerflow.harness import open_harness

async def main():
    async with open_harness(open_source(directory=pathlib.Path(sys.argv[1]), environment={})):
        print([name for name in sys.modules if name.startswith("deerflow.community.")])

asyncio.run(main())
"""


def get_offered_tools(model: ScriptedModel) -> set[str]:
    return set(model.requests[-1].tool_names)


async def test_web_search_and_fetch_are_available_by_default(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello.")
    async with open_sandbox_harness(tmp_path, model) as harness:
        await ask(harness)
    assert {"web_search", "web_fetch"} <= get_offered_tools(model) and "image_search" not in get_offered_tools(model)


@pytest.mark.parametrize("tools", [[], [{"name": "ls", "group": "own", "use": "deerflow.sandbox.tools:ls_tool"}]])
async def test_configured_tools_replace_the_defaults(tmp_path: Path, tools: list[dict[str, str]]) -> None:
    model = ScriptedModel.saying("Hello.")
    async with open_sandbox_harness(tmp_path, model, tools=tools) as harness:
        await ask(harness)
    assert not {"web_search", "web_fetch"} & get_offered_tools(model)


@pytest.mark.slow
def test_web_tools_are_loaded_lazily(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    started = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert started.stdout.strip() == "[]"


async def test_private_addresses_require_permission(tmp_path: Path) -> None:
    async with open_site() as site:
        site.routes["/"] = html_response("<title>Intranet</title><p>The canteen is closed.</p>")
        entry = {**as_entry("web_fetch"), "allow_private_addresses": True}
        (shown,) = await use(tmp_path, calling("web_fetch", url=f"{site.url}/"), tools=[entry])
        assert shown == f"# Intranet\nSource: {site.url}/\n\nThe canteen is closed."
        (shown,) = await use(tmp_path, calling("web_fetch", url=f"{site.url}/"))
        assert shown.startswith("Error: NotAllowed: 127.0.0.1 is not on the public internet")


async def test_web_errors_do_not_fail_the_run(tmp_path: Path) -> None:
    entry = {**as_entry("web_search"), "use": "deerflow.community.tavily.tools:web_search_tool"}
    model = ScriptedModel.saying(calling("web_search", query="deer"), "I could not search.")
    async with open_sandbox_harness(tmp_path, model, tools=[entry]) as harness:
        assert (await ask(harness)).status == "success"
        (answer,) = await tool_results(harness)
        assert answer["status"] == "error" and "TAVILY_API_KEY" in answer["content"]


def as_entry(name: str) -> dict[str, Any]:
    (entry,) = [entry for entry in Config().tools if entry.name == name]
    return entry.model_dump()


def test_guide_examples_are_valid_tool_entries() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/web.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", guide, re.S)
    entries = [ToolConfig.model_validate(entry) for block in blocks for entry in yaml.safe_load(block)["tools"]]
    assert get_available_tools(entries).names == ("web_search", "web_fetch", "image_search")


def test_guide_documents_all_settings_of_web_tools() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/web.md").read_text()
    table = {line.split("`")[1]: line for line in guide.splitlines() if line.startswith("| `")}
    shared = {"timeout", "max_results", "max_chars", "base_url", "api_key", "proxy"}
    for provider, names in WEB_TOOLS.items():
        for name in names:
            tool = load_object(f"deerflow.community.{provider}.tools:{name}_tool", WebTool)
            own = [setting for setting in tool.setting_names if setting not in shared]
            assert [setting for setting in own if f"`{setting}`" not in table[provider]] == []
