"""Files of a thread, from Python."""

from pathlib import Path

import pytest

from deerflow.client import DeerFlowClient
from deerflow.config.source import open_source
from deerflow.domain.errors import FileProblem, NotFound
from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel

FILES = {
    "chart.png": (b"\x89PNG\r\n\x1a\n", "image/png"),
    "named-wrongly.pdf": (b"GIF89a", "image/gif"),
    "folder/page.html": (b"<p>", "text/html"),
    "nameless": (b"\x00\xff", "application/octet-stream"),
}


async def test_a_file_is_had_as_it_is_with_its_type(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with DeerFlowClient(model=ScriptedModel.saying()) as client, open_harness(source) as harness:
        files = harness.files_of(await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False))
        for name, (content, mime) in FILES.items():
            await files.write(f"/mnt/user-data/outputs/{name}", content)
            assert await client.aget_artifact("t", f"/mnt/user-data/outputs/{name}") == (content, mime)
            assert await client.aget_artifact("t", f"mnt/user-data/outputs/{name}") == (content, mime)


async def test_what_is_not_a_file_of_ones_own_thread_cannot_be_had(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    async with DeerFlowClient(model=ScriptedModel.saying()) as client, open_harness(source) as harness:
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        foreign = await harness.threads.create(Principal("somebody"), "theirs", {}, may_exist=False)
        await harness.files_of(foreign).write("/mnt/user-data/outputs/a", b"secret")
        for path in ("/mnt/user-data/outputs/none", "/etc/passwd", "/mnt/user-data/outputs/../../x", ""):
            with pytest.raises(FileProblem):
                await client.aget_artifact("t", path)
        with pytest.raises(NotFound):
            await client.aget_artifact("theirs", "/mnt/user-data/outputs/a")
