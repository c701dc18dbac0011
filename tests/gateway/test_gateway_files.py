"""Folders of a thread and previews of web pages over HTTP."""

from html import escape
from pathlib import Path
from urllib.parse import quote

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.gateway.routers.threads.files import FolderListing
from deerflow.harness import Harness
from deerflow.sandbox.files.files import list_folder
from deerflow.sandbox.files.mounts import resolve_path, user_data_mounts
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

USER_DATA = "/mnt/user-data"
OUTPUTS = f"{USER_DATA}/outputs"


async def put_file(harness: Harness, name: str, content: bytes, who: Principal = LOCAL_USER) -> None:
    thread = await harness.threads.create(who, "t1", {}, may_exist=True)
    await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)


async def test_folders_are_listed_folders_first(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "b.txt", b"12345")
        await put_file(harness, "中 文/a.md", b"1")
        await put_file(harness, "node_modules/x.js", b"1")
        top = (await http.get("/api/threads/t1/files")).json()
        assert [(each["name"], each["kind"]) for each in top["entries"]] == [
            ("workspace", "folder"),
            ("uploads", "folder"),
            ("outputs", "folder"),
        ]
        listed = (await http.get("/api/threads/t1/files", params={"path": OUTPUTS})).json()
        assert [(each["name"], each["kind"], each["size"]) for each in listed["entries"]] == [
            ("中 文", "folder", 0),
            ("b.txt", "file", 5),
        ]
        inner = (await http.get("/api/threads/t1/files", params={"path": f"{OUTPUTS}/中 文"})).json()
        assert [each["path"] for each in inner["entries"]] == [f"{OUTPUTS}/中 文/a.md"]
        assert not listed["is_truncated"]


@pytest.mark.parametrize(
    "path", [f"{OUTPUTS}/missing", f"{OUTPUTS}/b.txt", "/etc", f"{OUTPUTS}/../../..", f"{OUTPUTS}/\0", ""]
)
async def test_paths_that_are_not_folders_of_the_thread_are_not_found(harness_saying: OpenHarness, path: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "b.txt", b"1")
        response = await http.get("/api/threads/t1/files", params={"path": path})
        assert response.status_code == 404 and response.json()["error"] in ("FileProblem", "NoSuchFile")


async def test_links_are_omitted_and_not_followed(harness_saying: OpenHarness, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "b.txt", b"1")
        create_link_next_to("b.txt", tmp_path)
        listed = (await http.get("/api/threads/t1/files", params={"path": OUTPUTS})).json()
        assert [each["name"] for each in listed["entries"]] == ["b.txt"]
        assert (await http.get("/api/threads/t1/files", params={"path": f"{OUTPUTS}/out"})).status_code == 404


def create_link_next_to(name: str, home: Path) -> None:
    (file,) = home.rglob(name)
    (file.parent / "out").symlink_to(home / "elsewhere")


async def test_folders_of_other_users_are_not_found(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.html", b"<p>", Principal("somebody"))
        for address in ("files", f"files?path={OUTPUTS}", f"previews{OUTPUTS}/a.html"):
            foreign = await http.get(f"/api/threads/t1/{address}")
            assert foreign.status_code == 404 and foreign.json()["error"] == "NotFound"


def test_a_large_folder_is_truncated(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    for number in range(5):
        (outputs / f"{number}.txt").touch()
    listed = list_folder(resolve_path(user_data_mounts(tmp_path), OUTPUTS), 3)
    assert [each.path for each in listed.entries] == [f"{OUTPUTS}/{number}.txt" for number in range(3)]
    assert listed.is_truncated


async def test_a_preview_has_no_origin_and_no_network_access(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a b.HTML", b"<script>1</script>")
        shown = await http.get(f"/api/threads/t1/previews{quote(f'{OUTPUTS}/a b.HTML')}")
        assert escape("<script>1</script>") in shown.text and b"<script>1" not in shown.content
        assert shown.headers["content-type"].startswith("text/html")
        policy = shown.headers["content-security-policy"].split("; ")
        assert {"sandbox allow-scripts", "default-src 'none'", "frame-src 'none'", "frame-ancestors 'self'"} <= set(
            policy
        )
        assert not any("http" in part or "'self'" in part for part in policy if not part.startswith("frame-ancestors"))


@pytest.mark.parametrize("name", ["a.txt", "a.js", "missing.html"])
async def test_previews_exist_only_for_existing_web_pages(harness_saying: OpenHarness, name: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put_file(harness, "a.txt", b"1")
        assert (await http.get(f"/api/threads/t1/previews{OUTPUTS}/{name}")).status_code == 404


async def test_features_of_the_server_are_returned(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        offered = (await http.get("/api/features")).json()["enabled"]
        paths = (await http.get("/api/openapi.json")).json()["paths"]
        assert offered["search"] == ("/api/search" in paths)
        assert offered["token_usage"] == ("/api/threads/{thread_id}/token-usage" in paths)
        assert offered["artifact_editing"] == ("put" in paths["/api/threads/{thread_id}/artifacts/{path}"])


def test_the_client_lists_files_as_the_api_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        client.chat("1", thread_id="t1")
        listed = client.list_files("t1")
        assert FolderListing.model_validate(listed).model_dump(mode="json") == listed
        assert [each["name"] for each in listed["entries"]] == ["workspace", "uploads", "outputs"]
        assert client.list_files("t1", OUTPUTS)["entries"] == []
