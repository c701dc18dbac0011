"""Conformance suite for commands and background processes. `provider` and `sandbox` are fixtures."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex

import pytest

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import OUTPUTS, WORKSPACE
from deerflow.domain.sandbox import BackgroundOutput, GrepMatch, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider
from tests.conformance.sandbox_suite import acquire, write_files

SERVER = 'exec python3 -u -c \'import http.server as h; s = h.ThreadingHTTPServer(("127.0.0.1", {port}), ' + (
    'h.SimpleHTTPRequestHandler); print("ready"); s.serve_forever()\''
)
REQUEST = "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3"


async def run_command(sandbox: Sandbox, command: str) -> str:
    result = await sandbox.execute_command(command)
    assert result.exit_code == 0, result
    return result.output


async def wait_until(ask: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(15):
        while not await ask():
            pass


async def read_output_until(sandbox: Sandbox, name: str, words: str) -> str:
    """Return the output of a background process up to `words`."""
    received = ""

    async def has_said() -> bool:
        nonlocal received
        await sandbox.execute_command("true")  # takes a moment
        received += (await sandbox.process_output(name)).output
        return words in received

    await wait_until(has_said)
    return received


async def wait_until_ended(sandbox: Sandbox, name: str) -> BackgroundOutput:
    """Wait for the end of a background process and return its output."""

    async def has_ended() -> bool:
        await sandbox.execute_command("true")  # takes a moment
        return all(process.exit_code is not None for process in await sandbox.list_processes() if process.name == name)

    await wait_until(has_ended)
    return await sandbox.process_output(name)


class CommandSuite:
    """Commands."""

    @pytest.mark.parametrize(
        ("command", "code"), [("true", 0), ("false", 1), ("exit 3", 3), ("no-such-program", 127), ("kill -9 $$", 137)]
    )
    async def test_returns_the_exit_code(self, sandbox: Sandbox, command: str, code: int) -> None:
        assert (await sandbox.execute_command(command)).exit_code == code

    async def test_returns_both_streams_in_order(self, sandbox: Sandbox) -> None:
        result = await sandbox.execute_command("echo one; echo two >&2; echo three; exit 1")
        assert (result.output, result.exit_code) == ("one\ntwo\nthree\n", 1)

    async def test_handles_non_ascii_text(self, sandbox: Sandbox) -> None:
        assert await run_command(sandbox, "echo 'naïve 深 🦌'") == "naïve 深 🦌\n"

    async def test_handles_invalid_utf8_output(self, sandbox: Sandbox) -> None:
        assert await run_command(sandbox, r"printf 'a\xff\xfe\0b'") == "a��\0b"

    async def test_runs_multi_line_bash(self, sandbox: Sandbox) -> None:
        command = 'set -euo pipefail\nnames=(a b)\nfor name in "${names[@]}"; do\n  cat <<< "$name"\ndone'
        assert await run_command(sandbox, command) == "a\nb\n"

    async def test_standard_input_is_empty(self, sandbox: Sandbox) -> None:
        assert await run_command(sandbox, "cat") == ""

    async def test_keeps_quotes_and_special_characters(self, sandbox: Sandbox) -> None:
        assert await run_command(sandbox, r"""printf '%s' "$((1 + 1)) 'quoted' \"twice\" \\ \$HOME %s" """) == (
            "2 'quoted' \"twice\" \\ $HOME %s"
        )

    async def test_omits_the_middle_of_too_much_output_with_a_note(self, sandbox: Sandbox) -> None:
        result = await sandbox.execute_command("echo first; seq 1 100000; echo last")
        assert result.truncated
        assert result.output.startswith("first\n1\n") and result.output.endswith("100000\nlast\n")
        assert "characters left out" in result.output and len(result.output) < 21_000

    async def test_streams_output(self, sandbox: Sandbox) -> None:
        received: asyncio.Queue[str] = asyncio.Queue()
        command = f"echo early; until [ -e {WORKSPACE}/go ]; do sleep 0.05; done; echo late"
        running = asyncio.create_task(sandbox.execute_command(command, on_output=received.put_nowait))
        async with asyncio.timeout(15):
            assert await received.get() == "early\n"
            assert not running.done()
            await sandbox.write_file(f"{WORKSPACE}/go", "")
            assert (await running).output == "early\nlate\n"

    async def test_kills_a_command_after_the_timeout(self, sandbox: Sandbox) -> None:
        result = await sandbox.execute_command("echo begun; sleep 1000", timeout_s=1)
        assert result.timed_out and result.exit_code != 0
        assert "begun" in result.output and "1 s" in result.output

    async def test_waits_for_a_command_that_closes_its_output(self, sandbox: Sandbox) -> None:
        result = await sandbox.execute_command("exec >&- 2>&-; sleep 0.2; exit 5")
        assert (result.output, result.exit_code) == ("", 5)
        assert (await sandbox.execute_command("exec >&- 2>&-; sleep 1000", timeout_s=1)).timed_out

    async def test_leaves_no_processes_after_a_timeout(self, sandbox: Sandbox) -> None:
        beating = f"beat() {{ while :; do date +%s%N > {WORKSPACE}/beat; sleep 0.02; done; }}; beat & (setsid bash -c "
        await sandbox.execute_command(f"export -f beat 2>/dev/null; {beating}'sleep 1000' &); wait", timeout_s=1)
        before = await sandbox.download(f"{WORKSPACE}/beat")
        await sandbox.execute_command("sleep 0.2")
        assert await sandbox.download(f"{WORKSPACE}/beat") == before

    async def test_passes_variables_to_a_command(self, sandbox: Sandbox) -> None:
        result = await sandbox.execute_command('echo "$NAME"; env', env={"NAME": "a value\nwith 'signs'"})
        assert result.output.startswith("a value\nwith 'signs'\n")
        assert "NAME" not in await run_command(sandbox, "env")

    @pytest.mark.parametrize(
        ("name", "value"), [("A=B", "x"), ("", "x"), ("A", "x\0--bind\0/\0/host"), ("A", "\ud800")]
    )
    async def test_refuses_invalid_variables(self, sandbox: Sandbox, name: str, value: str) -> None:
        with pytest.raises(SandboxError, match="variable"):
            await sandbox.execute_command("true", env={name: value})

    @pytest.mark.parametrize("command", ["", "  \n", "echo \0", "echo \ud800", "#" * 200_000])
    async def test_refuses_invalid_commands(self, sandbox: Sandbox, command: str) -> None:
        with pytest.raises(SandboxError):
            await sandbox.execute_command(command)
        with pytest.raises(SandboxError):
            await sandbox.start_process("bad", command)

    async def test_runs_a_command_with_control_characters(self, sandbox: Sandbox) -> None:
        assert await run_command(sandbox, "echo $'" + "\x01" * 50_000 + "' | wc -c") == "50001\n"

    async def test_starts_each_command_in_the_workspace(self, sandbox: Sandbox) -> None:
        assert await run_command(sandbox, "cd /tmp; export LOST=1") == ""
        assert await run_command(sandbox, 'pwd; echo "${LOST-gone}"') == f"{WORKSPACE}\ngone\n"

    async def test_keeps_files_between_commands(self, sandbox: Sandbox) -> None:
        await run_command(sandbox, 'echo kept > file; echo home > "$HOME/file"; echo temporary > /tmp/file')
        assert await run_command(sandbox, 'cat file "$HOME/file" /tmp/file') == "kept\nhome\ntemporary\n"

    async def test_runs_eight_commands_concurrently(self, sandbox: Sandbox) -> None:
        results = await asyncio.gather(*(sandbox.execute_command(f"sleep 0.1; echo {each}") for each in range(8)))
        assert [result.output for result in results] == [f"{each}\n" for each in range(8)]

    async def test_kills_background_children_with_the_command(self, sandbox: Sandbox) -> None:
        async with asyncio.timeout(15):
            assert await run_command(sandbox, "sleep 1000 & echo done") == "done\n"

    async def test_cancelling_kills_the_command(self, sandbox: Sandbox) -> None:
        received: asyncio.Queue[str] = asyncio.Queue()
        command = f"while :; do date +%s%N > {WORKSPACE}/beat; echo beat; sleep 0.02; done"
        running = asyncio.create_task(sandbox.execute_command(command, on_output=received.put_nowait))
        async with asyncio.timeout(15):
            await received.get()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            while await self._beats(sandbox):  # elsewhere the end is heard of a moment later
                pass

    async def _beats(self, sandbox: Sandbox) -> bool:
        before = await sandbox.download(f"{WORKSPACE}/beat")
        await sandbox.execute_command("sleep 0.2")
        return await sandbox.download(f"{WORKSPACE}/beat") != before

    async def test_sandbox_survives_a_failing_listener(self, sandbox: Sandbox) -> None:
        def fail(text: str) -> None:
            raise RuntimeError("listener")

        with pytest.raises(RuntimeError, match="listener"):
            await sandbox.execute_command("echo a; sleep 1000", on_output=fail)
        assert await run_command(sandbox, "echo well") == "well\n"


class ProcessSuite:
    """Background processes."""

    async def test_returns_background_output_incrementally(self, sandbox: Sandbox) -> None:
        await sandbox.start_process(
            "job", f"echo one; until [ -e {WORKSPACE}/go ]; do sleep 0.05; done; echo two; exit 4"
        )
        assert await read_output_until(sandbox, "job", "one\n") == "one\n"
        assert (await sandbox.process_output("job")).output == ""
        assert [process.exit_code for process in await sandbox.list_processes()] == [None]
        await sandbox.write_file(f"{WORKSPACE}/go", "")
        last = await wait_until_ended(sandbox, "job")
        assert (last.output, last.process.exit_code) == ("two\n", 4)
        assert [process.exit_code for process in await sandbox.list_processes()] == [4]

    async def test_next_command_reaches_a_background_server(self, sandbox: Sandbox) -> None:
        await sandbox.start_process("web", SERVER.format(port=18080))
        await read_output_until(sandbox, "web", "ready")
        assert "200 OK" in await run_command(sandbox, REQUEST.format(port=18080))
        await sandbox.kill_process("web")
        assert (await sandbox.execute_command(REQUEST.format(port=18080))).exit_code != 0

    async def test_killing_it_kills_everything_it_started(self, sandbox: Sandbox) -> None:
        beating = f"while :; do date +%s%N > {WORKSPACE}/beat; sleep 0.02; done"
        await sandbox.start_process("tree", f"trap '' TERM INT HUP; setsid bash -c '{beating}' & echo up; wait")
        await read_output_until(sandbox, "tree", "up")

        async def beats() -> bool:
            return (await sandbox.execute_command(f"test -s {WORKSPACE}/beat")).exit_code == 0

        await wait_until(beats)
        killed = await sandbox.kill_process("tree")
        assert killed.process.exit_code is not None
        before = await sandbox.download(f"{WORKSPACE}/beat")
        await sandbox.execute_command("sleep 0.2")
        assert await sandbox.download(f"{WORKSPACE}/beat") == before

    async def test_killing_it_returns_its_last_output(self, sandbox: Sandbox) -> None:
        await sandbox.start_process("talker", f"echo last words; touch {WORKSPACE}/said; sleep 1000")

        async def has_said() -> bool:
            return (await sandbox.execute_command(f"test -e {WORKSPACE}/said")).exit_code == 0

        await wait_until(has_said)
        assert (await sandbox.kill_process("talker")).output == "last words\n"

    async def test_refuses_a_name_that_is_in_use(self, sandbox: Sandbox) -> None:
        await sandbox.start_process("job", "sleep 1000")
        with pytest.raises(SandboxError, match="already running"):
            await sandbox.start_process("job", "sleep 1000")
        await sandbox.kill_process("job")
        await sandbox.start_process("job", "echo again")
        assert (await wait_until_ended(sandbox, "job")).output == "again\n"

    async def test_limits_the_number_of_background_processes(self, sandbox: Sandbox) -> None:
        await sandbox.start_process("one", "sleep 1000")
        await sandbox.start_process("two", "sleep 1000")
        with pytest.raises(SandboxError, match="kill one first"):
            await sandbox.start_process("three", "sleep 1000")
        assert [process.name for process in await sandbox.list_processes()] == ["one", "two"]
        await sandbox.kill_process("one")
        await sandbox.start_process("three", "echo room")
        assert (await wait_until_ended(sandbox, "three")).output == "room\n"

    async def test_refuses_an_unknown_name(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxError, match="no background process"):
            await sandbox.process_output("nobody")
        with pytest.raises(SandboxError, match="no background process"):
            await sandbox.kill_process("nobody")

    @pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 100])
    async def test_refuses_an_invalid_name(self, sandbox: Sandbox, name: str) -> None:
        with pytest.raises(SandboxError, match="name"):
            await sandbox.start_process(name, "true")

    async def test_passes_variables_to_a_background_process(self, sandbox: Sandbox) -> None:
        await sandbox.start_process("job", 'echo "$NAME"; pwd', env={"NAME": "value"})
        assert (await wait_until_ended(sandbox, "job")).output == f"value\n{WORKSPACE}\n"

    async def test_background_process_survives_the_run_and_ends_with_the_thread(
        self, provider: SandboxProvider
    ) -> None:
        thread_id = f"t{token_hex(4)}"
        sandbox = await acquire(provider, thread_id)
        await sandbox.start_process("beat", f"while :; do date +%s%N > {WORKSPACE}/beat; echo beat; sleep 0.02; done")
        await read_output_until(sandbox, "beat", "beat")
        await provider.release(sandbox.id)
        again = await acquire(provider, thread_id)
        assert [process.exit_code for process in await again.list_processes()] == [None]
        await read_output_until(again, "beat", "beat")
        await provider.discard(thread_id, "local")
        after = await acquire(provider, thread_id)
        before = await after.download(f"{WORKSPACE}/beat")
        await after.execute_command("sleep 0.2")
        assert await after.download(f"{WORKSPACE}/beat") == before
        await provider.discard(thread_id, "local")

    async def test_discarding_a_thread_kills_the_running_command(self, provider: SandboxProvider) -> None:
        thread_id = f"t{token_hex(4)}"
        sandbox = await acquire(provider, thread_id)
        received = asyncio.Event()
        command = f"while :; do date +%s%N > {WORKSPACE}/beat; echo beat; sleep 0.02; done"
        running = asyncio.create_task(sandbox.execute_command(command, on_output=lambda _: received.set()))
        async with asyncio.timeout(30):
            await received.wait()
            await provider.discard(thread_id, "local")
            await asyncio.wait({running})
        assert not running.cancelled()
        assert isinstance(running.exception(), SandboxError) or running.result().exit_code != 0
        after = await acquire(provider, thread_id)
        before = await after.download(f"{WORKSPACE}/beat")
        await after.execute_command("sleep 0.2")
        assert await after.download(f"{WORKSPACE}/beat") == before
        await provider.discard(thread_id, "local")


class SharingSuite:
    """Files and searches, with files written by commands."""

    async def test_commands_read_and_change_files_written_by_tools(self, sandbox: Sandbox) -> None:
        await sandbox.update_file(f"{WORKSPACE}/new/file.bin", b"\xff\r\n")
        assert await run_command(sandbox, "od -An -tx1 new/file.bin") == " ff 0d 0a\n"
        await run_command(sandbox, "printf more >> new/file.bin && touch new/other && mv new/file.bin new/moved.bin")
        assert await sandbox.download(f"{WORKSPACE}/new/moved.bin") == b"\xff\r\nmore"
        assert await run_command(sandbox, "stat -c '%u %a' new/moved.bin new") == await run_command(
            sandbox, 'echo "$(id -u) 644"; echo "$(id -u) 755"'
        )

    async def test_tools_read_and_change_files_written_by_commands(self, sandbox: Sandbox) -> None:
        await run_command(
            sandbox, r"mkdir -p own/deep && printf 'made\r\n' > own/deep/file.sh && chmod 755 own/deep/file.sh"
        )
        assert await sandbox.read_file(f"{WORKSPACE}/own/deep/file.sh") == "made\r\n"
        await sandbox.write_file(f"{WORKSPACE}/own/deep/file.sh", "echo run")
        assert await run_command(sandbox, "own/deep/file.sh && rm -r own") == "run\n"

    async def test_refuses_a_file_that_is_too_large(self, sandbox: Sandbox) -> None:
        await run_command(sandbox, "truncate -s 300M large.bin")
        with pytest.raises(FileProblem, match="MB"):
            await sandbox.download(f"{WORKSPACE}/large.bin")

    async def test_bounds_the_time_of_a_slow_expression(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "slow/a.txt", content="a" * 5000 + "b\n")
        async with asyncio.timeout(15):
            assert (await sandbox.grep(f"{WORKSPACE}/slow", "(a+)+$")).matches == []

    async def test_search_skips_unreadable_files(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "s/a/hidden.txt", "s/b.txt", "s/c.txt")
        await run_command(sandbox, "chmod 000 s/a s/b.txt")
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle")
        assert [match.path for match in found.matches] == [f"{WORKSPACE}/s/c.txt"]
        assert (await sandbox.glob(f"{WORKSPACE}/s", "*.txt")).paths == [f"{WORKSPACE}/s/b.txt", f"{WORKSPACE}/s/c.txt"]
        await run_command(sandbox, "chmod 755 s/a s/b.txt")

    async def test_search_handles_a_file_that_turns_binary_late(self, sandbox: Sandbox) -> None:
        await sandbox.update_file(f"{WORKSPACE}/s/a.bin", b"needle\n" + b"x" * 200_000 + b"\n\0\0\n")
        await write_files(sandbox, "s/b.txt")
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle")
        assert found.matches[-1] == GrepMatch(f"{WORKSPACE}/s/b.txt", 1, "needle")

    async def test_search_handles_names_that_are_not_utf8(self, sandbox: Sandbox) -> None:
        await run_command(sandbox, r"mkdir s && cd s && echo needle > $'\xff\xfe.txt' && echo needle > good.txt")
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle")
        assert f"{WORKSPACE}/s/good.txt" in [match.path for match in found.matches]
        assert (await sandbox.list_dir(f"{WORKSPACE}/s")).paths == [f"{WORKSPACE}/s/good.txt"]

    async def test_search_truncates_long_lines(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "s/long.txt", content="needle " + "x" * 50_000 + "\n")
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle")
        assert len(found.matches) == 1 and len(found.matches[0].line) < 1000

    async def test_sandboxes_are_isolated_from_each_other(self, provider: SandboxProvider) -> None:
        one, two = await acquire(provider, "side-one"), await acquire(provider, "side-two")
        marker = token_hex(8)
        await run_command(one, f"echo {marker} > secret; echo {marker} > /tmp/secret; echo {marker} > {OUTPUTS}/secret")
        await one.start_process("web", f"{SERVER.format(port=18081)} # {marker}")
        await read_output_until(one, "web", "ready")
        seen = await two.execute_command(
            f"cat secret /tmp/secret {OUTPUTS}/secret; cat /proc/[0-9]*/cmdline; {REQUEST.format(port=18081)}"
        )
        assert marker not in seen.output and "200 OK" not in seen.output
        assert (await two.list_dir(OUTPUTS)).paths == [] and await two.list_processes() == []
        await provider.discard("side-one", "local")
        await provider.discard("side-two", "local")
