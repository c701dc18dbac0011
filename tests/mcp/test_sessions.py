"""What goes on in sessions: questions to the user, progress, images, who shares a session and when it ends."""

import asyncio
import json
from pathlib import Path

import psutil

from deerflow.config.models import ModelConfig
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, calling
from tests.conformance.command_suite import until
from tests.mcp.desk import HOSTILE, Desk, desk_with, hostile, source_with


async def test_a_question_of_a_server_pauses_the_run_until_the_user_has_answered(tmp_path: Path) -> None:
    async with desk_with(tmp_path, {"s": hostile()}, calling("s_ask"), "done") as desk:
        await desk.ready()
        await desk.run()
        first = await question(desk)
        assert first == {"name": "s_ask", "args": {"name": ""}, "description": "What is your name?"}
        await resume(desk, {"name": "Ada"})
        assert (await question(desk))["description"] == "Which colour?"
        await resume(desk, None)
        (answered,) = await desk.results()
        assert answered.text == "Ada likes decline"


async def test_a_question_is_asked_again_of_a_server_that_has_ended_meanwhile(tmp_path: Path) -> None:
    servers = {"s": hostile()}
    async with desk_with(tmp_path, servers, calling("s_ask")) as desk:
        await desk.ready()
        await desk.run()
    model = ScriptedModel.saying("done")
    async with open_harness(source_with(tmp_path, servers), model) as harness:
        desk = Desk(harness, model)
        await resume(desk, {"name": "Ada"})
        assert (await question(desk))["description"] == "Which colour?"
        await resume(desk, {"colour": "red"})
        (answered,) = await desk.results()
        assert answered.text == "Ada likes red"


async def test_progress_results_with_images_and_errors_reach_the_reader_and_the_model(tmp_path: Path) -> None:
    sighted = ModelConfig(name="eyes", use="deerflow.models.demo:DemoChatModel", model="demo", supports_vision=True)
    turns = (calling("s_steps"), calling("s_picture"), calling("s_refuse"), calling("s_echo", value="x" * 20_000), "ok")
    models = [sighted.model_dump(mode="json", exclude_none=True)]
    async with desk_with(tmp_path, {"s": hostile()}, *turns, models=models) as desk:
        await desk.ready()
        run = await desk.start()
        assert await desk.until_progress(run) == ["1/2 step 1\n"]
        await desk.ended(run)
        steps, picture, refused, large = await desk.results()
        assert steps.text == "done"
        image, link = picture.content
        assert isinstance(image, dict) and image["type"] == "image" and image["mime_type"] == "image/png"
        # Nobody fetches what a server names: an image by its address would tell strangers that it was shown.
        assert link == {"type": "text", "text": "[resource https://example.org/secret.png: x, image/png]"}
        assert picture.artifact == {"structured_content": {"width": 1}}
        assert (refused.status, refused.text) == ("error", "Error: no such city")
        assert ".tool-results" in large.text and len(large.text) < 10_000


async def test_subagents_use_the_same_tools_and_nobody_is_asked_for_them(tmp_path: Path) -> None:
    task = calling("task", description="ask", prompt="Ask.", subagent_type="general-purpose")
    turns = (task, calling("s_ask"), "It was not answered.", "done")
    async with desk_with(tmp_path, {"s": hostile()}, *turns) as desk:
        await desk.ready()
        await desk.run(agent=AgentSpec(subagent_enabled=True))
        (told,) = await desk.results()
        assert "It was not answered." in told.text
        asked = [message for request in desk.model.requests for message in request.messages if message.type == "tool"]
        assert asked[0].text == "cancel likes cancel"


async def test_threads_have_processes_of_their_own_which_end_with_them(tmp_path: Path) -> None:
    said = (calling("s_echo", value="1"), "done", calling("s_echo", value="2"), "done")
    async with desk_with(tmp_path, {"s": hostile()}, *said) as desk:
        await desk.ready()
        await desk.run("t1")
        await desk.run("t2")
        assert len(processes()) == 2
        await desk.harness.deletions.delete("t1", LOCAL_USER)
        await until(lambda: count_is(1))
    await until(lambda: count_is(0))


async def test_what_servers_offer_is_known_at_once_after_a_restart(tmp_path: Path) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    servers = {"s": hostile(f"hang-if:{flags}/now", paths=[str(HOSTILE), str(flags)])}
    async with desk_with(tmp_path, servers) as desk:
        await desk.ready()
        offered = desk.offered()
    (flags / "now").touch()
    async with desk_with(tmp_path, servers, "done") as desk:
        await desk.run()
        assert desk.offered() == offered and len(offered) > 10
        assert desk.status("s").state == "connecting"


async def count_is(wanted: int) -> bool:
    return len(await asyncio.to_thread(processes)) == wanted


def processes() -> list[psutil.Process]:
    """The hostile servers of this test session's process."""
    found = psutil.Process().children(recursive=True)
    return [each for each in found if is_hostile(each)]


def is_hostile(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return str(HOSTILE) in command and "bwrap" not in command[0] and "bash" not in command[0]


async def question(desk: Desk) -> dict[str, object]:
    """What the thread waits for."""
    state = await desk.harness.threads.state("t1", LOCAL_USER)
    (asked,) = json.loads(state.interrupts)
    (request,) = asked["value"]["action_requests"]
    return dict(request)


async def resume(desk: Desk, form: dict[str, str] | None) -> None:
    """Answer with a filled form, or reject it."""
    edited = {"type": "edit", "edited_action": {"name": "s_ask", "args": form}}
    answer = {"decisions": [edited if form is not None else {"type": "reject"}]}
    request = RunRequest("t1", resume=Resume(answer), create_thread=False)
    await desk.ended(await desk.harness.runs.create_or_reject(request, LOCAL_USER))
