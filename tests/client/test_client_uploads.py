"""Uploads, in the shape of the HTTP API."""

from pathlib import Path
from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, NotFound, TooLarge
from deerflow.gateway.routers.threads.uploads import UploadAnswer, UploadDeleted, Uploaded
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.client.support import is_valid
from tests.support import browse

SETTINGS = {"uploads": {"max_file_size": 10, "conversion": {"enabled": False}}}


@pytest.fixture
def client(tmp_path: Path) -> Any:
    with DeerFlowClient(SETTINGS, model=ScriptedModel.saying("One.")) as client:
        client.chat("Hello", thread_id="t")
        yield client


def write_file(folder: Path, name: str, content: bytes = b"content") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def test_a_failed_upload_raises_and_stores_nothing(client: DeerFlowClient, tmp_path: Path) -> None:
    good = write_file(tmp_path, "a.txt")
    with pytest.raises(NotFound, match="no thread 'none'"):
        client.uploads.create("none", [good])
    with pytest.raises(InvalidRequest, match="cannot read '.*missing.txt': no such file"):
        client.uploads.create("t", [good, tmp_path / "missing.txt"])
    with pytest.raises(InvalidRequest, match="no file received"):
        client.uploads.create("t", [])
    with pytest.raises(TooLarge, match="more than 10 bytes"):
        client.uploads.create("t", [write_file(tmp_path, "big.bin", bytes(11))])
    assert client.uploads.list("t") == {"files": [], "count": 0}
    with pytest.raises(NotFound, match="no upload 'a.txt'"):
        client.uploads.delete("t", "a.txt")


def test_uploads_have_the_shape_of_the_http_api(client: DeerFlowClient, tmp_path: Path) -> None:
    answer = client.uploads.create(
        "t", [str(write_file(tmp_path, "a.txt")), write_file(tmp_path, "big.bin", bytes(11))]
    )
    assert is_valid(UploadAnswer, answer) and answer["skipped_files"][0]["filename"] == "big.bin"
    assert is_valid(Uploaded, client.uploads.list("t"))
    assert client.uploads.list("t")["files"] == answer["files"]
    assert client.artifacts.get("t", answer["files"][0]["path"])[0] == b"content"
    assert is_valid(UploadDeleted, client.uploads.delete("t", "a.txt"))
    assert client.uploads.list("t")["count"] == 0


async def test_results_equal_the_http_responses(client: DeerFlowClient, tmp_path: Path) -> None:
    answer = await client.uploads.acreate("t", [write_file(tmp_path, "a.txt")])
    source = open_source(directory=tmp_path, environment={}, overrides=SETTINGS)
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        url = "/api/threads/t/uploads"
        assert (await http.get(f"{url}/list")).json() == await client.uploads.alist("t")
        sent = (await http.post(url, files=[("files", ("a.txt", b"content"))])).json()
        assert sent.keys() == answer.keys() and sent["files"][0].keys() == answer["files"][0].keys()
        assert (await http.delete(f"{url}/a_1.txt")).json() == {"success": True, "message": "deleted 'a_1.txt'"}
        assert (await client.uploads.adelete("t", "a.txt"))["success"]


def test_an_upload_over_the_disk_limit_of_the_thread_raises_and_stores_nothing(tmp_path: Path) -> None:
    settings = {"uploads": {"conversion": {"enabled": False}}, "sandbox": {"limits": {"disk_mb": 16}}}
    with DeerFlowClient(settings, model=ScriptedModel.saying("One.")) as client:
        client.chat("Hello", thread_id="t")
        client.uploads.create("t", [write_file(tmp_path, "a.bin", bytes(10 * 1024**2))])
        with pytest.raises(TooLarge, match="may take 16 MB and take 10.0 MB already; .* raise sandbox.limits.disk_mb"):
            client.uploads.create("t", [write_file(tmp_path, "b.bin", bytes(10 * 1024**2))])
        assert [file["filename"] for file in client.uploads.list("t")["files"]] == ["a.bin"]
