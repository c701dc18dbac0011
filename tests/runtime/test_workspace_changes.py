"""What a run did to files, seen by whoever asks for it later."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import CancelAction, RunRecord, RunStatus
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.gateway.support import find_files
from tests.runtime.support import NO_TOOLBOX, create_workspace_files, wait_for_text
from tests.sandbox.support import OUTPUTS, WORK, act, ask, begin, end, files, open_sandbox_harness, work
from tests.support import browse
from tests.uploads.support import upload_file

EDITS = (
    "echo more >> kept; rm link; mv gone moved; printf '\\0\\1' > binary; "
    'python3 -c \'open("huge", "w").write("x" * 300000)\'; ln -s kept alias; touch "$(printf \'a\\nb\')"'
)


async def list_change_events(harness: Harness, run: RunRecord) -> list[dict[str, Any]]:
    """Return the events of a run that report its file changes."""
    groups = [group async for group in harness.runs.listen(run)]
    custom = [orjson.loads(event.data) for group in groups for event in group if event.event == "custom"]
    return [each for each in custom if each["type"] == "workspace_changes"]


async def get_changes(harness: Harness, run: RunRecord, **wanted: bool) -> dict[str, Any]:
    async with browse(harness) as http:
        url = f"/api/threads/t/runs/{run.run_id}/workspace-changes"
        found = await http.get(url, params={key: str(value).lower() for key, value in wanted.items()})
        assert found.status_code == 200
        answer: dict[str, Any] = found.json()
        return answer


async def test_file_changes_are_reported_with_diffs_and_survive_a_restart(tmp_path: Path) -> None:
    write = act("write_file", path=f"{OUTPUTS}/report.md", content="# Report\n")
    model = ScriptedModel.saying(act("bash", command=EDITS), write, "Done.", "Nothing to do.")
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        create_workspace_files(tmp_path)
        run = await ask(harness)
        assert await list_change_events(harness, run) == [
            {"type": "workspace_changes", "added": 5, "changed": 1, "removed": 1, "renamed": 1}
        ]
        later = await ask(harness)  # uses no file
        assert (await get_changes(harness, later))["files"] == [] and await list_change_events(harness, later) == []
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(), **NO_TOOLBOX) as harness:
        found = await get_changes(harness, run, include_diff=True)
        assert found["counts"] == {"added": 5, "changed": 1, "removed": 1, "renamed": 1}
        assert (found["is_final"], found["is_truncated"], found["problem"]) == (True, False, None)
        seen = {each["path"]: each for each in found["files"]}
        assert seen[f"{OUTPUTS}/report.md"]["diff"].endswith("@@ -0,0 +1 @@\n+# Report\n")
        assert seen[f"{WORK}/kept"]["diff"].endswith("@@ -1 +1,2 @@\n kept\n+more\n")
        assert seen[f"{WORK}/binary"]["left_out"] == "binary" and seen[f"{WORK}/huge"]["left_out"] == "too large"
        assert seen[f"{WORK}/moved"]["previous_path"] == f"{WORK}/gone"
        assert seen[f"{WORK}/alias"]["is_link"] and seen[f"{WORK}/a\nb"]["status"] == "added"
        plain = await get_changes(harness, run)
        assert [each["diff"] for each in plain["files"]] == [None] * 8
        assert (await get_changes(harness, run, include_files=False))["files"] is None


async def test_file_changes_of_active_and_cancelled_runs_are_reported(tmp_path: Path) -> None:
    model = ScriptedModel.saying(act("bash", command="echo 1 > made"), Stall(Answer("Half")))
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        found = await get_changes(harness, run)
        assert (found["is_final"], found["counts"]["added"]) == (False, 1)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        found = await get_changes(harness, run)
        assert (found["is_final"], found["counts"]["added"]) == (True, 1)


async def test_a_rolled_back_run_reports_no_file_changes(tmp_path: Path) -> None:
    model = ScriptedModel.saying(act("bash", command="echo 1 > made"), Stall(Answer("Half")))
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, CancelAction.ROLLBACK)
        assert (await get_changes(harness, run))["files"] == [] and await list_change_events(harness, run) == []


async def test_a_resumed_run_reports_the_file_changes_of_both_processes(tmp_path: Path) -> None:
    first = act("bash", command="echo 1 > one")
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(first, Stall(Answer("Half"))), **NO_TOOLBOX
    ) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
    second = act("bash", command="echo 2 > two").with_call_ids(turn=2)
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(second, "Done."), **NO_TOOLBOX) as harness:
        assert (await end(harness, run)).status is RunStatus.SUCCESS
        found = await get_changes(harness, run)
        assert [each["path"] for each in found["files"]] == [f"{WORK}/one", f"{WORK}/two"]


@pytest.mark.parametrize("action", [CancelAction.ROLLBACK, CancelAction.INTERRUPT])
async def test_user_edits_during_a_run_are_kept_and_not_attributed_to_it(tmp_path: Path, action: CancelAction) -> None:
    model = ScriptedModel.saying(act("bash", command="echo 1 > made"), Stall(Answer("Half")))
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        await harness.artifacts.edit("t", LOCAL_USER, f"{OUTPUTS}/mine.md", "mine", None)
        thread = await harness.threads.get("t", LOCAL_USER)
        for name in ("given.txt", "deleted.txt"):
            await upload_file(harness, thread, name, b"given")
        await harness.core.uploads.delete(run.owner, "t", "deleted.txt")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, action)
        assert (files(tmp_path) / "outputs/mine.md").read_text() == "mine"
        assert [file.name for file in (files(tmp_path) / "uploads").iterdir()] == ["given.txt"]
        is_kept = action is CancelAction.INTERRUPT
        assert (work(tmp_path) / "made").exists() is is_kept
        assert (await get_changes(harness, run))["counts"]["added"] == int(is_kept)


async def test_file_changes_are_private_and_deleted_with_run_and_thread(tmp_path: Path) -> None:
    model = ScriptedModel.saying(*[act("bash", command="echo 1 >> made"), "Done."] * 2)
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run, other = await ask(harness), await ask(harness)
        async with browse(harness) as http:
            await harness.threads.create(Principal("somebody"), "theirs", {}, may_exist=False)
            for thread, run_id in (("theirs", run.run_id), ("t", "none"), ("none", run.run_id)):
                answer = await http.get(f"/api/threads/{thread}/runs/{run_id}/workspace-changes")
                assert answer.status_code == 404 and answer.json()["error"] == "NotFound"
            await harness.runs.delete("t", run.run_id, LOCAL_USER)
            assert (await http.get(f"/api/threads/t/runs/{run.run_id}/workspace-changes")).status_code == 404
        assert (await get_changes(harness, other))["counts"]["changed"] == 1
        await harness.threads.delete("t", LOCAL_USER)
    leftovers = [path for path in find_files(tmp_path, "*") if path.is_file() and b"+1\n+1" in path.read_bytes()]
    assert leftovers == []


async def test_a_run_ends_even_if_its_file_changes_cannot_be_computed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel.saying(act("bash", command="echo 1 > made"), Stall(Answer("Half")))
    async with open_sandbox_harness(tmp_path, model, **NO_TOOLBOX) as harness:
        run = await begin(harness)
        await wait_for_text(harness, run, "Half")
        listed = files(tmp_path).parent / "snapshots/list.json"
        listed.unlink()
        listed.mkdir()
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert (await end(harness, run)).status is RunStatus.INTERRUPTED
        found = await get_changes(harness, run)
        assert found["files"] == [] and found["problem"]
    assert "is not known" in caplog.text
