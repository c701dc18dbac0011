"""The first start: clone, `make start`, chat in the browser."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from deerflow.testing import Answer, ScriptedServer, ServerRequest
from deerflow.testing.scripted_server import ServerReply
from tests.e2e.support import Person, Visitor
from tests.models.checked_servers import answer_check
from tests.support import needs

KEY = "sk-proj-canary-2f00ba12cd"
ROOT = Path(__file__).parents[2]
PYTHON = Path(sys.executable).resolve()
TOOLS = ("sh", "make", "git", "uname", "rm", "grep", "sed", "awk", "env")


@pytest.mark.external
@pytest.mark.timeout(900)
async def test_a_bare_clone_starts_with_make_start_and_answers_in_the_browser(tmp_path: Path, visitor: Visitor) -> None:
    clone = copy_repository(tmp_path / "clone")
    environment = bare_environment(tmp_path)
    provider = ScriptedServer([answer_person], endless=True, key=KEY, models=["gpt-5-mini"])

    async with provider:
        # The only thing that a fresh clone does not have: a provider that needs no network.
        (clone / ".env").write_text(f"OPENAI_BASE_URL={provider.base_url}\n")
        await check_first_start(clone, environment, visitor)
        (clone / ".env").unlink()

    # A second start installs and builds nothing, and needs no network.
    offline = {**environment, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    began = time.monotonic()
    with make_start(clone, offline) as (url, output):
        assert "installing" not in output and "building" not in output
        assert time.monotonic() - began < 30

    # The other targets that people have in their shell history.
    assert run_make(clone, offline, "install") == ""
    assert "wrote" in run_make(clone, offline, "config") and (clone / "config.yaml").exists()
    assert run_make(clone, offline, "config") == "config.yaml is there already\n"
    with make_start(clone, offline, target="dev") as (url, _):
        async with httpx.AsyncClient() as http:
            assert "<title>DeerFlow</title>" in (await http.get(url)).text


async def check_first_start(clone: Path, environment: dict[str, str], visitor: Visitor) -> None:
    """Start, ask the demo model, then connect a real one: at most 4 inputs and 60 s from the ready page."""
    with make_start(clone, environment) as (url, output):
        assert "installing packages" in output and "building the web page" in output
        assert "Node 20+ was not found" in output  # Node is not on this PATH, so the wheel is used
        page = await visitor.open(url)
        await page.get_by_role("textbox").fill("What is DeerFlow, and what can it do?")
        await page.keyboard.press("Enter")
        answer = page.locator("main")
        await expect(answer).to_contain_text("super agent harness")
        length = len(await answer.inner_text())
        await expect(answer).to_contain_text("when you are ready", timeout=30_000)
        assert length < len(await answer.inner_text())
        await page.reload()
        await expect(page.locator("main")).to_contain_text("when you are ready")
        await expect(page.locator("main")).to_contain_text("What is DeerFlow, and what can it do?")
        await page.close()

        page = await visitor.open(url)
        connect = page.get_by_role("button", name="Connect a model")
        await expect(connect).to_be_visible()
        person, began = Person(page), time.monotonic()
        await person.click(connect)
        await person.paste(page.get_by_role("dialog").get_by_role("textbox", name="API key"), KEY)
        await expect(page.get_by_text("It works.")).to_be_visible(timeout=30_000)
        await person.click(page.get_by_role("button", name="Save", exact=True))
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await person.send("Who answers?")
        await expect(page.get_by_text("Hello from a real model.")).to_be_visible(timeout=30_000)
        assert person.inputs <= 4 and time.monotonic() - began <= 60
        await page.close()  # it would miss its server


def answer_person(request: ServerRequest) -> ServerReply:
    """Pass a check, and answer messages of people."""
    is_person = any("Who answers?" in str(message.get("content")) for message in request.messages)
    return Answer("Hello from a real model.") if is_person else answer_check(request)


@pytest.mark.external
@pytest.mark.timeout(300)
def test_start_failures_are_reported_in_one_sentence(tmp_path: Path) -> None:
    clone = copy_repository(tmp_path / "clone")
    environment = bare_environment(tmp_path)

    python = tmp_path / "bin/python3"
    python.unlink()
    python.write_text("#!/bin/sh\nexit 1  # what an old Python answers when it is asked for its version\n")
    python.chmod(0o755)
    assert "DeerFlow needs Python 3.11 or newer, and none was found" in run_failing_start(clone, environment)

    python.unlink()
    python.symlink_to(PYTHON)
    offline = {
        **environment,
        "HOME": str(tmp_path / "empty"),
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    offline.pop("PIP_FIND_LINKS", None)
    output = run_failing_start(clone, offline)
    assert "could not install or build uv; is the network reachable?" in output


@contextmanager
def make_start(clone: Path, environment: dict[str, str], target: str = "start") -> Iterator[tuple[str, str]]:
    """Run `make start` until it prints its address, and return address and output."""
    command = ["make", target, "PORT=0"]
    process = subprocess.Popen(
        command,
        cwd=clone,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found[0], output
                break
        else:
            pytest.fail(f"make {target} ended without an address:\n{output}")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=20)
        process.stdout.close()


def run_make(clone: Path, environment: dict[str, str], target: str) -> str:
    """Run a target that succeeds and return its output."""
    command = ["make", target]
    return subprocess.run(
        command, cwd=clone, env=environment, text=True, stdout=subprocess.PIPE, timeout=250, check=True
    ).stdout


def run_failing_start(clone: Path, environment: dict[str, str]) -> str:
    """Run `make start`, which must fail, and return its output."""
    result = subprocess.run(
        ["make", "start", "PORT=0"],
        cwd=clone,
        env=environment,
        text=True,
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert result.returncode != 0
    return result.stdout + result.stderr


def copy_repository(target: Path) -> Path:
    """Copy the files that a clone of this repository has."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    file_list = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, file_list.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target


def bare_environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH has only Python, make and the shell; package client settings are kept."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for tool in TOOLS:
        (bin_ / tool).symlink_to(Path(needs(tool)).resolve())
    (bin_ / "python3").symlink_to(PYTHON)
    settings = {
        key: value
        for key, value in os.environ.items()  # noqa: TID251
        if key.startswith(("PIP_", "UV_", "NPM_", "npm_", "SSL_", "NODE_EXTRA", "REQUESTS_", "XDG_CACHE"))
        or key.lower() in ("http_proxy", "https_proxy", "no_proxy", "home", "lang")
    }
    return {**settings, "PATH": str(bin_)}
