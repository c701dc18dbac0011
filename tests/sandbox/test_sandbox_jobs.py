"""Sandbox jobs: scripts of the server in a thread's sandbox."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deerflow.config.sections.sandbox import SandboxConfig, ToolboxConfig
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobResult, SandboxJobs, SandboxJobUnavailable
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext
from tests.sandbox.processes import find_survivors, make_marker
from tests.sandbox.support import UnisolatedProvider

LIMIT_S = 30.0


@asynccontextmanager
async def open_jobs(
    home: Path, provider_class: type[LocalSandboxProvider] = LocalSandboxProvider, **settings: object
) -> AsyncIterator[SandboxJobs]:
    config = SandboxConfig.model_validate({"toolbox": ToolboxConfig(enabled=False), **settings})
    provider = provider_class(config, HostContext(home, home / "cache"))
    try:
        yield SandboxJobs(provider, await provider.open())
    finally:
        await provider.aclose()


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[SandboxJobs]:
    async with open_jobs(tmp_path) as opened:
        yield opened


async def run_job(jobs: SandboxJobs, script: str, *arguments: str, **limits: object) -> SandboxJobResult:
    async with asyncio.timeout(LIMIT_S):
        return await jobs.run("t", "local", SandboxJob(script, **limits), arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("allowed", [False, True])
async def test_refuses_jobs_without_isolation_even_with_host_bash(tmp_path: Path, allowed: bool) -> None:
    async with open_jobs(tmp_path, UnisolatedProvider, allow_host_bash=allowed) as jobs:
        with pytest.raises(SandboxJobUnavailable, match="bubblewrap was not found; .*install") as refused:
            await run_job(jobs, "print(1)")
    assert refused.value.kind == "not isolated"


async def test_reports_missing_packages_with_a_remedy(jobs: SandboxJobs) -> None:
    with pytest.raises(
        SandboxJobUnavailable, match="toolbox of the sandbox is off; set sandbox.toolbox.enabled to true"
    ) as refused:
        await run_job(jobs, "print(1)", packages=("no_such_package",))
    assert refused.value.kind == "no toolbox"


@pytest.mark.slow
async def test_kills_a_job_with_its_children_after_the_timeout(jobs: SandboxJobs) -> None:
    mark = make_marker()
    script = f"import subprocess; print('begun', flush=True); subprocess.run(['sleep', '{mark}'])"
    result = await run_job(jobs, script, seconds=4.0)
    assert (result.timed_out, result.output, result.out_of_memory) == (True, "begun\n", False)
    assert await find_survivors(mark) == []


async def test_reports_a_job_that_runs_out_of_memory(jobs: SandboxJobs) -> None:
    result = await run_job(jobs, "held = [bytearray(1024 * 1024) for _ in range(1000)]", memory_mb=64)
    assert result.out_of_memory
    assert result.exit_code != 0


async def test_limits_the_size_of_files(jobs: SandboxJobs) -> None:
    result = await run_job(jobs, "open('/tmp/large', 'wb').write(bytes(3 * 1024 * 1024))", file_mb=1)
    assert (result.exit_code, result.output.strip()) == (1, "OSError: [Errno 27] File too large")


async def test_truncates_output_at_the_limit(jobs: SandboxJobs) -> None:
    result = await run_job(jobs, "print('x' * 300_000)", output_chars=100_000)
    assert (len(result.output), result.truncated, result.exit_code) == (100_000, True, 0)
    assert not (await run_job(jobs, "print('x' * 1000)", output_chars=1001)).truncated


async def test_prints_an_exception_and_discards_stderr(jobs: SandboxJobs) -> None:
    script = "import sys; print('noise', file=sys.stderr); print('one'); raise ValueError('two')"
    result = await run_job(jobs, script)
    assert (result.exit_code, result.output) == (1, "one\n\nValueError: two")


async def test_passes_arguments_unchanged(jobs: SandboxJobs) -> None:
    odd = ["a b", "$HOME", "'; exit 3; '", '"', "ünï\u202ecode", "--flag", ""]
    result = await run_job(jobs, f"import sys; print(sys.argv[1:] == {odd!r})", *odd)
    assert (result.exit_code, result.output) == (0, "True\n")


async def test_does_not_import_modules_of_the_agent(jobs: SandboxJobs, tmp_path: Path) -> None:
    await run_job(jobs, "open('/mnt/user-data/workspace/csv.py', 'w').write('print(\"mine\")')")
    assert (await run_job(jobs, "import csv; print('theirs')")).output == "theirs\n"


async def test_runs_jobs_with_low_priority(jobs: SandboxJobs) -> None:
    script = "import os, pathlib; file = pathlib.Path('/proc/self/autogroup')"
    result = await run_job(jobs, f"{script}; print(os.nice(0), file.read_text().split()[-1] if file.exists() else 5)")
    assert result.output == "5 5\n"


async def test_queues_jobs_beyond_the_concurrency_limit(tmp_path: Path) -> None:
    async with open_jobs(tmp_path) as jobs:
        started = await asyncio.gather(*(run_job(jobs, f"print({number})") for number in range(5)))
    assert [each.output for each in started] == [f"{number}\n" for number in range(5)]
