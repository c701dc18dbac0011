"""MCP servers and containers: servers next to a container sandbox, and servers that are containers."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, calling
from tests.community.support import ContainerEngine
from tests.mcp.support import HOSTILE_SERVER, McpHarness, build_hostile_entry, write_servers
from tests.sandbox.support import act

AIO_SANDBOX = "deerflow.community.aio_sandbox:AioSandboxProvider"
QUIET = {
    "memory": {"enabled": False},
    "title": {"enabled": False},
    "guardrails": {"enabled": False},
    "tool_search": {"enabled": False},
}


async def test_a_stdio_server_shares_the_files_of_a_container(engine: ContainerEngine, tmp_path: Path) -> None:
    write_servers(tmp_path, {"s": build_hostile_entry()})
    sandbox = {"use": AIO_SANDBOX, **engine.config().model_dump(include={"engine_url", "image", "container_prefix"})}
    source = open_source(directory=tmp_path, environment={}, overrides={**QUIET, "sandbox": sandbox})
    note = "/mnt/user-data/workspace/note.txt"
    model = ScriptedModel.saying(
        act("bash", command=f"echo from-the-container > {note}"), calling("s_peek", value=note), "done"
    )
    try:
        async with open_harness(source, model) as harness:
            world = McpHarness(harness, model)
            await world.wait_until_listed()
            await world.run()
            assert [each.text for each in await world.results()][1] == "from-the-container\n"
    finally:
        engine.remove_containers(str(sandbox["container_prefix"]))


async def test_a_server_that_is_a_container_connects_and_is_removed(
    engine: ContainerEngine, tmp_path: Path, disk_path: Path
) -> None:
    await asyncio.to_thread(disk_path.chmod, 0o755)  # the image has a user of its own
    (disk_path / "server.py").write_bytes(HOSTILE_SERVER.read_bytes())
    private = tmp_path / "private.txt"
    private.write_text("private")
    mount = ["-v", f"{disk_path}:/server:ro"]
    entry = {
        "command": "podman",
        "args": ["run", "-i", "--rm", "--name", "ours", *mount, engine.image, "python3", "/server/server.py"],
    }
    write_servers(tmp_path, {"s": entry, "t": {**entry, "args": ["run", "--privileged", *entry["args"][1:]]}})
    source = open_source(directory=tmp_path, environment=dict(engine.environment), overrides=QUIET)
    model = ScriptedModel.saying(calling("s_echo", value="hello"), calling("s_peek", value=str(private)), "done")
    async with open_harness(source, model) as harness:
        world = McpHarness(harness, model)
        await world.wait_until_listed()
        states = {each.name: each for each in harness.resources.mcp_servers.catalog.statuses("local")}
        assert states["s"].state == "ready", states["s"].error
        assert "'--privileged' lets the container out" in (states["t"].error or "")
        await world.run()
        results = await world.results()
        assert [each.status for each in results] == ["success", "error"]
        assert results[0].text == "echo: hello"
        assert engine.podman("ps", "--quiet", "--filter", "name=^deerflow-").strip() != ""
    assert engine.podman("ps", "--all", "--quiet", "--filter", "name=^deerflow-").strip() == ""


PRINTED = {
    "memory": {"command": "docker", "args": ["run", "-i", "-v", "claude-memory:/app/dist", "--rm", "mcp/memory"]},
    "time": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "LOCAL_TIMEZONE", "mcp/time"]},
    "brave-search": {
        "command": "docker",
        "args": ["run", "-i", "--rm", "-e", "BRAVE_API_KEY", "docker.io/mcp/brave-search"],
        "env": {"BRAVE_API_KEY": "YOUR_API_KEY_HERE"},
    },
}
"""Entries as the documentation of public servers prints them; their images are replaced by a server of ours."""


async def test_containers_as_printed_connect(engine: ContainerEngine, tmp_path: Path) -> None:
    images = [entry["args"][-1] for entry in PRINTED.values()]
    await asyncio.to_thread(make_server_image, engine, images, tmp_path)
    (tmp_path / "docker").symlink_to(shutil.which("podman") or "")
    write_servers(tmp_path, PRINTED)
    environment = {**engine.environment, "PATH": f"{tmp_path}:{engine.environment['PATH']}"}
    source = open_source(directory=tmp_path, environment=environment, overrides=QUIET)
    model = ScriptedModel.saying(calling("brave-search_environment", value=""), "done")
    try:
        async with open_harness(source, model) as harness:
            world = McpHarness(harness, model)
            await world.wait_until_listed()
            states = {name: (world.status(name).state, world.status(name).error) for name in PRINTED}
            assert states == dict.fromkeys(PRINTED, ("ready", None))
            await world.run()
            assert "BRAVE_API_KEY" in (await world.results())[0].text
    finally:
        await asyncio.to_thread(engine.podman, "rmi", "--force", *images)


def make_server_image(engine: ContainerEngine, names: Sequence[str], folder: Path) -> None:
    """Create an image that starts the server of the tests, under all `names`."""
    file = folder / "Dockerfile"
    (folder / "server.py").write_bytes(HOSTILE_SERVER.read_bytes())
    file.write_text(f'FROM {engine.image}\nCOPY server.py /server.py\nENTRYPOINT ["python3", "/server.py"]\n')
    tags = [word for name in names for word in ("--tag", name)]
    engine.podman("build", "--quiet", "--file", str(file), *tags, str(folder))
