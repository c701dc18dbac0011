"""Previews of Office files and archives, made inside the sandbox."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import DamagedFile, OversizedFile, PreviewUnavailable
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import ResolvedPath, resolve_path
from deerflow.sandbox.jobs.jobs import SandboxJobResult
from deerflow.sandbox.previews.previews import explain_failure, unpack
from deerflow.testing import ScriptedModel
from tests.gateway.support import OUTPUTS, find_files, put_file
from tests.office_files import ARABIC, CHINESE, HOSTILE_FILES, OFFICE_FILES, zip_of
from tests.sandbox.support import open_sandbox_harness
from tests.support import browse

pytestmark = pytest.mark.timeout(600)  # the toolbox is built by the first test session of a machine


@pytest.fixture
async def harness(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> AsyncIterator[Harness]:
    source = open_source(directory=tmp_path, environment=toolbox_environment)
    async with open_harness(source, ScriptedModel.saying()) as harness:
        yield harness


async def get_preview(harness: Harness, name: str, content: bytes) -> dict[str, object]:
    """Store a file, and return the body and the status of the request for its preview."""
    url = (await put_file(harness, name, content)).replace("/artifacts/", "/file-previews/")
    async with browse(harness) as http, asyncio.timeout(120):
        http.timeout = 120
        answer = await http.get(url)
        return {"status": answer.status_code, **answer.json()}


async def test_office_files_have_previews(harness: Harness, tmp_path: Path) -> None:
    assert len(OFFICE_FILES) == 42
    previews = {name: await get_preview(harness, name, build()) for name, build in OFFICE_FILES.items()}
    assert {name: each for name, each in previews.items() if each["status"] != 200} == {}
    slides = [slide for each in previews.values() if each["kind"] == "slides" for slide in each["slides"]]
    assert len(slides) > 60
    for slide in slides:
        assert ElementTree.fromstring(slide["svg"]).tag == "{http://www.w3.org/2000/svg}svg"
    check_slides(previews)
    check_documents(previews)
    check_workbooks(previews)
    assert len(find_files(tmp_path, "previews/*")) == len(OFFICE_FILES)


def check_slides(previews: Mapping[str, dict[str, object]]) -> None:
    (bullets,) = previews["bullets.pptx"]["slides"]
    assert bullets["title"] == "Levels" and bullets["notes"] == "Say this slowly." and "level 4" in bullets["svg"]
    (scripts,) = previews["scripts.pptx"]["slides"]
    assert scripts["title"] == CHINESE and ARABIC in scripts["svg"] and 'dir="rtl"' in scripts["svg"]
    (looks,) = previews["looks.pptx"]["slides"]
    assert "#103050" in looks["svg"] and "Styled &amp; &lt;escaped&gt;" in looks["svg"]
    assert "linearGradient" in looks["svg"] and "text-align:center" in looks["svg"]
    assert previews["pictures.pptx"]["slides"][0]["svg"].count("data:image/webp;base64,") == 1
    assert "North" in previews["chart-pie.pptx"]["slides"][0]["svg"]
    assert (previews["empty.pptx"]["total"], previews["twenty.pptx"]["total"]) == (0, 20)


def check_documents(previews: Mapping[str, dict[str, object]]) -> None:
    styles = previews["styles.docx"]["blocks"]
    assert [each["level"] for each in styles if each["type"] == "heading"] == [1, 1, 2, 3, 4, 5, 6]
    lists = [(each["level"], each["is_numbered"]) for each in previews["lists.docx"]["blocks"]]
    assert lists[0] == (0, False) and lists[-1][1] is True
    assert "Offer for Heron & Sons" in json.dumps(previews["skill-filled.docx"]["blocks"])
    (table,) = previews["tables.docx"]["blocks"]
    assert table["rows"][0][0]["column_span"] == 2 and table["rows"][1][2]["row_span"] == 3
    runs = [run for block in previews["pictures.docx"]["blocks"] for run in block["runs"]]
    assert any((run["image"] or "").startswith("data:image/webp") for run in runs)
    links = [run["href"] for block in previews["links.docx"]["blocks"] for run in block["runs"]]
    assert [link for link in links if link] == ["https://example.com/a"]
    assert previews["scripts.docx"]["blocks"][1]["is_rtl"] is True
    assert previews["long.docx"]["is_truncated"] is True and len(previews["long.docx"]["blocks"]) == 3000


def check_workbooks(previews: Mapping[str, dict[str, object]]) -> None:
    (numbers,) = previews["numbers.xlsx"]["sheets"]
    assert numbers["rows"][2] == ["item 1", "1,234.50", "3.3%", "2026-01-02", "2026-01-02 12:30", "€1.00", "FALSE"]
    assert previews["formulas.xlsx"]["sheets"][0]["rows"] == [["1", "2", "=A1+B1", "=SUM(A1:C1)"]]
    assert previews["merged.xlsx"]["sheets"][0]["rows"][8][5] == CHINESE
    (large,) = previews["large.xlsx"]["sheets"]
    assert (len(large["rows"]), large["total_rows"], large["total_columns"]) == (2000, 6000, 3)
    (wide,) = previews["wide.xlsx"]["sheets"]
    assert (len(wide["rows"][0]), wide["total_columns"]) == (100, 300)
    assert [each["name"] for each in previews["sheets.xlsx"]["sheets"] if each["is_hidden"]] == ["Sheet of 2"]


async def test_hostile_files_are_refused_with_a_name(harness: Harness) -> None:
    for name, (build, error) in HOSTILE_FILES.items():
        answer = await get_preview(harness, name, build())
        assert (answer["status"], answer["error"]) == (422, error), (name, answer)
        assert f"{OUTPUTS}/{name}" in str(answer["detail"])


async def test_lists_the_files_of_an_archive(harness: Harness) -> None:
    answer = await get_preview(harness, "bundle.zip", zip_of({"a/b.txt": b"x" * 1000, "文件.md": b""}))
    assert (answer["total"], answer["size"]) == (2, 1000)
    assert [entry["name"] for entry in answer["entries"]] == ["a/b.txt", "文件.md"]
    assert answer["entries"][0]["packed"] < 1000
    many = await get_preview(harness, "many.zip", zip_of({f"{number}.txt": b"" for number in range(5000)}))
    assert (many["total"], len(many["entries"])) == (5000, 2000)


async def test_makes_a_preview_once_for_each_content(harness: Harness, tmp_path: Path) -> None:
    url = (await put_file(harness, "a.zip", zip_of({"one": b""}))).replace("/artifacts/", "/file-previews/")
    async with browse(harness) as http, asyncio.timeout(60):
        http.timeout = 60
        first, second = await asyncio.gather(http.get(url), http.get(url))
        assert first.content == second.content and "sandbox" in first.headers["content-security-policy"]
        (kept,) = find_files(tmp_path, "previews/*")
        changed = json.loads(kept.read_bytes())
        changed["preview"]["total"] = 77
        kept.write_text(json.dumps(changed))
        assert (await http.get(url)).json()["total"] == 77
        assert (await http.get(url, headers={"If-None-Match": first.headers["etag"]})).status_code == 304
        await put_file(harness, "a.zip", zip_of({"two": b"", "three": b""}))
        assert (await http.get(url)).json()["total"] == 2
        await http.delete("/api/threads/t1")
        assert find_files(tmp_path, "previews") == []


async def test_refuses_other_types_and_missing_files(tmp_path: Path) -> None:
    async with open_sandbox_harness(
        tmp_path, ScriptedModel.saying(), sandbox={"toolbox": {"enabled": False}}
    ) as harness:
        assert (await get_preview(harness, "a.txt", b"text"))["error"] == "PreviewUnavailable"
        async with browse(harness) as http:
            for path in (f"t1/file-previews{OUTPUTS}/none.zip", f"none/file-previews{OUTPUTS}/a.zip"):
                assert (await http.get(f"/api/threads/{path}")).status_code == 404


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"{}",
        b'{"preview": {"kind": "slides"}}',
        b'{"preview": {"kind": "other"}}',
        b'{"preview": {"kind": "slides", "width": 1, "height": 1, "total": 1, "slides": [{"title": "", "text": "",'
        b' "notes": "", "is_hidden": false, "svg": "<script>"}]}}',
        b'{"preview": {"kind": "document", "is_truncated": false, "blocks": [{"type": "paragraph", "runs": [{"text":'
        b' "", "href": "javascript:alert(1)"}]}]}}',
        b'{"preview": {"kind": "document", "is_truncated": false, "blocks": [{"type": "paragraph", "runs": [{"text":'
        b' "", "image": "https://example.com/a.png"}]}]}}',
    ],
)
def test_validates_the_output_of_the_sandbox(output: bytes, resolved: ResolvedPath) -> None:
    with pytest.raises(DamagedFile):
        unpack(output, "tag", resolved)


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedPath:
    return resolve_path(thread_files(tmp_path).mounts, f"{OUTPUTS}/a.pptx")


@pytest.mark.parametrize(
    ("result", "error", "why"),
    [
        (SandboxJobResult(137, "", timed_out=True), OversizedFile, "longer than"),
        (SandboxJobResult(98, "", out_of_memory=True), OversizedFile, "memory"),
        (SandboxJobResult(0, "{", truncated=True), OversizedFile, "larger than"),
        (SandboxJobResult(1, "\nKeyError: 1"), DamagedFile, "cannot be read"),
    ],
)
def test_explains_why_a_script_did_not_finish(
    result: SandboxJobResult, error: type[PreviewUnavailable], why: str, resolved: ResolvedPath
) -> None:
    problem = explain_failure(result, resolved)
    assert type(problem) is error and why in str(problem)
