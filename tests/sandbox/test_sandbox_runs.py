"""Processes in a thread's sandbox, across messages and until its end."""

import asyncio
from pathlib import Path

import pytest

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunStatus
from deerflow.testing import ScriptedModel, in_parallel
from tests.sandbox.processes import find_processes, find_survivors, make_marker, wait_for_processes
from tests.sandbox.support import LIMIT_S, act, ask, begin, end, files, open_sandbox_harness, state_of, tool_results


@pytest.mark.parametrize(
    "command",
    ["sleep {0}", "setsid sleep {0} & wait", "(sleep {0} &) ; nohup sleep {0} >/dev/null 2>&1 & sleep {0}"],
    ids=["in the foreground", "in a session of its own", "in the background and orphaned"],
)
async def test_cancelling_a_run_kills_its_command_and_the_thread_continues(tmp_path: Path, command: str) -> None:
    marker = make_marker()
    model = ScriptedModel.saying(act("bash", command=command.format(hide_marker(marker))), "Stopped, then.")
    async with open_sandbox_harness(tmp_path, model) as harness:
        run = await begin(harness)
        await wait_for_processes(marker, command.count("{0}"))
        async with asyncio.timeout(2):
            await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert (await end(harness, run)).status is RunStatus.INTERRUPTED
        assert await find_survivors(marker) == []
        assert (await ask(harness)).status is RunStatus.SUCCESS
        assert (await state_of(harness))["messages"][-1]["content"] == "Stopped, then."


async def test_cancelling_a_run_kills_all_commands_of_a_reply(tmp_path: Path) -> None:
    marker = make_marker()
    reply = in_parallel(*(act("bash", command=f"sleep {hide_marker(marker)}") for _ in range(3)))
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(reply)) as harness:
        run = await begin(harness)
        await wait_for_processes(marker, 3)
        async with asyncio.timeout(2):
            await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert await find_survivors(marker) == []


async def test_run_timeout_kills_the_command(tmp_path: Path) -> None:
    marker = make_marker()
    model = ScriptedModel.saying(act("bash", command=f"sleep {hide_marker(marker)}"), "I was stopped.")
    async with open_sandbox_harness(tmp_path, model, runs={"timeout_seconds": 1}) as harness:
        assert (await ask(harness)).status is RunStatus.TIMEOUT
        assert await find_survivors(marker) == []
        assert (await ask(harness)).status is RunStatus.SUCCESS


async def test_background_process_survives_between_messages(tmp_path: Path) -> None:
    marker = make_marker()
    start = act("bash", command=f"echo tick; sleep {hide_marker(marker)}", background=True, name="clock")
    look, stop = act("bash_output", name="clock"), act("bash_kill", name="clock")
    model = ScriptedModel.saying(start, "Started.", look, look, start, "It ticks.", stop, look, "It is over.")
    async with open_sandbox_harness(tmp_path, model) as harness:
        await ask(harness)
        await wait_for_processes(marker)
        await ask(harness)
        assert find_processes(marker)
        await ask(harness)
        assert await find_survivors(marker) == []
        message = [answer["content"] for answer in await tool_results(harness)]
        assert message[:3] == [
            "Started 'clock' in the background. See what it prints with bash_output.",
            "tick\n[clock: running]",
            "(nothing new)\n[clock: running]",
        ]
        assert message[3].endswith("'clock' is already running; kill it first, or choose another name")
        assert message[4:] == ["(nothing new)\n[clock: ended, exit code 137]"] * 2


async def test_reports_the_exit_of_a_background_process_in_a_later_message(tmp_path: Path) -> None:
    start = act("bash", command="echo last words; exit 4", background=True)
    model = ScriptedModel.saying(start, "Started.", act("bash_output", name="job"), "Over.")
    async with open_sandbox_harness(tmp_path, model) as harness:
        await ask(harness)
        sandbox = await harness.core.sandboxes.get(await harness.core.sandboxes.acquire("t", LOCAL_USER.user_id))
        assert sandbox is not None
        async with asyncio.timeout(LIMIT_S):
            while (await sandbox.list_processes())[0].exit_code is None:  # noqa: ASYNC110 (it is another process)
                await asyncio.sleep(0)
        await ask(harness)
        message = [answer["content"] for answer in await tool_results(harness)]
        assert message[0].startswith("Started 'job' in the background.")
        assert message[1] == "last words\n[job: ended, exit code 4]"


async def test_deleting_a_thread_kills_its_processes_and_removes_its_files(tmp_path: Path) -> None:
    marker = make_marker()
    start = act("bash", command=f"echo mine > mine.txt; setsid sleep {hide_marker(marker)}", background=True)
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(start, "Started.")) as harness:
        await ask(harness)
        await wait_for_processes(marker)
        assert (files(tmp_path) / "workspace/mine.txt").is_file()
        await harness.threads.delete("t", LOCAL_USER)
        assert await find_survivors(marker) == []
        assert not files(tmp_path).parent.exists()
        with pytest.raises(NotFound):
            await harness.threads.get("t", LOCAL_USER)


@pytest.mark.slow
async def test_closing_the_harness_kills_everything(tmp_path: Path) -> None:
    marker = make_marker()
    start = act("bash", command=f"sleep {hide_marker(marker)}", background=True)
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(start, act("bash", command=f"sleep {hide_marker(marker)}"))
    ) as harness:
        await begin(harness)
        await wait_for_processes(marker, 2)
    assert await find_survivors(marker) == []


@pytest.mark.slow
async def test_files_survive_the_harness(tmp_path: Path) -> None:
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(act("bash", command="echo kept > kept.txt"), "Kept.")
    ) as harness:
        await ask(harness)
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(act("bash", command="cat kept.txt"), "Still.")
    ) as harness:
        await ask(harness)
        assert (await tool_results(harness))[-1]["content"] == "kept"


def hide_marker(marker: str) -> str:
    """Return `marker` quoted so that the shell's command line does not contain it."""
    return marker.replace(".", "''.")
