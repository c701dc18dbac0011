"""Tests of sessions: elicitation, progress, images, and the lifetime of processes."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from deerflow.config.sections.models import ModelConfig
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest
from deerflow.harness import open_harness
from deerflow.mcp.catalog import ToolListCache
from deerflow.mcp.session.calls import ServerAddress
from deerflow.mcp.status import ServerListing
from deerflow.testing import ScriptedModel, calling
from tests.conformance.command_suite import wait_until
from tests.mcp.support import (
    HOSTILE_SERVER,
    McpHarness,
    build_hostile_entry,
    create_source,
    has_processes,
    list_processes,
    open_mcp_harness,
)


async def test_elicitation_interrupts_the_run_until_the_user_answers(tmp_path: Path) -> None:
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, calling("s_ask"), "done") as world:
        await world.wait_until_listed()
        await world.run()
        first = await read_action_request(world)
        assert first == {"name": "s_ask", "args": {"name": None}, "description": "What is your name?"}
        await resume(world, {"name": "Ada"})
        assert (await read_action_request(world))["description"] == "Which colour?"
        await resume(world, None)
        (answered,) = await world.results()
        assert answered.text == "Ada likes decline"


@pytest.mark.slow
async def test_elicitation_is_repeated_after_a_restart(tmp_path: Path) -> None:
    servers = {"s": build_hostile_entry()}
    async with open_mcp_harness(tmp_path, servers, calling("s_ask")) as world:
        await world.wait_until_listed()
        await world.run()
    model = ScriptedModel.saying("done")
    async with open_harness(create_source(tmp_path, servers), model) as harness:
        world = McpHarness(harness, model)
        await resume(world, {"name": "Ada"})
        assert (await read_action_request(world))["description"] == "Which colour?"
        await resume(world, {"colour": "red"})
        (answered,) = await world.results()
        assert answered.text == "Ada likes red"


async def test_forwards_progress_images_and_errors(tmp_path: Path) -> None:
    sighted = ModelConfig(name="eyes", use="deerflow.models.demo:DemoChatModel", model="demo", supports_vision=True)
    turns = (calling("s_steps"), calling("s_picture"), calling("s_refuse"), calling("s_echo", value="x" * 20_000), "ok")
    models = [sighted.model_dump(mode="json", exclude_none=True)]
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns, models=models) as world:
        await world.wait_until_listed()
        run = await world.start()
        assert await world.wait_for_progress(run) == ["1/2 step 1\n"]
        await world.wait_until_ended(run)
        steps, picture, refused, large = await world.results()
        assert steps.text == "done"
        image, link = picture.content
        assert isinstance(image, dict) and image["type"] == "image" and image["mime_type"] == "image/png"
        # Links are not fetched: loading an image by URL would reveal that it was shown.
        assert link == {"type": "text", "text": "[resource https://example.org/secret.png: x, image/png]"}
        assert picture.artifact == {"structured_content": {"width": 1}}
        assert (refused.status, refused.text) == ("error", "Error: no such city")
        assert ".tool-results" in large.text and len(large.text) < 10_000


async def test_elicitation_in_a_subagent_is_cancelled(tmp_path: Path) -> None:
    task = calling("task", description="ask", prompt="Ask.", subagent_type="general-purpose")
    turns = (task, calling("s_ask"), "It was not answered.", "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        await world.run(agent=AgentSpec(subagent_enabled=True))
        (result,) = await world.results()
        assert "It was not answered." in result.text
        asked = [message for request in world.model.requests for message in request.messages if message.type == "tool"]
        assert asked[0].text == "cancel likes cancel"


async def test_each_thread_has_its_own_process(tmp_path: Path) -> None:
    said = (calling("s_echo", value="1"), "done", calling("s_echo", value="2"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *said) as world:
        await world.wait_until_listed()
        await world.run("t1")
        await world.run("t2")
        assert len(list_processes()) == 2
        await world.harness.deletions.delete("t1", LOCAL_USER)
        await wait_until(lambda: has_processes(1))
    await wait_until(lambda: has_processes(0))


async def test_listing_is_cached_across_restarts(tmp_path: Path) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    servers = {"s": build_hostile_entry(f"hang-if:{flags}/now", paths=[str(HOSTILE_SERVER), str(flags)])}
    async with open_mcp_harness(tmp_path, servers) as world:
        await world.wait_until_listed()
        offered = world.tool_names()
    (flags / "now").touch()
    async with open_mcp_harness(tmp_path, servers, "done") as world:
        await world.run()
        assert world.tool_names() == offered and len(offered) > 10
        assert world.status("s").state == "connecting"


async def test_a_listing_that_is_being_forgotten_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    servers = {"s": build_hostile_entry(f"hang-if:{flags}/now", paths=[str(HOSTILE_SERVER), str(flags)])}
    forget, get, is_read = ToolListCache.forget, ToolListCache.get, threading.Event()

    def forget_late(cache: ToolListCache, address: ServerAddress) -> None:
        is_read.wait(0.3)
        forget(cache, address)

    def get_and_tell(cache: ToolListCache, address: ServerAddress) -> ServerListing | None:
        found = get(cache, address)
        is_read.set()
        return found

    async with open_mcp_harness(tmp_path, servers) as world:
        await world.wait_until_listed()
        (flags / "now").touch()
        monkeypatch.setattr(ToolListCache, "forget", forget_late)
        monkeypatch.setattr(ToolListCache, "get", get_and_tell)
        world.harness.resources.mcp_servers.catalog.forget("s")
        await world.harness.core.mcp.prepare(LOCAL_USER.user_id, wait_s=0)

        async def is_connecting() -> bool:
            await asyncio.to_thread(is_read.wait, 0.01)
            return world.status("s").state == "connecting"

        await wait_until(is_connecting)
        assert world.tool_names() == []


async def read_action_request(world: McpHarness) -> dict[str, object]:
    """Return the action the thread waits for."""
    state = await world.harness.threads.state("t1", LOCAL_USER)
    (asked,) = json.loads(state.interrupts)
    (request,) = asked["value"]["action_requests"]
    return dict(request)


async def resume(world: McpHarness, form: dict[str, str] | None) -> None:
    """Answer with a filled form, or reject it."""
    edited = {"type": "edit", "edited_action": {"name": "s_ask", "args": form}}
    answer = {"decisions": [edited if form is not None else {"type": "reject"}]}
    request = RunRequest("t1", resume=Resume(answer), create_thread=False)
    await world.wait_until_ended(await world.harness.runs.create_or_reject(request, LOCAL_USER))
