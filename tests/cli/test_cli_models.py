"""`deerflow models`."""

import asyncio
import json
import os
import pty
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import deerflow
from deerflow.cli.models import app
from deerflow.testing import ScriptedServer, ServerFault
from tests.canary import files_with
from tests.models.checked_servers import KEY, capable_server

CONFIG = "models:\n  - {name: gpt-5-mini, use: 'deerflow.models.demo:DemoChatModel', model: demo}\n"


async def run(home: Path, *arguments: str, stdin: str = "", **variables: str) -> Result:
    environment = {"DEER_FLOW_PROJECT_ROOT": str(home), "DEER_FLOW_HOME": str(home / "home"), **variables}
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, input=stdin, env=environment)


def words(result: Result) -> str:
    """Return all that a command said, and the error it ended with."""
    return f"{result.stdout}{result.stderr}{result.exception or ''}"


async def add(home: Path, server: ScriptedServer, *more: str, key: str = KEY, **variables: Any) -> Result:
    return await run(home, "add", "custom", "--url", server.base_url, *more, stdin=f"{key}\n", **variables)


async def test_nothing_is_saved_if_the_key_is_wrong_missing_or_an_unset_variable(tmp_path: Path) -> None:
    async with capable_server() as server:
        wrong = await add(tmp_path, server, key="sk-wrong-canary-0000")
        assert (
            wrong.exit_code == 1 and "refused the key" in wrong.stderr and "→ Copy the whole key again" in wrong.stderr
        )
        assert "nothing was saved" in words(wrong) and "sk-wrong-canary" not in words(wrong)
        variable = await run(tmp_path, "add", "openai", "--key-env", "NO_SUCH_KEY")
        assert "the environment variable 'NO_SUCH_KEY' is not set" in words(variable)
        missing = await run(tmp_path, "add", "openai")
        assert missing.exit_code == 1 and "no key; enter one at the prompt" in words(missing)
        unknown = await run(tmp_path, "add", "nobody")
        assert "unknown provider 'nobody'; known are openai, anthropic, gemini" in words(unknown)
        nowhere = await run(tmp_path, "add", "custom", stdin="\n")
        assert "an address is required" in words(nowhere)
        argument = await run(tmp_path, "add", "openai", KEY)
        assert argument.exit_code == 2
        assert json.loads((await run(tmp_path, "list", "--json")).stdout)[0]["name"] == "demo"


async def test_unknown_and_configured_models_cannot_be_tested_or_removed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    for command in ("test", "remove"):
        assert "no saved model 'x'; see: deerflow models list" in words(await run(tmp_path, command, "x"))
        assert "is a model of config.yaml" in words(await run(tmp_path, command, "gpt-5-mini"))


async def test_a_model_is_added_from_standard_input_listed_tested_and_removed(tmp_path: Path) -> None:
    async with capable_server(models=["gpt-5-mini", "other"]) as server:
        added = await add(tmp_path, server)
        assert added.exit_code == 0, words(added)
        assert "gpt-5-mini: ✓ answer  ✓ streaming  ✓ tool calls  ✓ token counts\n" in added.stdout
        assert f"Saved gpt-5-mini ({server.base_url}).\n" in added.stdout
        assert "2 models are offered; save others with --model NAME." in added.stderr
        listed = await run(tmp_path, "list")
        assert listed.stdout == "gpt-5-mini  saved (OpenAI-compatible), key set  (default)\n"
        tested = await run(tmp_path, "test", "gpt-5-mini")
        assert (tested.exit_code, "✓ answer" in tested.stdout) == (0, True)
        removed = await run(tmp_path, "remove", "gpt-5-mini")
        assert removed.stdout == "Removed gpt-5-mini.\n"
        assert "demo" in (await run(tmp_path, "list")).stdout
    said = "".join(words(each) for each in (added, listed, tested, removed))
    assert KEY not in said and files_with(KEY, tmp_path) == []


async def test_the_key_is_read_from_a_variable_and_several_models_are_saved(tmp_path: Path) -> None:
    async with capable_server() as server:
        chosen = ("--model", "gpt-5-mini", "--model", "second", "--key-env", "MY_KEY")
        added = await add(tmp_path, server, *chosen, key="", MY_KEY=KEY)
        assert added.exit_code == 0 and "Saved gpt-5-mini, second" in added.stdout
        names = [model["name"] for model in json.loads((await run(tmp_path, "list", "--json")).stdout)]
        assert names == ["gpt-5-mini", "second"]
        tested = await run(tmp_path, "test", "second")
        assert tested.exit_code == 0 and server.requests[-1].model == "second"


async def test_a_model_that_does_not_answer_is_saved_by_force_only(tmp_path: Path) -> None:
    async with ScriptedServer([ServerFault(503, "overloaded")], endless=True, models=["busy"]) as server:
        refused = await add(tmp_path, server)
        assert refused.exit_code == 1 and "has an internal problem" in refused.stderr
        assert f"tried GET {server.base_url}/models: 200" in refused.stderr
        forced = await add(tmp_path, server, "--force")
        assert forced.exit_code == 0 and "Saved busy" in forced.stdout
        tested = await run(tmp_path, "test", "busy")
        assert tested.exit_code == 1 and "→ Try again later" in tested.stderr


async def test_a_model_of_config_yaml_wins_and_the_commands_show_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    async with capable_server() as server:
        added = await add(tmp_path, server)
        assert "config.yaml has a model named 'gpt-5-mini', which is used instead" in added.stderr
        listed = await run(tmp_path, "list")
        assert listed.stdout.startswith("gpt-5-mini  config.yaml, key not needed  (default)")
        assert "saved model 'gpt-5-mini' is not used" in listed.stderr
    assert config.read_text() == CONFIG


@pytest.mark.slow
async def test_a_key_that_is_typed_at_the_prompt_is_not_shown(tmp_path: Path) -> None:
    terminal, stdin = pty.openpty()
    command = "from deerflow.cli.main import main; main()"
    variables = {"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": str(Path(deerflow.__file__).parents[1])}
    async with asyncio.timeout(60), capable_server() as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", command, "models", "add", "custom", "--url", server.base_url),
            cwd=tmp_path,
            env=variables,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # without a terminal of its own, the prompt uses standard input
        )
        assert process.stderr is not None
        prompt = await process.stderr.readuntil(b"(empty: none): ")
        os.write(terminal, f"{KEY}\n".encode())
        stdout, stderr = await process.communicate()
    os.set_blocking(terminal, False)
    echoed = b""
    with suppress(BlockingIOError):  # nothing was echoed
        echoed = os.read(terminal, 4096)
    os.close(terminal)
    os.close(stdin)
    assert process.returncode == 0 and b"Saved gpt-5-mini" in stdout
    assert KEY.encode() not in prompt + stdout + stderr + echoed
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_models_are_shared_with_all_users(tmp_path: Path) -> None:
    async with capable_server() as server:
        added = await add(tmp_path, server, "--share")
        assert "All users of the server may use these models.\n" in added.stdout, words(added)
    with closing(sqlite3.connect(next((tmp_path / "home").rglob("deerflow.db")))) as database:
        ((settings,),) = database.execute("SELECT settings FROM saved_models").fetchall()
    assert json.loads(settings)["shared"] is True
