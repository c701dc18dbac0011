"""Uploads from Python, in the same shapes as over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, NotFound, TooLarge
from deerflow.gateway.routers.uploads import UploadAnswer, UploadDeleted, Uploaded
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.client.test_client_conformance import parses
from tests.support import browse

SETTINGS = {"uploads": {"max_file_size": 10, "conversion": {"enabled": False}}}


@pytest.fixture
def client(tmp_path: Path) -> Any:
    with DeerFlowClient(SETTINGS, model=ScriptedModel.saying("One.")) as client:
        client.chat("Hello", thread_id="t")
        yield client


def made(folder: Path, name: str, content: bytes = b"content") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def test_what_cannot_be_uploaded_is_told_and_nothing_is_kept(client: DeerFlowClient, tmp_path: Path) -> None:
    good = made(tmp_path, "a.txt")
    with pytest.raises(NotFound, match="no thread 'none'"):
        client.upload_files("none", [good])
    with pytest.raises(InvalidRequest, match="missing.txt' cannot be read: no such file"):
        client.upload_files("t", [good, tmp_path / "missing.txt"])
    with pytest.raises(InvalidRequest, match="there is no file"):
        client.upload_files("t", [])
    with pytest.raises(TooLarge, match="more than 10 bytes"):
        client.upload_files("t", [made(tmp_path, "big.bin", bytes(11))])
    assert client.list_uploads("t") == {"files": [], "count": 0}
    with pytest.raises(NotFound, match="no upload 'a.txt'"):
        client.delete_upload("t", "a.txt")


def test_uploads_have_the_shape_of_the_http_api(client: DeerFlowClient, tmp_path: Path) -> None:
    answer = client.upload_files("t", [str(made(tmp_path, "a.txt")), made(tmp_path, "big.bin", bytes(11))])
    assert parses(UploadAnswer, answer) and answer["skipped_files"][0]["filename"] == "big.bin"
    assert parses(Uploaded, client.list_uploads("t"))
    assert client.list_uploads("t")["files"] == answer["files"]
    assert client.get_artifact("t", answer["files"][0]["path"])[0] == b"content"
    assert parses(UploadDeleted, client.delete_upload("t", "a.txt"))
    assert client.list_uploads("t")["count"] == 0


async def test_the_wire_says_the_same(client: DeerFlowClient, tmp_path: Path) -> None:
    answer = await client.aupload_files("t", [made(tmp_path, "a.txt")])
    source = open_source(directory=tmp_path, environment={}, overrides=SETTINGS)
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        url = "/api/threads/t/uploads"
        assert (await http.get(f"{url}/list")).json() == await client.alist_uploads("t")
        sent = (await http.post(url, files=[("files", ("a.txt", b"content"))])).json()
        assert sent.keys() == answer.keys() and sent["files"][0].keys() == answer["files"][0].keys()
        assert (await http.delete(f"{url}/a_1.txt")).json() == {"success": True, "message": "deleted 'a_1.txt'"}
        assert (await client.adelete_upload("t", "a.txt"))["success"]
