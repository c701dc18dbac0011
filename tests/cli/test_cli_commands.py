"""The `deerflow` command as a process."""

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import deerflow
from deerflow.cli.serve import is_loopback
from deerflow.gateway.app import STATIC
from deerflow.testing import Answer, ScriptedServer, Stall, calling
from tests.e2e.server_process import run_deerflow

pytestmark = pytest.mark.slow

DEERFLOW = Path(sys.executable).parent / "deerflow"
SOURCES = Path(deerflow.__file__).parents[1]
ASKING = calling("ask_clarification", question="Black or green?", clarification_type="missing_info")
KETTLE = """def boil(cups: int) -> str:
    '''Boil water.

    Args:
        cups: How much.
    '''
    return "It boils."
"""
APPROVAL = {"tools": [{"name": "boil", "group": "kitchen", "use": "kettle:boil", "approval": "always"}]}
BOIL = calling("boil", cups=2)


def run(directory: Path, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.defpath, "HOME": str(directory), "PYTHONPATH": str(SOURCES), **environment}
    return run_deerflow(*arguments, folder=directory, environment=variables, stdin=stdin)


def test_version_is_printed(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout == f"deerflow {deerflow.__version__}\n"


def test_chat_prints_the_answer_and_keeps_the_thread(tmp_path: Path) -> None:
    result = run(tmp_path, "chat", "How do I connect a real model?", "--thread", "t")
    assert result.returncode == 0 and "OPENAI_API_KEY" in result.stdout and result.stdout.endswith("\n")
    piped = run(tmp_path, "chat", "-", "--thread", "t", stdin="What is DeerFlow?\n")
    assert "super agent harness" in piped.stdout


async def test_chat_prints_subagent_progress_to_standard_error(tmp_path: Path) -> None:
    task_call = calling("task", description="Look around", prompt="Look around.", subagent_type="general-purpose")
    ls_call = calling("ls", description="Look", path="/mnt/user-data")
    async with ScriptedServer([task_call, ls_call, "Seen.", "All seen."]) as model:
        entry = model.model_config().model_dump(mode="json", exclude_none=True)
        (tmp_path / "config.yaml").write_text(json.dumps({"models": [entry]}))
        result = await asyncio.to_thread(run, tmp_path, "chat", "Look around", "--subagents")
    assert result.stdout == "All seen.\n"
    lines = [line for line in result.stderr.splitlines() if line.startswith("[Look around] ")]
    started, calls, completed = (line.removeprefix("[Look around] ") for line in lines)
    assert (started, calls) == ("started (general-purpose)", "calls ls") and completed.startswith("completed after ")


@asynccontextmanager
async def chat(
    directory: Path, turns: Sequence[Any], typed: str | None = None, **config: Any
) -> AsyncIterator[tuple[asyncio.subprocess.Process, ScriptedServer]]:
    """Yield `deerflow chat` with a scripted model, on a terminal where `typed` was entered, or without one."""
    async with ScriptedServer(turns) as model:
        entry = model.model_config().model_dump(mode="json", exclude_none=True)
        (directory / "config.yaml").write_text(json.dumps({"models": [entry], "title": {"enabled": False}, **config}))
        (directory / "kettle.py").write_text(KETTLE)
        terminal, stdin = pty.openpty()
        os.write(terminal, (typed or "").encode())
        process = await asyncio.create_subprocess_exec(
            *(DEERFLOW, "chat", "Make tea", "--thread", "t"),
            cwd=directory,
            env={"PATH": os.defpath, "HOME": str(directory), "PYTHONPATH": f"{SOURCES}:{directory}"},
            stdin=asyncio.subprocess.DEVNULL if typed is None else stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                yield process, model
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            os.close(terminal)
            os.close(stdin)


async def test_chat_asks_questions_of_the_agent_on_a_terminal(tmp_path: Path) -> None:
    async with chat(tmp_path, [ASKING, "Green it is."], "green\n") as (process, model):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors
    assert "Black or green?" in output.decode() and output.decode().endswith("Green it is.\n")
    assert model.requests[-1].messages[-1]["content"] == "green"


async def test_chat_without_a_terminal_prints_questions_and_ends_with_code_3(tmp_path: Path) -> None:
    async with chat(tmp_path, [ASKING]) as (process, _):
        output, errors = await process.communicate()
    assert process.returncode == 3 and "Black or green?" in output.decode()
    assert errors.decode().splitlines()[-1].startswith("the agent waits for an answer: open thread t in the page")


@pytest.mark.parametrize(("typed", "decided"), [("y\n", "It boils."), ("n\n", "reject")])
async def test_chat_asks_for_approvals_on_a_terminal(tmp_path: Path, typed: str, decided: str) -> None:
    async with chat(tmp_path, [BOIL, "Done."], typed, **APPROVAL) as (process, model):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors
    assert output.decode().endswith("Done.\n")
    assert 'approval needed: boil {"cups": 2}' in errors.decode()
    assert decided in str(model.requests[-1].messages[-1]["content"])


async def test_chat_without_a_terminal_prints_approvals_and_ends_with_code_3(tmp_path: Path) -> None:
    async with chat(tmp_path, [BOIL], **APPROVAL) as (process, _):
        _, errors = await process.communicate()
    assert process.returncode == 3
    assert "approval needed: boil" in errors.decode() and "the agent waits for an approval" in errors.decode()


async def test_chat_ends_quietly_on_ctrl_c(tmp_path: Path) -> None:
    async with chat(tmp_path, [Stall(Answer("Working"))]) as (process, model):
        await model.waiting.wait()
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors.decode() and "Aborted" not in errors.decode()


def test_chat_refuses_an_empty_message(tmp_path: Path) -> None:
    result = run(tmp_path, "chat", "-", stdin="  \n")
    assert result.returncode == 1
    assert result.stderr == "deerflow: the message is empty\n"


def test_an_unreachable_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(unreachable_model())
    result = run(tmp_path, "chat", "Hi")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("deerflow: ")
    assert "127.0.0.1:9" in result.stderr and "Traceback" not in result.stderr


def test_a_busy_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = run(tmp_path, "serve", "--port", str(port))
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"deerflow: port {port} is in use; stop the program that uses it, or choose another"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_addresses_that_other_machines_reach_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_serve_reports_an_unavailable_address_in_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, "serve", "--host", "192.0.2.1", "--port", "0", "--allow-remote")
    assert result.returncode == 1
    assert "deerflow: cannot listen on '192.0.2.1', port 0" in result.stderr


def test_serve_reports_file_line_and_key_of_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server:\n  prot: 80\n")
    result = run(tmp_path, "serve")
    assert result.returncode == 1
    assert "config.yaml:2: server.prot: unknown key; did you mean 'port'?" in result.stderr


def test_doctor_passes_on_a_healthy_machine(tmp_path: Path) -> None:
    result = run(tmp_path, "doctor")
    assert STATIC.joinpath("index.html").is_file()
    assert result.returncode == 0, result.stdout + result.stderr
    for subject in ("versions", "web page", "configuration", "model", "sandbox", "disk", "port"):
        assert f"{subject}: " in result.stdout
    assert "only the built-in demo model" in result.stdout and "OPENAI_API_KEY" in result.stdout


def test_doctor_reports_failures_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(unreachable_model())
    result = run(tmp_path, "doctor")
    assert result.returncode == 1
    assert "✗ model: 'nowhere': " in result.stdout
    assert "→ check its key, address and name in config.yaml" in result.stdout

    (tmp_path / "config.yaml").write_text("models: 3\n")
    result = run(tmp_path, "doctor")
    assert result.returncode == 1
    assert "✗ configuration: config.yaml:1: models" in result.stdout


def unreachable_model() -> str:
    return (
        "models:\n  - name: nowhere\n    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel\n"
        "    model: m\n    base_url: http://127.0.0.1:9/v1\n"
    )
