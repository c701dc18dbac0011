"""Scripts of ours that run in a thread's sandbox."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deerflow.config.sandbox import SandboxConfig, ToolboxConfig
from deerflow.sandbox.chores import Chore, ChoreResult, Chores, ChoreUnavailable
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import SandboxPlaces
from tests.sandbox.processes import marked_seconds, survivors
from tests.sandbox.test_sandbox_tiers import Unisolated

LIMIT_S = 30.0


@asynccontextmanager
async def chores_in(
    home: Path, provider_class: type[LocalSandboxProvider] = LocalSandboxProvider, **settings: object
) -> AsyncIterator[Chores]:
    config = SandboxConfig.model_validate({"toolbox": ToolboxConfig(enabled=False), **settings})
    provider = provider_class(config, SandboxPlaces(home, home / "cache"))
    try:
        yield Chores(provider, await provider.open())
    finally:
        await provider.aclose()


@pytest.fixture
async def chores(tmp_path: Path) -> AsyncIterator[Chores]:
    async with chores_in(tmp_path) as opened:
        yield opened


async def do(chores: Chores, script: str, *arguments: str, **limits: object) -> ChoreResult:
    async with asyncio.timeout(LIMIT_S):
        return await chores.run("t", "local", Chore(script, **limits), arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_chore_is_refused_where_nothing_isolates_it_also_if_commands_may_run(
    tmp_path: Path, allowed: bool
) -> None:
    async with chores_in(tmp_path, Unisolated, allow_host_bash=allowed) as chores:
        with pytest.raises(ChoreUnavailable, match="bubblewrap was not found; .*install") as refused:
            await do(chores, "print(1)")
    assert refused.value.kind == "not isolated"


async def test_a_chore_whose_packages_are_not_there_says_so_and_what_to_do(chores: Chores) -> None:
    with pytest.raises(
        ChoreUnavailable, match="toolbox of the sandbox is off; set sandbox.toolbox.enabled to true"
    ) as refused:
        await do(chores, "print(1)", packages=("no_such_package",))
    assert refused.value.kind == "no toolbox"


async def test_a_chore_that_takes_too_long_is_ended_with_all_it_started(chores: Chores) -> None:
    mark = marked_seconds()
    script = f"import subprocess; print('begun', flush=True); subprocess.run(['sleep', '{mark}'])"
    ended = await do(chores, script, seconds=4.0)
    assert (ended.timed_out, ended.output, ended.out_of_memory) == (True, "begun\n", False)
    assert await survivors(mark) == []


async def test_a_chore_that_takes_too_much_memory_says_so(chores: Chores) -> None:
    ended = await do(chores, "held = [bytearray(1024 * 1024) for _ in range(1000)]", memory_mb=64)
    assert ended.out_of_memory
    assert ended.exit_code != 0


async def test_no_file_of_a_chore_grows_beyond_its_limit(chores: Chores) -> None:
    ended = await do(chores, "open('/tmp/large', 'wb').write(bytes(3 * 1024 * 1024))", file_mb=1)
    assert (ended.exit_code, ended.output.strip()) == (1, "OSError: [Errno 27] File too large")


async def test_what_a_chore_prints_beyond_the_limit_is_left_out(chores: Chores) -> None:
    ended = await do(chores, "print('x' * 300_000)", output_chars=100_000)
    assert (len(ended.output), ended.truncated, ended.exit_code) == (100_000, True, 0)
    assert not (await do(chores, "print('x' * 1000)", output_chars=1001)).truncated


async def test_an_exception_ends_the_output_and_noise_is_not_heard(chores: Chores) -> None:
    script = "import sys; print('noise', file=sys.stderr); print('one'); raise ValueError('two')"
    ended = await do(chores, script)
    assert (ended.exit_code, ended.output) == (1, "one\n\nValueError: two")


async def test_arguments_reach_the_script_as_they_are(chores: Chores) -> None:
    odd = ["a b", "$HOME", "'; exit 3; '", '"', "ünï\u202ecode", "--flag", ""]
    ended = await do(chores, f"import sys; print(sys.argv[1:] == {odd!r})", *odd)
    assert (ended.exit_code, ended.output) == (0, "True\n")


async def test_packages_and_modules_of_the_agent_are_not_imported(chores: Chores, tmp_path: Path) -> None:
    await do(chores, "open('/mnt/user-data/workspace/csv.py', 'w').write('print(\"mine\")')")
    assert (await do(chores, "import csv; print('theirs')")).output == "theirs\n"


async def test_a_chore_gives_way_to_the_server(chores: Chores) -> None:
    script = "import os, pathlib; file = pathlib.Path('/proc/self/autogroup')"
    ended = await do(chores, f"{script}; print(os.nice(0), file.read_text().split()[-1] if file.exists() else 5)")
    assert ended.output == "5 5\n"


async def test_more_chores_than_there_is_room_for_are_all_done(tmp_path: Path) -> None:
    async with chores_in(tmp_path) as chores:
        started = await asyncio.gather(*(do(chores, f"print({number})") for number in range(5)))
    assert [each.output for each in started] == [f"{number}\n" for number in range(5)]
