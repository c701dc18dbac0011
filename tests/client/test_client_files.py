"""Files of threads: streaming, downloads, edits and changes of a run."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, FileProblem, NotFound
from deerflow.gateway.routers.threads.artifacts import Edited
from deerflow.gateway.routers.threads.files import RunChanges
from deerflow.testing import ScriptedModel
from tests.client.support import is_valid
from tests.sandbox.support import OUTPUTS, act

PLAN = f"{OUTPUTS}/plan.md"
NO_TOOLBOX = {"sandbox": {"toolbox": {"enabled": False}}}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[DeerFlowClient]:
    model = ScriptedModel.saying(act("write_file", path=PLAN, content="# Plan\r\n"), "Done.", "Nothing.")
    with DeerFlowClient(NO_TOOLBOX, model=model) as client:
        client.chat("Plan", thread_id="t")
        yield client


def test_a_file_is_streamed_and_saved_atomically(client: DeerFlowClient, tmp_path: Path) -> None:
    assert b"".join(client.artifacts.stream("t", PLAN)) == b"# Plan\r\n"
    assert client.artifacts.download("t", PLAN, tmp_path / "plan.md") == 8
    assert (tmp_path / "plan.md").read_bytes() == b"# Plan\r\n"
    with pytest.raises(NotFound):
        client.artifacts.download("none", PLAN, tmp_path / "no.md")
    with pytest.raises(FileProblem):
        client.artifacts.download("t", f"{OUTPUTS}/none", tmp_path / "no.md")
    with pytest.raises(FileProblem):
        list(client.artifacts.stream("t", f"{OUTPUTS}/none"))
    assert not list(tmp_path.glob("*no.md*"))


async def test_async_methods_do_the_same(tmp_path: Path) -> None:
    model = ScriptedModel.saying(act("write_file", path=PLAN, content="# Plan\r\n"), "Done.")
    async with DeerFlowClient(NO_TOOLBOX, model=model) as client:
        await client.achat("Plan", thread_id="t")
        assert (await client.artifacts.aedit("t", f"{OUTPUTS}/large", "x" * 2_000_000))["size"] == 2_000_000
        pieces = [piece async for piece in client.artifacts.astream("t", f"{OUTPUTS}/large")]
        assert len(pieces) == 2 and sum(map(len, pieces)) == 2_000_000
        assert await client.artifacts.adownload("t", PLAN, tmp_path / "plan.md") == 8
        assert await client.artifacts.adownload_zip("t", tmp_path / "all.zip") > 0
        assert (await client.runs.aget_changes("t"))["counts"]["added"] == 1


def test_closing_a_stream_early_closes_the_file(client: DeerFlowClient) -> None:
    client.artifacts.edit("t", f"{OUTPUTS}/large", "x" * 2_000_000)
    pieces = iter(client.artifacts.stream("t", f"{OUTPUTS}/large"))
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not any(str(each.readlink()).endswith("outputs/large") for each in links)


def test_files_are_saved_as_one_zip_file(client: DeerFlowClient, tmp_path: Path) -> None:
    size = client.artifacts.download_zip("t", tmp_path / "all.zip")
    content = (tmp_path / "all.zip").read_bytes()
    assert len(content) == size
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"outputs/plan.md": b"# Plan\r\n"}
    with pytest.raises(FileProblem, match="none"):
        client.artifacts.download_zip("t", tmp_path / "none.zip", [PLAN, f"{OUTPUTS}/none"])
    assert not (tmp_path / "none.zip").exists()


def test_an_edit_needs_the_current_hash(client: DeerFlowClient) -> None:
    content, _ = client.artifacts.get("t", PLAN)
    edited = client.artifacts.edit("t", PLAN, "# Plan B\n", hashlib.sha256(content).hexdigest())
    assert is_valid(Edited, edited)
    with pytest.raises(Conflict, match=edited["sha256"]):
        client.artifacts.edit("t", PLAN, "# Plan C\n", "0" * 64)
    with pytest.raises(Conflict):
        client.artifacts.edit("t", PLAN, "# Plan C\n")
    assert client.artifacts.get("t", PLAN)[0] == b"# Plan B\n"


def test_changes_of_a_run_have_the_shape_of_the_http_api(client: DeerFlowClient) -> None:
    changes = client.runs.get_changes("t")
    assert is_valid(RunChanges, changes)
    (change,) = changes["files"]
    assert (change["path"], change["status"], change["lines_added"]) == (PLAN, "added", 1)
    assert change["diff"].endswith("+# Plan\r\n")
    short = client.runs.get_changes("t", changes["run_id"], include_diff=False)
    assert short["files"][0]["diff"] is None
    client.chat("Again", thread_id="t")
    assert client.runs.get_changes("t")["files"] == []
    with pytest.raises(NotFound):
        client.runs.get_changes("none")
    with pytest.raises(NotFound):
        client.runs.get_changes("t", "none")
