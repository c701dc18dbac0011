"""Tests of hostile server processes: each fails alone with a reason."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.identity import LOCAL_USER
from deerflow.mcp.catalog import FIRST_COMPLAINT_S, WatchedServer
from deerflow.mcp.session.calls import MAX_SCHEMA_DEPTH, ServerAddress
from deerflow.mcp.status import suggest_fix
from deerflow.testing import calling
from tests.conformance.command_suite import wait_until
from tests.mcp.support import (
    HOSTILE_SERVER,
    PYTHON,
    build_hostile_entry,
    has_processes,
    open_mcp_harness,
    write_servers,
)

MB = 1024 * 1024


@pytest.mark.slow
async def test_broken_server_does_not_affect_others(tmp_path: Path) -> None:
    servers = {
        "crashing": build_hostile_entry("crash-at-once"),
        "hanging": build_hostile_entry("hang-at-init", session_init_timeout=1.5),
        "babbling": build_hostile_entry("garbage-for-ever"),
        "absent": {"command": "/nowhere/server"},
        "off": build_hostile_entry(enabled=False),
        "good": build_hostile_entry(),
    }
    async with open_mcp_harness(tmp_path, servers, calling("good_echo", value="still here"), "done") as world:
        await world.wait_until_listed()
        await world.run()

        assert [message.text for message in await world.results()] == ["echo: still here"]
        assert {name: world.status(name).state for name in servers} == {
            "crashing": "failed",
            "hanging": "failed",
            "babbling": "failed",
            "absent": "failed",
            "off": "disabled",
            "good": "ready",
        }
        assert "cannot find my settings" in str(world.status("crashing").error)
        assert "did not answer within 1.5 s" in str(world.status("hanging").error)
        assert "welcome to my shiny server" in str(world.status("babbling").error)
        assert "no program '/nowhere/server'" in str(world.status("absent").error)


async def test_crashed_server_is_restarted_for_the_next_call(tmp_path: Path) -> None:
    turns = (calling("s_crash"), calling("s_echo", value="again"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        crashed, again = await world.results()
        assert crashed.status == "error" and "something inside is broken" in crashed.text
        assert again.text == "echo: again"


@pytest.mark.slow
async def test_call_is_cancelled_at_the_server_after_its_timeout(tmp_path: Path) -> None:
    servers = {"s": build_hostile_entry(tools={"hang": {"tool_call_timeout": 0.5}})}
    async with open_mcp_harness(tmp_path, servers, calling("s_hang"), calling("s_seen"), "done") as world:
        await world.wait_until_listed()
        await world.run()
        hung, seen = await world.results()
        assert hung.status == "error" and "took longer than 0.5 s" in hung.text
        assert len(json.loads(seen.text)) == 1


async def test_cancelling_a_run_cancels_the_call_at_the_server(tmp_path: Path) -> None:
    async with open_mcp_harness(
        tmp_path, {"s": build_hostile_entry()}, calling("s_hang"), calling("s_seen"), "done"
    ) as world:
        await world.wait_until_listed()
        run = await world.start()
        assert await world.wait_for_progress(run) == ["1/2 hanging\n"]
        async with asyncio.timeout(5):
            await world.harness.runs.cancel("t1", run.run_id, LOCAL_USER)
        await world.run()
        assert len(json.loads((await world.results())[-1].text)) == 1


async def test_ignores_invalid_lines_between_messages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_mcp_harness(
        tmp_path, {"s": build_hostile_entry()}, calling("s_garbage"), calling("s_nonsense"), "done"
    ) as world:
        await world.wait_until_listed()
        await world.run()
        assert [message.text for message in await world.results()] == ["after garbage", "after nonsense"]
    assert len(caplog.text) < 10_000  # the log does not grow with the output


@pytest.mark.slow
async def test_refuses_a_response_of_100_mb_without_buffering_it(tmp_path: Path) -> None:
    turns = (calling("s_flood"), calling("s_echo", value="well"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        before = psutil.Process().memory_info().rss
        await world.run()
        flooded, well = await world.results()
        assert flooded.status == "error" and "more than 16 MB" in flooded.text
        assert well.text == "echo: well"
        assert psutil.Process().memory_info().rss - before < 60 * MB


async def test_new_tool_is_offered_after_an_admin_accepts_it(tmp_path: Path) -> None:
    turns = (calling("s_grow"), "done", calling("s_more", value="x"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        await world.run()

        async def is_noticed() -> bool:
            return (await asyncio.to_thread(world.status, "s")).changed_tools == ("more",)

        await wait_until(is_noticed)
        assert world.status("s").state == "changed" and "s_more" not in world.tool_names()
        servers = world.harness.resources.mcp_servers
        (pin,) = [pin for pin in await servers.list_pins("s") if pin.offered is not None]
        assert pin.offered is not None
        await servers.accept("s", {"more": pin.offered.hash}, LOCAL_USER.user_id)
        assert world.status("s").state == "ready"
        await world.run()
        assert [message.text for message in await world.results()] == ["grown", "echo: x"]


async def test_malformed_result_is_reported_as_such(tmp_path: Path) -> None:
    turns = (calling("s_malformed"), calling("s_echo", value="well"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        malformed, well = await world.results()
        assert malformed.status == "error"
        assert "the result of the server is malformed; the call may have been executed" in malformed.text
        assert well.text == "echo: well"


async def test_strange_tools_are_offered_and_shown(tmp_path: Path) -> None:
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry("half", "deep")}, "done") as world:
        await world.wait_until_listed()
        await world.run()
        assert {"s_half", "s_deep", "s_echo"} <= set(world.model.requests[0].tool_names)
        shown = {tool.name: tool for tool in world.status("s").tools}
        assert shown["half"].title == "\\u{d800}"
        schema, depth = shown["deep"].input_schema, 0
        while "properties" in schema and schema["properties"]:
            schema, depth = schema["properties"]["a"], depth + 1
        assert depth == MAX_SCHEMA_DEPTH / 2


async def test_server_cannot_read_files_of_the_machine(tmp_path: Path) -> None:
    paths = ["/etc/shadow", str(Path.home() / ".bashrc"), str(Path(__file__)), str(tmp_path / "extensions_config.json")]
    peeking = (calling("s_peek", value=path) for path in paths)
    turns = (*peeking, calling("s_peek", value="/proc/1/environ"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        *peeked, environment = await world.results()
        assert [each.status for each in peeked] == ["error"] * len(paths)
        assert all("refused" in each.text for each in peeked)
        assert "PATH=" not in environment.text  # the first process of the sandbox has no variables


async def test_server_has_no_network_and_no_foreign_variables(tmp_path: Path) -> None:
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    dialling = calling("s_dial", value=f"127.0.0.1:{port}")
    servers = {"s": build_hostile_entry(env={"OWN": "yes"}), "online": build_hostile_entry(network=True)}
    turns = (dialling, calling("online_dial", value=f"127.0.0.1:{port}"), calling("s_environment"), "done")
    async with listener, open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        offline, online, environment = await world.results()
        assert offline.status == "error" and "refused" in offline.text
        assert online.text == "connected"
        seen = json.loads(environment.text)
        assert seen["OWN"] == "yes" and seen["uid"] != 0
        assert set(seen) <= {"uid", "OWN", *ORDINARY}


async def test_package_runner_reaches_no_service_of_the_machine(tmp_path: Path) -> None:
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    runner = tmp_path / "npx"
    runner.write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    runner.chmod(0o755)
    entry = {**build_hostile_entry(), "command": str(runner), "paths": [str(runner), str(HOSTILE_SERVER)]}
    servers = {"s": entry, "off": {**entry, "network": False}}
    # In its own network there is nothing but the proxy, which forwards to public addresses only.
    dialled = (f"127.0.0.1:{port}", "127.0.0.1:3128")
    turns = (*(calling(f"{name}_dial", value=value) for name in servers for value in dialled), "done")
    async with listener, open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        service, proxy, *offline = await world.results()
        assert service.status == "error" and "refused" in service.text
        assert proxy.text == "connected"
        assert [each.status for each in offline] == ["error", "error"]


async def test_output_is_shown_while_a_server_is_connected(tmp_path: Path) -> None:
    program = 'echo "fetching $KEY" >&2; read -r line; exec sleep 60'
    servers = {"s": {"command": "/bin/bash", "args": ["-c", program], "env": {"KEY": "a package"}}}
    async with open_mcp_harness(tmp_path, servers) as world:
        await world.harness.core.mcp.prepare(LOCAL_USER.user_id, wait_s=0.0)

        async def is_shown() -> bool:
            await has_processes(0)  # takes a moment
            return world.status("s").log == "fetching a package"

        await wait_until(is_shown)
        assert (world.status("s").state, world.status("s").error) == ("connecting", None)


def test_slow_start_is_reported_with_a_remedy() -> None:
    config = McpServerConfig.model_validate({"command": "npx", "args": ["x"], "network": False})
    watched = WatchedServer(ServerAddress("s", config, "key", "", None))
    watched.set_state("connecting")
    assert watched.to_status(str).error is None
    watched.since -= timedelta(seconds=FIRST_COMPLAINT_S + 1)
    expected = "no answer yet; it has 60 s to start; 'npx' fetches packages, which \"network\": false prevents"
    assert watched.to_status(str).error == expected
    engine = McpServerConfig.model_validate({"command": "docker", "args": ["run", "-i", "--rm", "x"], "network": False})
    assert suggest_fix(engine) == '; "network": false leaves the container without network'


async def test_arguments_name_what_a_server_can_read(tmp_path: Path, disk_path: Path) -> None:
    package = disk_path / "package"
    (package / "lib").mkdir(parents=True)
    (package / "pyproject.toml").write_text("[project]\n")
    (package / "lib" / "server.py").write_bytes(HOSTILE_SERVER.read_bytes())
    (disk_path / "note.txt").write_text("private")
    peeked = [package / "pyproject.toml", disk_path / "note.txt"]
    entry = {"command": PYTHON, "args": [str(package / "lib" / "server.py")]}
    turns = (*(calling("s_peek", value=str(path)) for path in peeked), "done")
    async with open_mcp_harness(tmp_path, {"s": entry}, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        assert [each.status for each in await world.results()] == ["success", "error"]


@pytest.mark.parametrize("has_cwd", [False, True], ids=["below the file", "with cwd"])
async def test_relative_arguments_name_a_server(disk_path: Path, has_cwd: bool) -> None:
    folder = disk_path / "server" if has_cwd else disk_path
    folder.mkdir(exist_ok=True)
    (folder / "server.py").write_bytes(HOSTILE_SERVER.read_bytes())
    (folder / "note.txt").write_text("a note")
    entry = {"command": PYTHON, "args": ["server.py"], **({"cwd": str(folder)} if has_cwd else {})}
    turns = (calling("s_echo", value="hello"), calling("s_peek", value="note.txt"), "done")
    async with open_mcp_harness(disk_path, {"s": entry}, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        assert [each.status for each in await world.results()] == ["success", "success" if has_cwd else "error"]


async def test_a_server_does_not_start_in_a_private_folder(tmp_path: Path) -> None:
    entries = {"own": str(tmp_path), "home": str(Path.home()), "missing": str(tmp_path / "missing")}
    servers = {name: {"command": PYTHON, "args": ["server.py"], "cwd": folder} for name, folder in entries.items()}
    async with open_mcp_harness(tmp_path, servers) as world:
        await world.wait_until_listed()
        problems = {name: world.status(name).error or "" for name in entries}
    assert all("a server must not see" in problems[name] for name in ("own", "home"))
    assert "there is no folder" in problems["missing"]


async def test_configuration_change_applies_to_the_next_run(tmp_path: Path) -> None:
    turns = (calling("one_echo", value="1"), "done", calling("two_echo", value="2"), "done")
    async with open_mcp_harness(tmp_path, {"one": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        write_servers(tmp_path, {"two": build_hostile_entry()})
        await world.wait_until_listed()
        assert all(name.startswith("two_") for name in world.tool_names())
        await world.run()
        assert [message.text for message in await world.results()] == ["echo: 1", "echo: 2"]
        assert [status.name for status in world.harness.resources.mcp_servers.catalog.statuses(LOCAL_USER.user_id)] == [
            "two"
        ]


ORDINARY = (
    *("PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TMPDIR", "PYTHONUNBUFFERED", "PWD", "OLDPWD", "SHLVL", "_"),
    *("PIP_BREAK_SYSTEM_PACKAGES", "LC_CTYPE"),
)
