"""The web in a conversation: offered to everybody, taken away with a word, and loaded only when it is needed."""

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
from deerflow.config.tools import ToolConfig
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.tools import get_available_tools
from tests.agents.test_founding_names import WEB_TOOLS
from tests.community.web_site import html_answer, open_site
from tests.sandbox.desk import answers, ask, desk, use

LOADED = """
import asyncio, pathlib, sys
from deerflow.config.source import open_source
from deerflow.harness import open_harness

async def main():
    async with open_harness(open_source(directory=pathlib.Path(sys.argv[1]), environment={})):
        print([name for name in sys.modules if name.startswith("deerflow.community.")])

asyncio.run(main())
"""


def offered(model: ScriptedModel) -> set[str]:
    return set(model.requests[-1].tool_names)


async def test_nobody_has_to_configure_anything_to_search_and_read(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello.")
    async with desk(tmp_path, model) as harness:
        await ask(harness)
    assert {"web_search", "web_fetch"} <= offered(model) and "image_search" not in offered(model)


@pytest.mark.parametrize("tools", [[], [{"name": "ls", "group": "own", "use": "deerflow.sandbox.tools:ls_tool"}]])
async def test_whoever_writes_a_list_of_tools_says_all_of_it(tmp_path: Path, tools: list[dict[str, str]]) -> None:
    model = ScriptedModel.saying("Hello.")
    async with desk(tmp_path, model, tools=tools) as harness:
        await ask(harness)
    assert not {"web_search", "web_fetch"} & offered(model)


@pytest.mark.slow
def test_a_server_starts_without_the_code_of_web_tools(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    started = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert started.stdout.strip() == "[]"


async def test_a_model_reads_a_page_of_an_intranet_where_that_is_allowed(tmp_path: Path) -> None:
    async with open_site() as site:
        site.routes["/"] = html_answer("<title>Intranet</title><p>The canteen is closed.</p>")
        entry = {**as_entry("web_fetch"), "allow_private_addresses": True}
        (shown,) = await use(tmp_path, calling("web_fetch", url=f"{site.url}/"), tools=[entry])
        assert shown == f"# Intranet\nSource: {site.url}/\n\nThe canteen is closed."
        (shown,) = await use(tmp_path, calling("web_fetch", url=f"{site.url}/"))
        assert shown.startswith("Error: NotAllowed: 127.0.0.1 is not on the public internet")


async def test_a_problem_of_the_web_does_not_end_a_run(tmp_path: Path) -> None:
    entry = {**as_entry("web_search"), "use": "deerflow.community.tavily.tools:web_search_tool"}
    model = ScriptedModel.saying(calling("web_search", query="deer"), "I could not search.")
    async with desk(tmp_path, model, tools=[entry]) as harness:
        assert (await ask(harness)).status == "success"
        (answer,) = await answers(harness)
        assert answer["status"] == "error" and "TAVILY_API_KEY" in answer["content"]


def as_entry(name: str) -> dict[str, Any]:
    (entry,) = [entry for entry in Config().tools if entry.name == name]
    return entry.model_dump()


def test_every_entry_in_the_guide_leads_to_a_tool_with_these_settings() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/web.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", guide, re.S)
    entries = [ToolConfig.model_validate(entry) for block in blocks for entry in yaml.safe_load(block)["tools"]]
    assert get_available_tools(entries).names == ("web_search", "web_fetch", "image_search")


def test_the_guide_names_every_setting_of_every_web_tool() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/web.md").read_text()
    table = {line.split("`")[1]: line for line in guide.splitlines() if line.startswith("| `")}
    shared = {"timeout", "max_results", "max_chars", "base_url", "api_key", "proxy"}
    for provider, names in WEB_TOOLS.items():
        for name in names:
            tool = load_object(f"deerflow.community.{provider}.tools:{name}_tool", WebTool)
            own = [setting for setting in tool.setting_names if setting not in shared]
            assert [setting for setting in own if f"`{setting}`" not in table[provider]] == []
