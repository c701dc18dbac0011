"""The `deerflow` command as a process."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import deerflow
from deerflow.cli.serve import is_loopback
from deerflow.gateway.page import STATIC
from deerflow.testing import ScriptedServer, calling

pytestmark = pytest.mark.slow

DEERFLOW = Path(sys.executable).parent / "deerflow"


def run(directory: Path, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.defpath, "HOME": str(directory), **environment}
    return subprocess.run(
        [DEERFLOW, *arguments], cwd=directory, env=variables, input=stdin, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


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
def test_serve_refuses_addresses_reachable_from_other_machines(tmp_path: Path, host: str) -> None:
    result = run(tmp_path, "serve", "--host", host, "--port", "0")
    assert result.returncode == 1
    assert f"{host!r} is reachable from other machines and there is no login yet" in result.stderr
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
