"""A run that is undone leaves neither words nor files behind."""

from pathlib import Path

import pytest

from deerflow.domain.files import UPLOADS
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRequest, RunStatus
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.runtime.support import NO_TOOLBOX, create_workspace_files, read_contents, simulate_crash, wait_for_text
from tests.sandbox.processes import find_survivors, make_marker, wait_for_processes
from tests.sandbox.support import (
    OUTPUTS,
    WORK,
    act,
    ask,
    begin,
    end,
    files,
    open_sandbox_harness,
    work,
)
from tests.uploads.support import upload_file

DAMAGE = (
    "echo more >> kept; rm gone; mv folder elsewhere; ln -sf /etc/passwd link; chmod 700 kept; "
    f"mkdir -p new/deep && echo new > new/deep/file; echo out > {OUTPUTS}/report"
)


def read_thread_files(home: Path) -> dict[str, str]:
    """Return the files of the thread with mode and content."""
    found = (path for path in files(home).rglob("*") if ".home" not in path.parts)
    shown = (
        (path, str(path.readlink()) if path.is_symlink() else path.read_text())
        for path in found
        if path.is_symlink() or path.is_file()
    )
    return {str(path.relative_to(files(home))): f"{path.lstat().st_mode:o} {text}" for path, text in shown}


async def test_rollback_undoes_commands_of_the_run(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello.", act("bash", command=DAMAGE), Stall(Answer("Half")), "Next.")
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        create_workspace_files(tmp_path)
        before = read_thread_files(tmp_path)
        await ask(harness)
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        assert read_thread_files(tmp_path) != before
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert (await end(harness, run)).status is RunStatus.ERROR
        assert read_thread_files(tmp_path) == before
        assert await read_contents(harness) == ["Go on", "Hello."]
        assert (await ask(harness)).status is RunStatus.SUCCESS


async def test_an_interrupted_run_keeps_its_files(tmp_path: Path) -> None:
    model = ScriptedModel.saying(act("write_file", path=f"{WORK}/a", content="a"), Stall(Answer("Half")))
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert (work(tmp_path) / "a").read_text() == "a"


@pytest.mark.slow
async def test_rollback_during_a_command_undoes_it(tmp_path: Path) -> None:
    marker = make_marker()
    command = f"echo started > started; sleep {marker}; echo ended > ended"
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(act("bash", command=command)), **NO_TOOLBOX
    ) as harness:
        create_workspace_files(tmp_path)
        before = read_thread_files(tmp_path)
        run = await begin(harness)
        await wait_for_processes(marker)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert read_thread_files(tmp_path) == before
        assert await read_contents(harness) == []


async def test_rollback_ends_background_commands_of_the_run_only(tmp_path: Path) -> None:
    older, newer = make_marker(), make_marker()
    model = ScriptedModel.saying(
        act("bash", command=f"sleep {older}", background=True, name="older"),
        "Started.",
        act("bash", command=f"while sleep 0.01; do date > tick; done & sleep {newer}", background=True, name="newer"),
        Stall(Answer("Half")),
    )
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        await ask(harness)
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        await wait_for_processes(newer)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert await find_survivors(newer) == []
        assert read_thread_files(tmp_path) == {}
        await wait_for_processes(older)


async def test_the_rollback_strategy_replaces_the_run_and_its_files(tmp_path: Path) -> None:
    write = act("bash", command="echo changed > kept")
    model = ScriptedModel.saying(write, Stall(Answer("Half")), act("read_file", path=f"{WORK}/kept"), "I see.")
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        create_workspace_files(tmp_path)
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        assert (work(tmp_path) / "kept").read_text() == "changed\n"
        content = [{"type": "human", "content": "Something else"}]
        request = RunRequest("t", content, multitask_strategy=MultitaskStrategy.ROLLBACK)
        after = await harness.runs.create_or_reject(request, LOCAL_USER)
        assert (await end(harness, after)).status is RunStatus.SUCCESS
        assert await read_contents(harness) == ["Something else", "", "kept\n", "I see."]


async def test_rollback_keeps_uploads_made_during_the_run(tmp_path: Path) -> None:
    model = ScriptedModel.saying(
        "Hello.", act("bash", command=f"{DAMAGE}; touch {UPLOADS}/by-the-agent"), Stall(Answer("Half"))
    )
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        create_workspace_files(tmp_path)
        before = read_thread_files(tmp_path)
        await ask(harness)
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        thread = await harness.threads.get("t", LOCAL_USER)
        await upload_file(harness, thread, "mine.txt", b"mine")
        async with harness.core.uploads.receive(thread) as reception:
            await reception.begin("coming.txt")
            await reception.write(b"coming")
            await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
            await end(harness, run)
            await reception.end()
            await harness.core.uploads.complete(thread, reception)
        after = read_thread_files(tmp_path)
        assert after.pop("uploads/mine.txt").endswith("mine") and after.pop("uploads/coming.txt").endswith("coming")
        assert after == before


async def test_a_resumed_run_is_rolled_back_to_its_beginning(tmp_path: Path) -> None:
    write = act("bash", command="echo first > kept")
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(write, Stall(Answer("Half"))), **NO_TOOLBOX
    ) as harness:
        create_workspace_files(tmp_path)
        before = read_thread_files(tmp_path)
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
    # A call of its own, not one whose outcome is known from before.
    again = act("bash", command="echo second > kept; echo new > new").with_call_ids(turn=2)
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(again, Stall(Answer("Half again"))), **NO_TOOLBOX
    ) as harness:
        await wait_for_text(harness, run, "again")
        assert (work(tmp_path) / "new").exists()
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert read_thread_files(tmp_path) == before
        assert await read_contents(harness) == []


async def test_a_rollback_is_resumed_after_the_process_dies(database_location: Path | str, tmp_path: Path) -> None:
    write = act("bash", command="echo changed > kept; echo new > new")
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(write, Stall(Answer("Half"))), **NO_TOOLBOX
    ) as harness:
        create_workspace_files(tmp_path)
        before = read_thread_files(tmp_path)
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
    failure = b'{"error":"RolledBack","name":"RolledBack","message":"rolled back by the user"}'
    await simulate_crash(database_location, failure)
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying("Next."), **NO_TOOLBOX) as harness:
        assert (await end(harness, run)).error == "rolled back by the user"
        assert read_thread_files(tmp_path) == before
        assert await read_contents(harness) == []
        events = [event.event async for group in harness.runs.listen(run) for event in group]
        assert events.count("error") == 1 and events[-1] == "end"
        assert (await ask(harness)).status is RunStatus.SUCCESS


async def test_rollback_removes_files_with_large_results(tmp_path: Path) -> None:
    model = ScriptedModel.saying(act("bash", command="seq 200000"), Stall(Answer("Half")))
    settings = {**NO_TOOLBOX, "tool_output": {"externalize_min_chars": 1000}}
    async with open_sandbox_harness(tmp_path, model, **settings) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        assert read_thread_files(tmp_path) != {}
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert read_thread_files(tmp_path) == {}


@pytest.mark.parametrize("uses_files", [True, False])
async def test_snapshots_are_taken_on_first_file_use_and_deleted_with_the_thread(
    tmp_path: Path, uses_files: bool
) -> None:
    steps = [act("ls", path=WORK)] if uses_files else []
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(*steps, "Done."), **NO_TOOLBOX) as harness:
        await ask(harness)
        folder = files(tmp_path).parent / "snapshots"
        assert folder.exists() is uses_files
        await harness.threads.delete("t", LOCAL_USER)
        assert not folder.exists()


async def test_a_run_works_even_if_its_snapshot_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel.saying(act("bash", command="echo made > made"), Stall(Answer("Half")))
    work(tmp_path)
    (files(tmp_path).parent / "snapshots").write_text("in the way")
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert (await end(harness, run)).error == "rolled back by the user"
        assert (work(tmp_path) / "made").read_text() == "made\n"
    assert "cannot be undone" in caplog.text
