"""Files of threads: their content and media type."""

from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.domain.errors import FileProblem, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel

FILES = {
    "chart.png": (b"\x89PNG\r\n\x1a\n", "image/png"),
    "named-wrongly.pdf": (b"GIF89a", "image/gif"),
    "folder/page.html": (b"<p>", "text/html"),
    "nameless": (b"\x00\xff", "application/octet-stream"),
}


async def test_returns_a_file_with_its_media_type(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with DeerFlowClient(model=ScriptedModel.saying()) as client, open_harness(source) as harness:
        files = harness.files_of(await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False))
        for name, (content, mime) in FILES.items():
            await files.write(f"/mnt/user-data/outputs/{name}", content)
            assert await client.artifacts.aget("t", f"/mnt/user-data/outputs/{name}") == (content, mime)
            assert await client.artifacts.aget("t", f"mnt/user-data/outputs/{name}") == (content, mime)


async def test_refuses_paths_outside_the_thread_and_threads_of_other_users(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with DeerFlowClient(model=ScriptedModel.saying()) as client, open_harness(source) as harness:
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        foreign = await harness.threads.create(Principal("somebody"), "theirs", {}, may_exist=False)
        await harness.files_of(foreign).write("/mnt/user-data/outputs/a", b"secret")
        for path in ("/mnt/user-data/outputs/none", "/etc/passwd", "/mnt/user-data/outputs/../../x", ""):
            with pytest.raises(FileProblem):
                await client.artifacts.aget("t", path)
        with pytest.raises(NotFound):
            await client.artifacts.aget("theirs", "/mnt/user-data/outputs/a")
