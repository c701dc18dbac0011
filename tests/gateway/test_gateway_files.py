"""The folders of a thread over HTTP, and pages an agent made, shown where they can do nothing."""

from html import escape
from pathlib import Path
from urllib.parse import quote

import pytest

from deerflow.client import DeerFlowClient
from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.gateway.routers.files import FolderListing
from deerflow.harness import Harness
from deerflow.sandbox.files import list_folder
from deerflow.sandbox.places import find_spot, user_data_places
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

USER_DATA = "/mnt/user-data"
OUTPUTS = f"{USER_DATA}/outputs"


async def put(harness: Harness, name: str, content: bytes, who: Principal = LOCAL_USER) -> None:
    thread = await harness.threads.create(who, "t1", {}, may_exist=True)
    await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)


async def test_a_thread_has_three_folders_and_each_is_listed_folders_first(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put(harness, "b.txt", b"12345")
        await put(harness, "中 文/a.md", b"1")
        await put(harness, "node_modules/x.js", b"1")
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
async def test_what_is_not_a_folder_of_the_thread_is_not_found(harness_saying: OpenHarness, path: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put(harness, "b.txt", b"1")
        response = await http.get("/api/threads/t1/files", params={"path": path})
        assert response.status_code == 404 and response.json()["error"] in ("FileProblem", "NoSuchFile")


async def test_links_are_left_out_and_lead_nowhere(harness_saying: OpenHarness, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put(harness, "b.txt", b"1")
        put_link_beside("b.txt", tmp_path)
        listed = (await http.get("/api/threads/t1/files", params={"path": OUTPUTS})).json()
        assert [each["name"] for each in listed["entries"]] == ["b.txt"]
        assert (await http.get("/api/threads/t1/files", params={"path": f"{OUTPUTS}/out"})).status_code == 404


def put_link_beside(name: str, home: Path) -> None:
    (file,) = home.rglob(name)
    (file.parent / "out").symlink_to(home / "elsewhere")


async def test_nobody_looks_into_the_folders_of_somebody_else(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put(harness, "a.html", b"<p>", Principal("somebody"))
        for address in ("files", f"files?path={OUTPUTS}", f"previews{OUTPUTS}/a.html"):
            foreign = await http.get(f"/api/threads/t1/{address}")
            assert foreign.status_code == 404 and foreign.json()["error"] == "NotFound"


def test_a_folder_with_very_many_files_is_cut(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    for number in range(5):
        (outputs / f"{number}.txt").touch()
    listed = list_folder(find_spot(user_data_places(tmp_path), OUTPUTS), 3)
    assert [each.path for each in listed.entries] == [f"{OUTPUTS}/{number}.txt" for number in range(3)]
    assert listed.is_truncated


async def test_a_page_runs_without_an_origin_and_reaches_nothing(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put(harness, "a b.HTML", b"<script>1</script>")
        shown = await http.get(f"/api/threads/t1/previews{quote(f'{OUTPUTS}/a b.HTML')}")
        assert escape("<script>1</script>") in shown.text and b"<script>1" not in shown.content
        assert shown.headers["content-type"].startswith("text/html")
        policy = shown.headers["content-security-policy"].split("; ")
        assert {"sandbox allow-scripts", "default-src 'none'", "frame-src 'none'", "frame-ancestors 'self'"} <= set(
            policy
        )
        assert not any("http" in part or "'self'" in part for part in policy if not part.startswith("frame-ancestors"))


@pytest.mark.parametrize("name", ["a.txt", "a.js", "missing.html"])
async def test_only_pages_that_are_there_have_a_preview(harness_saying: OpenHarness, name: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        await put(harness, "a.txt", b"1")
        assert (await http.get(f"/api/threads/t1/previews{OUTPUTS}/{name}")).status_code == 404


async def test_a_server_says_what_it_offers(harness_saying: OpenHarness) -> None:
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
