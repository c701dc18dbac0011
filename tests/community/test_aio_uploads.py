"""Uploads of a thread whose sandbox is a container."""

import asyncio
import hashlib
from datetime import UTC, datetime
from pathlib import Path

from deerflow.config.uploads import ConversionConfig, UploadsConfig
from deerflow.domain.threads import ThreadRecord
from deerflow.sandbox.chores import Chore, Chores
from deerflow.sandbox.sandbox_provider import SandboxReport
from deerflow.uploads.uploads import Uploads
from tests.community.engine import ContainerEngine, places_in, running_provider
from tests.conformance.command_suite import output_of
from tests.conformance.sandbox_suite import acquire

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THREAD = ThreadRecord("t1", "local", None, {}, "idle", NOW, NOW)
CONTENT = b"<h1>Deer</h1>" + bytes(range(256)) * 1000


async def test_a_container_sees_uploads_and_says_what_it_lacks_to_convert_them(
    engine: ContainerEngine, tmp_path: Path
) -> None:
    settings = UploadsConfig(conversion=ConversionConfig(answer_seconds=60))
    async with asyncio.timeout(100), running_provider(engine, tmp_path) as provider:
        chores = Chores(provider, SandboxReport("container", engine.image))
        uploads = Uploads(places_in(tmp_path).home, lambda: settings, chores)
        async with uploads.receiving(THREAD) as reception:
            await reception.begin("page.html")
            await reception.write(CONTENT)
            await reception.end()
            (file,) = (await uploads.keep(THREAD, reception)).files
        assert file.conversion == "pending"
        assert file.note == "not converted: the container image lacks markitdown, pypdfium2; build one that has it"

        sandbox = await acquire(provider, "t1")
        seen = await output_of(sandbox, f"sha256sum < {file.path}; ls -A /mnt/user-data/uploads")
        assert seen.split() == [hashlib.sha256(CONTENT).hexdigest(), "-", "page.html"]
        told = await chores.run("t1", "local", Chore("print(open('/mnt/user-data/uploads/page.html', 'rb').read(4))"))
        assert (told.exit_code, told.output) == (0, "b'<h1>'\n")
        await provider.release(sandbox.id)
