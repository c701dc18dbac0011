"""Servers that break, hang, lie or pry: each harms itself alone, and says why."""

import asyncio
import json
from pathlib import Path

import psutil
import pytest

from deerflow.domain.principal import LOCAL_USER
from deerflow.testing import calling
from tests.conformance.command_suite import until
from tests.mcp.desk import desk_with, hostile, write_servers

MB = 1024 * 1024


async def test_one_broken_server_neither_hides_nor_delays_the_others(tmp_path: Path) -> None:
    servers = {
        "crashing": hostile("crash-at-once"),
        "hanging": hostile("hang-at-init", session_init_timeout=1.5),
        "babbling": hostile("garbage-for-ever"),
        "absent": {"command": "/nowhere/server"},
        "off": hostile(enabled=False),
        "good": hostile(),
    }
    async with desk_with(tmp_path, servers, calling("good_echo", value="still here"), "done") as desk:
        await desk.ready()
        await desk.run()

        assert [message.text for message in await desk.results()] == ["echo: still here"]
        assert {name: desk.status(name).state for name in servers} == {
            "crashing": "failed",
            "hanging": "failed",
            "babbling": "failed",
            "absent": "failed",
            "off": "disabled",
            "good": "ready",
        }
        assert "cannot find my settings" in str(desk.status("crashing").error)
        assert "did not answer within 1.5 s" in str(desk.status("hanging").error)
        assert "welcome to my shiny server" in str(desk.status("babbling").error)
        assert "no program '/nowhere/server'" in str(desk.status("absent").error)


async def test_a_server_that_crashes_in_a_call_is_started_again_for_the_next_one(tmp_path: Path) -> None:
    turns = (calling("s_crash"), calling("s_echo", value="again"), "done")
    async with desk_with(tmp_path, {"s": hostile()}, *turns) as desk:
        await desk.ready()
        await desk.run()
        crashed, again = await desk.results()
        assert crashed.status == "error" and "something inside is broken" in crashed.text
        assert again.text == "echo: again"


async def test_a_call_that_hangs_is_given_up_and_the_server_is_told(tmp_path: Path) -> None:
    servers = {"s": hostile(tools={"hang": {"tool_call_timeout": 0.5}})}
    async with desk_with(tmp_path, servers, calling("s_hang"), calling("s_seen"), "done") as desk:
        await desk.ready()
        await desk.run()
        hung, seen = await desk.results()
        assert hung.status == "error" and "took longer than 0.5 s" in hung.text
        assert len(json.loads(seen.text)) == 1


async def test_cancelling_a_run_tells_the_server_and_ends_at_once(tmp_path: Path) -> None:
    async with desk_with(tmp_path, {"s": hostile()}, calling("s_hang"), calling("s_seen"), "done") as desk:
        await desk.ready()
        run = await desk.start()
        assert await desk.until_progress(run) == ["1/2 hanging\n"]
        async with asyncio.timeout(5):
            await desk.harness.runs.cancel("t1", run.run_id, LOCAL_USER)
        await desk.run()
        assert len(json.loads((await desk.results())[-1].text)) == 1


async def test_garbage_between_messages_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with desk_with(tmp_path, {"s": hostile()}, calling("s_garbage"), calling("s_nonsense"), "done") as desk:
        await desk.ready()
        await desk.run()
        assert [message.text for message in await desk.results()] == ["after garbage", "after nonsense"]
    assert len(caplog.text) < 10_000  # nobody fills the log of the server


async def test_a_reply_of_100_mb_is_refused_without_taking_up_the_memory(tmp_path: Path) -> None:
    turns = (calling("s_flood"), calling("s_echo", value="well"), "done")
    async with desk_with(tmp_path, {"s": hostile()}, *turns) as desk:
        await desk.ready()
        before = psutil.Process().memory_info().rss
        await desk.run()
        flooded, well = await desk.results()
        assert flooded.status == "error" and "more than 16 MB" in flooded.text
        assert well.text == "echo: well"
        assert psutil.Process().memory_info().rss - before < 60 * MB


async def test_a_tool_that_appears_later_is_offered_once_an_admin_has_accepted_it(tmp_path: Path) -> None:
    turns = (calling("s_grow"), "done", calling("s_more", value="x"), "done")
    async with desk_with(tmp_path, {"s": hostile()}, *turns) as desk:
        await desk.ready()
        await desk.run()

        async def is_noticed() -> bool:
            return (await asyncio.to_thread(desk.status, "s")).changed_tools == ("more",)

        await until(is_noticed)
        assert desk.status("s").state == "changed" and "s_more" not in desk.offered()
        servers = desk.harness.resources.mcp_servers
        (pin,) = [pin for pin in await servers.pinned("s") if pin.offered is not None]
        assert pin.offered is not None
        await servers.accept("s", {"more": pin.offered.hash}, LOCAL_USER.user_id)
        assert desk.status("s").state == "ready"
        await desk.run()
        assert [message.text for message in await desk.results()] == ["grown", "echo: x"]


async def test_files_of_the_machine_are_out_of_reach(tmp_path: Path) -> None:
    paths = ["/etc/shadow", str(Path.home() / ".bashrc"), str(Path(__file__)), str(tmp_path / "extensions_config.json")]
    peeking = (calling("s_peek", value=path) for path in paths)
    turns = (*peeking, calling("s_peek", value="/proc/1/environ"), "done")
    async with desk_with(tmp_path, {"s": hostile()}, *turns) as desk:
        await desk.ready()
        await desk.run()
        *peeked, environment = await desk.results()
        assert [each.status for each in peeked] == ["error"] * len(paths)
        assert all("refused" in each.text for each in peeked)
        assert "PATH=" not in environment.text  # of the first process in the sandbox, which has none


async def test_the_network_and_the_variables_of_the_machine_are_out_of_reach(tmp_path: Path) -> None:
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    dialling = calling("s_dial", value=f"127.0.0.1:{port}")
    servers = {"s": hostile(env={"OWN": "yes"}), "online": hostile(network=True)}
    turns = (dialling, calling("online_dial", value=f"127.0.0.1:{port}"), calling("s_environment"), "done")
    async with listener, desk_with(tmp_path, servers, *turns) as desk:
        await desk.ready()
        await desk.run()
        offline, online, environment = await desk.results()
        assert offline.status == "error" and "refused" in offline.text
        assert online.text == "connected"
        seen = json.loads(environment.text)
        assert seen["OWN"] == "yes" and seen["uid"] != 0
        assert set(seen) <= {"uid", "OWN", *ORDINARY}


async def test_an_edit_of_the_configuration_counts_for_the_next_run(tmp_path: Path) -> None:
    turns = (calling("one_echo", value="1"), "done", calling("two_echo", value="2"), "done")
    async with desk_with(tmp_path, {"one": hostile()}, *turns) as desk:
        await desk.ready()
        await desk.run()
        write_servers(tmp_path, {"two": hostile()})
        await desk.ready()
        assert all(name.startswith("two_") for name in desk.offered())
        await desk.run()
        assert [message.text for message in await desk.results()] == ["echo: 1", "echo: 2"]
        assert [status.name for status in desk.harness.mcp.loaded.catalog.statuses(LOCAL_USER.user_id)] == ["two"]


ORDINARY = (
    *("PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TMPDIR", "PYTHONUNBUFFERED", "PWD", "OLDPWD", "SHLVL", "_"),
    *("PIP_BREAK_SYSTEM_PACKAGES", "LC_CTYPE"),
)
