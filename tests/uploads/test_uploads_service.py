"""Uploads in runs: conversions, retries and file lists."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.testing import ScriptedModel, calling
from tests.uploads.support import upload_file

PAGE = b"<h1>Deer &lt;/system&gt;</h1><p>They live in the forest.</p><h2>Food</h2><p>Leaves.</p>"
PATH = "/mnt/user-data/uploads/page.html"
AS_MARKDOWN = "as Markdown: /mnt/user-data/uploads/page.md (7 lines)"


@asynccontextmanager
async def open_test_harness(
    home: Path, model: ScriptedModel, environment: Mapping[str, str], **conversion: object
) -> AsyncIterator[Harness]:
    source = open_source(directory=home, environment=environment, overrides={"uploads": {"conversion": conversion}})
    async with open_harness(source, model) as harness:
        if environment:
            await harness.core.sandboxes.prepare()
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=True)
        yield harness


async def upload(harness: Harness) -> str:
    """Upload the page and return its conversion state."""
    thread = await harness.threads.get("t", LOCAL_USER)
    return (await upload_file(harness, thread, "page.html", PAGE)).conversion


async def ask(harness: Harness, text: str, *files: Mapping[str, object]) -> None:
    """Send a message and wait for the end of its run."""
    message = {"type": "human", "content": text, "additional_kwargs": {"files": list(files)}}
    async with asyncio.timeout(60):
        run = await harness.runs.create_or_reject(RunRequest("t", [message]), LOCAL_USER)
        assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).error is None


def read_requests(model: ScriptedModel) -> list[list[str]]:
    """Return the visible messages of each request to the model."""
    return [
        [message.text for message in request.messages if not message.additional_kwargs.get("hide_from_ui")]
        for request in model.requests
    ]


async def test_run_waits_for_conversions_and_shows_markdown_paths(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    model = ScriptedModel.saying("One.", calling("list_uploaded_files", include_outline=["page.html"]), "Two.")
    async with open_test_harness(tmp_path, model, toolbox_environment, answer_seconds=0.0) as harness:
        assert await upload(harness) == "converting"
        await ask(harness, "What do they eat?", {"filename": "page.html", "size": len(PAGE)})
        await harness.core.uploads.delete(LOCAL_USER.user_id, "t", "page.html")
        await upload(harness)
        await ask(harness, "And now?")
    first, second, third = read_requests(model)
    shown = next(text for text in first if "What do they eat?" in text)
    lines = shown.splitlines()
    assert AS_MARKDOWN in shown and "line 1: Deer &lt;/system&gt;" in shown and "line 5: Food" in shown
    assert lines[-1] == "What do they eat?" and shown.count("</uploaded_files>") == 1
    assert second[: len(first)] == first, "a message looks the same whatever happens to its files later"
    assert AS_MARKDOWN in third[-1] or "is being converted" in third[-1]


async def test_shows_running_conversions(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> None:
    model = ScriptedModel.saying("One.")
    async with open_test_harness(tmp_path, model, toolbox_environment, answer_seconds=0.0, run_seconds=0.0) as harness:
        assert await upload(harness) == "converting"
        await ask(harness, "Go", {"path": PATH})
    assert any("no Markdown of it: it is being converted to Markdown" in text for text in read_requests(model)[0])


async def test_interrupted_conversion_is_retried(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> None:
    async with open_test_harness(tmp_path, ScriptedModel.saying(), toolbox_environment, answer_seconds=0.0) as harness:
        assert await upload(harness) == "converting"
    model = ScriptedModel.saying("One.")
    async with open_test_harness(tmp_path, model, toolbox_environment) as harness:
        (file,) = await harness.core.uploads.list(LOCAL_USER.user_id, "t")
        assert (file.conversion, file.note) == ("pending", "it has not been converted to Markdown yet")
        await ask(harness, "Go", {"path": PATH})
    assert any(AS_MARKDOWN in text for text in read_requests(model)[0])


async def test_deleting_during_conversion_leaves_no_files(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    async with open_test_harness(tmp_path, ScriptedModel.saying(), toolbox_environment, answer_seconds=0.0) as harness:
        for _ in range(2):
            assert await upload(harness) == "converting"
        await harness.core.uploads.delete(LOCAL_USER.user_id, "t", "page.html")
        settled = await harness.core.uploads.wait_for_conversions(LOCAL_USER.user_id, "t", ["page_1.html"])
        assert settled["page_1.html"].markdown_file == "page_1.md"
        folder = user_data_folder(harness.core.source.current.home, LOCAL_USER.user_id, "t")
        assert sorted(file.name for file in (folder / "uploads").iterdir()) == ["page_1.html", "page_1.md"]
        assert await upload(harness) == "converting"
        await harness.threads.delete("t", LOCAL_USER)
    assert not folder.parent.exists()


async def test_missing_toolbox_is_reported_and_the_file_stays_readable(tmp_path: Path) -> None:
    model = ScriptedModel.saying(calling("read_file", description="look", path=PATH), "One.")
    async with open_test_harness(tmp_path, model, {}) as harness:
        assert await upload(harness) == "pending"
        await ask(harness, "Go", {"path": PATH}, {"filename": "never-came.pdf"})
    shown = next(text for text in read_requests(model)[0] if text.endswith("Go"))
    assert "no Markdown of it: not converted: the Python toolbox of the sandbox has not been built yet; " in shown
    assert str(tmp_path) not in shown
    assert "never-came.pdf\n  no Markdown of it: it is no longer there" in shown
    assert "They live in the forest." in read_requests(model)[1][-1]


@pytest.mark.parametrize("allowed", [False, True])
async def test_does_not_convert_without_isolation(tmp_path: Path, allowed: bool) -> None:
    sandbox = {"use": "tests.sandbox.support:UnisolatedProvider", "allow_host_bash": allowed}
    source = open_source(directory=tmp_path, environment={}, overrides={"sandbox": sandbox})
    async with open_harness(source, ScriptedModel.saying()) as harness:
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=True)
        assert await upload(harness) == "pending"
        (file,) = await harness.core.uploads.list(LOCAL_USER.user_id, "t")
        assert "not converted: bubblewrap was not found; " in (file.note or "")
