"""Life cycle of containers: creation, discovery, idle time, removal."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from deerflow.community.aio_sandbox import AioSandboxProvider
from deerflow.community.aio_sandbox.backend import FileLeases
from deerflow.community.aio_sandbox.local_backend import find_engine, get_container_user, list_engine_sockets
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.files import WORKSPACE
from deerflow.sandbox.sandbox_provider import HostContext
from deerflow.skills.catalog import SkillViews
from deerflow.skills.index import SkillIndex
from tests.community.support import ContainerEngine, make_host, running_provider
from tests.conformance.command_suite import run_command, wait_until
from tests.conformance.sandbox_suite import acquire
from tests.skills.support import write_skill


@pytest.mark.parametrize(
    ("settings", "problem", "remedy"),
    [
        ({"engine_url": "unix:///nowhere/docker.sock"}, "does not answer", "is the engine running"),
        ({"engine_url": "tcp://127.0.0.1:2375"}, "neither Docker nor Podman", "unix:///"),
        ({"provisioner_url": "http://127.0.0.1:9"}, "does not answer", "provisioner_url"),
    ],
)
async def test_reports_a_missing_engine_with_a_remedy(
    tmp_path: Path, settings: dict[str, object], problem: str, remedy: str
) -> None:
    async with aclosing(AioSandboxProvider(SandboxConfig.model_validate(settings), make_host(tmp_path))) as provider:
        report = await provider.open()
        assert report.tier == "none" and not report.runs_commands
        assert problem in (report.problem or "") and remedy in (report.remedy or "")
        with pytest.raises(SandboxError, match=problem):
            await provider.acquire("t1", "local")
        await provider.discard("t1", "local")


async def test_refuses_to_acquire_before_open(tmp_path: Path) -> None:
    async with aclosing(AioSandboxProvider(SandboxConfig(), make_host(tmp_path))) as provider:
        with pytest.raises(SandboxError, match="not been opened"):
            await provider.acquire("t1", "local")


def test_uses_the_configured_socket_or_the_first_existing(tmp_path: Path) -> None:
    assert find_engine("unix:///some/podman.sock", []) == Path("/some/podman.sock")
    assert find_engine(None, [tmp_path / "none", tmp_path]) is None
    assert Path("/var/run/docker.sock") in list_engine_sockets()


def test_runs_as_root_in_rootless_containers() -> None:
    assert get_container_user(is_rootless=True) == "0:0"
    assert not get_container_user(is_rootless=False).startswith("0:")


async def test_reports_a_missing_image_with_the_build_command(engine: ContainerEngine, tmp_path: Path) -> None:
    for image, remedy in {"no-such:image": "docker build -t no-such:image", "example.org/a/b:1": "docker pull"}.items():
        async with aclosing(AioSandboxProvider(engine.config(image=image), make_host(tmp_path))) as provider:
            report = await provider.open()
            assert report.tier == "none" and image in (report.problem or "") and remedy in (report.remedy or "")


async def test_refuses_a_missing_mount(engine: ContainerEngine, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "table.csv").write_text("1,2\n")
    mounts = [{"host_path": str(data), "container_path": "/mnt/data", "read_only": True}]
    async with running_provider(engine, tmp_path, mounts=mounts) as provider:
        sandbox = await acquire(provider, "t1")
        assert await sandbox.read_file("/mnt/data/table.csv") == "1,2\n"
        assert (await sandbox.execute_command("touch /mnt/data/mine")).exit_code != 0
    gone = [{"host_path": str(tmp_path / "gone"), "container_path": "/mnt/data"}]
    async with running_provider(engine, tmp_path, mounts=gone) as provider:
        with pytest.raises(SandboxError, match="gone does not exist"):
            await provider.acquire("t1", "local")


async def test_passes_configured_variables(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path, environment={"TEAM": "deer herd"}) as provider:
        assert await run_command(await acquire(provider, "t1"), 'echo "$TEAM"') == "deer herd\n"


async def test_next_run_reuses_a_released_container(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path) as provider:
        sandbox = await acquire(provider, "t1")
        before = await list_containers(engine, provider)
        await provider.release(sandbox.id)
        assert await acquire(provider, "t1") is sandbox
        assert await list_containers(engine, provider) == before


async def test_replaces_a_dead_container_in_the_same_run_and_keeps_files(
    engine: ContainerEngine, tmp_path: Path
) -> None:
    async with running_provider(engine, tmp_path) as provider:
        sandbox = await acquire(provider, "t1")
        await sandbox.write_file(f"{WORKSPACE}/kept.txt", "kept")
        engine.podman("kill", *await list_containers(engine, provider))
        with pytest.raises(SandboxError, match="call the tool again"):
            await sandbox.execute_command("true")
        again = await provider.get(sandbox.id)
        assert again is not None and await again.read_file(f"{WORKSPACE}/kept.txt") == "kept"
        engine.podman("rm", "--force", "--time=0", *await list_containers(engine, provider))
        assert await run_command(await acquire(provider, "t1"), "cat kept.txt") == "kept"


async def test_another_process_finds_the_container_and_keeps_it_running(
    engine: ContainerEngine, tmp_path: Path
) -> None:
    async with running_provider(engine, tmp_path) as ours:
        first = await acquire(ours, "t1")
        await first.start_process("job", "sleep 1000")
        async with aclosing(AioSandboxProvider(ours.config, make_host(tmp_path))) as theirs:
            await theirs.open()
            found = await acquire(theirs, "t1")
            assert found.id == first.id and [each.name for each in await found.list_processes()] == ["job"]
        assert [each.exit_code for each in await first.list_processes()] == [None]


async def test_concurrent_processes_get_one_container(engine: ContainerEngine, tmp_path: Path) -> None:
    async with (
        running_provider(engine, tmp_path) as ours,
        aclosing(AioSandboxProvider(ours.config, make_host(tmp_path))) as theirs,
    ):
        await theirs.open()
        first, second = await asyncio.gather(acquire(ours, "t1"), acquire(theirs, "t1"))
        assert len(await list_containers(engine, ours)) == 1
        await first.write_file("/tmp/shared", "seen")
        assert await run_command(second, "cat /tmp/shared") == "seen"


async def test_replaces_a_container_with_other_settings(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path) as ours:
        sandbox = await acquire(ours, "t1")
        before = await list_containers(engine, ours)
        await ours.release(sandbox.id)
        changed = ours.config.model_copy(update={"environment": {"NEW": "setting"}})
        async with aclosing(AioSandboxProvider(changed, make_host(tmp_path))) as theirs:
            await theirs.open()
            assert await run_command(await acquire(theirs, "t1"), "echo $NEW") == "setting\n"
            assert await list_containers(engine, ours) != before


async def test_ignores_a_container_of_another_installation(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path / "one") as ours:
        await ours.acquire("t1", "local")
        async with aclosing(AioSandboxProvider(ours.config, make_host(tmp_path / "two"))) as others:
            await others.open()
            with pytest.raises(SandboxError, match="container_prefix"):
                await others.acquire("t1", "local")
        assert len(await list_containers(engine, ours)) == 1


async def test_removes_the_least_recently_used_idle_container(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path, replicas=2) as provider:
        busy, old, new = [await acquire(provider, name) for name in ("busy", "old", "new")]
        assert len(await list_containers(engine, provider)) == 3  # all in use: the limit gives way
        await busy.start_process("job", "sleep 1000")
        for sandbox in (busy, old, new):
            await provider.release(sandbox.id)
        await provider.acquire("newest", "local")
        assert [await provider.get(sandbox.id) is not None for sandbox in (busy, old, new)] == [True, False, False]


async def test_removes_idle_containers_only(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path, idle_timeout=0.3) as provider:
        used, idle = await acquire(provider, "used"), await acquire(provider, "idle")
        await provider.release(used.id)
        await provider.release(idle.id)
        await provider.acquire("used", "local")

        async def one_is_left() -> bool:
            return len(await list_containers(engine, provider)) == 1

        await wait_until(one_is_left)
        assert await provider.get(idle.id) is None and await provider.get(used.id) is used
        assert await run_command(used, "echo well") == "well\n"


async def test_removes_idle_containers_of_a_dead_server(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path) as dead:
        sandbox = await acquire(dead, "t1")
        await dead.release(sandbox.id)
        async with aclosing(
            AioSandboxProvider(dead.config.model_copy(update={"idle_timeout": 0.1}), make_host(tmp_path))
        ) as next_one:
            await next_one.open()

            async def none_is_left() -> bool:
                return await list_containers(engine, dead) == []

            await wait_until(none_is_left)


async def test_discarding_a_thread_leaves_only_its_files(engine: ContainerEngine, tmp_path: Path) -> None:
    async with running_provider(engine, tmp_path) as provider:
        sandbox = await acquire(provider, "t1")
        await provider.discard("t1", "local")
        assert await provider.get(sandbox.id) is None
        assert await list_containers(engine, provider) == []
        assert list((tmp_path / "home" / "sandboxes").iterdir()) == []


async def test_cancelled_acquire_leaves_no_container(engine: ContainerEngine, tmp_path: Path) -> None:
    async with (
        build_image(engine, tmp_path, "sleep 1000") as never_ready,
        running_provider(engine, tmp_path, image=never_ready) as provider,
    ):
        acquiring = asyncio.create_task(provider.acquire("t1", "local"))

        async def is_there() -> bool:
            return await list_containers(engine, provider) != []

        await wait_until(is_there)
        acquiring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        assert await list_containers(engine, provider) == []


async def test_reports_the_log_of_a_container_that_exits(engine: ContainerEngine, tmp_path: Path) -> None:
    async with (
        build_image(engine, tmp_path, "echo out of coffee; exit 3") as broken,
        running_provider(engine, tmp_path, image=broken) as provider,
    ):
        with pytest.raises(SandboxError, match="exit code 3: out of coffee"):
            await provider.acquire("t1", "local")


async def test_lease_is_shared_or_exclusive_and_survives_deletion_of_its_file(tmp_path: Path) -> None:
    leases = FileLeases(tmp_path)
    one, two = leases.open("s"), leases.open("s")
    await one.share()
    await two.share()
    assert not one.try_own()
    two.release()
    assert one.try_own()
    waiting = asyncio.create_task((three := leases.open("s")).share())
    await asyncio.sleep(0)
    assert not waiting.done()
    one.delete()
    async with asyncio.timeout(5):
        await waiting
    assert three.file.exists() and leases.idle_s("s") < 60
    three.delete()
    assert leases.idle_s("s") == float("inf")


async def list_containers(engine: ContainerEngine, provider: AioSandboxProvider) -> Sequence[str]:
    """Return the ids of a provider's containers."""
    asked = ("ps", "--all", "--quiet", "--filter", f"name={provider.config.container_prefix}")
    return (await asyncio.to_thread(engine.podman, *asked)).split()


@asynccontextmanager
async def build_image(engine: ContainerEngine, folder: Path, command: str) -> AsyncIterator[str]:
    """Yield the name of an image that runs another command than the server of the sandbox."""
    context = folder / "image"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {engine.image}\nCMD {command}\n")
    name = f"localhost/deerflow-other:{uuid4().hex[:8]}"
    engine.podman("build", "--pull=never", "--tag", name, str(context))
    try:
        yield name
    finally:
        engine.podman("rmi", name)


async def test_running_container_sees_updated_skills(engine: ContainerEngine, tmp_path: Path) -> None:
    public, home = tmp_path / "public", tmp_path / "home"
    for name in ("goes", "changes"):
        write_skill(public, name)
    views = SkillViews(home, SkillIndex(public, home))
    look = "cd /mnt/skills && find . -type f | sort && grep -h ^description public/changes/SKILL.md"

    async with running_provider(engine, tmp_path, HostContext(home, tmp_path, views.prepare)) as provider:
        seen, containers = [], set()
        for description in ("Before.", "After."):
            write_skill(public, "changes", description)
            sandbox_id = await provider.acquire("t", "ann")
            sandbox = await provider.get(sandbox_id)
            assert sandbox is not None
            seen.append((await sandbox.execute_command(look)).output.split("\n")[:3])
            containers.add(engine.podman("ps", "--quiet", "--filter", f"name={sandbox_id}"))
            await provider.release(sandbox_id)
            shutil.rmtree(public / "goes", ignore_errors=True)
        assert seen == [
            ["./public/changes/SKILL.md", "./public/goes/SKILL.md", "description: Before."],
            ["./public/changes/SKILL.md", "description: After.", ""],
        ]
        assert len(containers) == 1 and containers != {""}
