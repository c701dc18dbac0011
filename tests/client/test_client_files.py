"""Files of threads from Python: streamed, saved, bundled, edited, and what a run did to them."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, FileProblem, NotFound
from deerflow.gateway.routers.artifacts import Edited
from deerflow.gateway.routers.workspace_changes import RunChanges
from deerflow.testing import ScriptedModel
from tests.client.test_client_conformance import parses
from tests.sandbox.desk import OUTPUTS, act

PLAN = f"{OUTPUTS}/plan.md"
NO_TOOLBOX = {"sandbox": {"toolbox": {"enabled": False}}}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[DeerFlowClient]:
    model = ScriptedModel.saying(act("write_file", path=PLAN, content="# Plan\r\n"), "Done.", "Nothing.")
    with DeerFlowClient(NO_TOOLBOX, model=model) as client:
        client.chat("Plan", thread_id="t")
        yield client


def test_a_file_is_streamed_and_saved_whole_or_not_at_all(client: DeerFlowClient, tmp_path: Path) -> None:
    assert b"".join(client.stream_artifact("t", PLAN)) == b"# Plan\r\n"
    assert client.download_artifact("t", PLAN, tmp_path / "plan.md") == 8
    assert (tmp_path / "plan.md").read_bytes() == b"# Plan\r\n"
    with pytest.raises(NotFound):
        client.download_artifact("none", PLAN, tmp_path / "no.md")
    with pytest.raises(FileProblem):
        client.download_artifact("t", f"{OUTPUTS}/none", tmp_path / "no.md")
    with pytest.raises(FileProblem):
        list(client.stream_artifact("t", f"{OUTPUTS}/none"))
    assert not list(tmp_path.glob("*no.md*"))


async def test_the_async_faces_do_the_same(tmp_path: Path) -> None:
    model = ScriptedModel.saying(act("write_file", path=PLAN, content="# Plan\r\n"), "Done.")
    async with DeerFlowClient(NO_TOOLBOX, model=model) as client:
        await client.achat("Plan", thread_id="t")
        assert (await client.aedit_artifact("t", f"{OUTPUTS}/large", "x" * 2_000_000))["size"] == 2_000_000
        pieces = [piece async for piece in client.astream_artifact("t", f"{OUTPUTS}/large")]
        assert len(pieces) == 2 and sum(map(len, pieces)) == 2_000_000
        assert await client.adownload_artifact("t", PLAN, tmp_path / "plan.md") == 8
        assert await client.adownload_artifacts("t", tmp_path / "all.zip") > 0
        assert (await client.aget_workspace_changes("t"))["counts"]["added"] == 1


def test_a_reader_who_leaves_leaves_no_file_open(client: DeerFlowClient) -> None:
    client.edit_artifact("t", f"{OUTPUTS}/large", "x" * 2_000_000)
    pieces = iter(client.stream_artifact("t", f"{OUTPUTS}/large"))
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not any(str(each.readlink()).endswith("outputs/large") for each in links)


def test_files_are_saved_as_one_zip_file(client: DeerFlowClient, tmp_path: Path) -> None:
    size = client.download_artifacts("t", tmp_path / "all.zip")
    content = (tmp_path / "all.zip").read_bytes()
    assert len(content) == size
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"outputs/plan.md": b"# Plan\r\n"}
    with pytest.raises(FileProblem, match="none"):
        client.download_artifacts("t", tmp_path / "none.zip", [PLAN, f"{OUTPUTS}/none"])
    assert not (tmp_path / "none.zip").exists()


def test_a_text_is_edited_by_whom_has_seen_it(client: DeerFlowClient) -> None:
    content, _ = client.get_artifact("t", PLAN)
    edited = client.edit_artifact("t", PLAN, "# Plan B\n", hashlib.sha256(content).hexdigest())
    assert parses(Edited, edited)
    with pytest.raises(Conflict, match=edited["sha256"]):
        client.edit_artifact("t", PLAN, "# Plan C\n", "0" * 64)
    with pytest.raises(Conflict):
        client.edit_artifact("t", PLAN, "# Plan C\n")
    assert client.get_artifact("t", PLAN)[0] == b"# Plan B\n"


def test_what_a_run_did_is_told_in_the_shape_of_the_http_api(client: DeerFlowClient) -> None:
    changes = client.get_workspace_changes("t")
    assert parses(RunChanges, changes)
    (change,) = changes["files"]
    assert (change["path"], change["status"], change["lines_added"]) == (PLAN, "added", 1)
    assert change["diff"].endswith("+# Plan\r\n")
    short = client.get_workspace_changes("t", changes["run_id"], include_diff=False)
    assert short["files"][0]["diff"] is None
    client.chat("Again", thread_id="t")
    assert client.get_workspace_changes("t")["files"] == []
    with pytest.raises(NotFound):
        client.get_workspace_changes("none")
    with pytest.raises(NotFound):
        client.get_workspace_changes("t", "none")
