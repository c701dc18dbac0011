"""Uploads of a thread with a container sandbox."""

import asyncio
import hashlib
from datetime import UTC, datetime
from pathlib import Path

from deerflow.config.sections.base import Settings
from deerflow.config.sections.storage import ConversionConfig, UploadsConfig
from deerflow.domain.threads import ThreadRecord
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobs
from deerflow.sandbox.local.usage import DiskQuota
from deerflow.sandbox.sandbox_provider import SandboxReport
from deerflow.uploads.uploads import UploadService
from tests.community.support import ContainerEngine, make_host, running_provider
from tests.conformance.command_suite import run_command
from tests.conformance.sandbox_suite import acquire

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THREAD = ThreadRecord("t1", "local", None, {}, "idle", NOW, NOW)
CONTENT = b"<h1>Deer</h1>" + bytes(range(256)) * 1000


async def test_container_sees_uploads_and_reports_missing_converters(engine: ContainerEngine, tmp_path: Path) -> None:
    settings = UploadsConfig(conversion=ConversionConfig(answer_seconds=60))
    async with asyncio.timeout(100), running_provider(engine, tmp_path) as provider:
        jobs = SandboxJobs(provider, SandboxReport("container", engine.image))
        home = make_host(tmp_path).home
        uploads = UploadService(home, Settings(lambda: settings), jobs, DiskQuota(home, 2**30))
        async with uploads.receive(THREAD) as reception:
            await reception.begin("page.html")
            await reception.write(CONTENT)
            await reception.end()
            (file,) = (await uploads.complete(THREAD, reception)).files
        assert file.conversion == "pending"
        assert file.note == "not converted: the container image lacks markitdown, pypdfium2; build one that has it"

        sandbox = await acquire(provider, "t1")
        seen = await run_command(sandbox, f"sha256sum < {file.path}; ls -A /mnt/user-data/uploads")
        assert seen.split() == [hashlib.sha256(CONTENT).hexdigest(), "-", "page.html"]
        result = await jobs.run(
            "t1", "local", SandboxJob("print(open('/mnt/user-data/uploads/page.html', 'rb').read(4))")
        )
        assert (result.exit_code, result.output) == (0, "b'<h1>'\n")
        await provider.release(sandbox.id)
