"""Every program in `examples/` runs and prints what it should."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.config.source import ConfigSource
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.e2e.server_process import run_deerflow
from tests.support import browse

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 100
PRINTED = {
    "chat": ["deerflow config init", "Thread: tour Title: What is DeerFlow?"],
    "streaming": ["[write_file] OK", "I saved a note about deer.", "Tokens: "],
    "concurrent_threads": ["tour: ", "formats: ", "2 threads"],
    "openai_compatible": ["Answer: Four.", "Requests: 2"],
    "custom_tool": ["A pear costs 0.90 EUR.", "Tool result: 0.90 EUR"],
    "custom_agent": ["Agents: ['editor']", "Answer: Cut the first sentence.", "part of the prompt: True"],
    "custom_skill": ["Custom skills: ['house-style']", "History: create by person", "part of the prompt: True"],
    "subagent_batch": ["All cities are checked.", "Lima completed Check the city Lima: done"],
    "memory": [
        "Found: Drinks green tea",
        "Changed: fact_changed by user",
        "After undo: Drinks green",
        "Injected: True",
    ],
    "mcp_tools": ["Server: ready ['forecast']", "Tool result: Rain in Oslo", "Answer: Take an umbrella."],
    "guardrail_policy": ["not allowed: files with secrets", "Waiting for approval: write_file", "Answer: Published."],
    "files": [
        "Uploaded: /mnt/user-data/uploads/notes.txt",
        "Changed: ['/mnt/user-data/outputs/report.md']",
        "# Report",
    ],
}
SERVED = {"http_resume"}
"""Programs that need a running server."""
PARTS = {"mcp_server"}
"""Programs that another example starts."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
async def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    printed = await run_example(name, tmp_path)
    assert [text for text in PRINTED[name] if text not in printed] == [], printed


@pytest.mark.slow
def test_an_example_runs_as_a_program_of_its_own(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [sys.executable, str(EXAMPLES / "chat.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert PRINTED["chat"][1] in done.stdout


@pytest.mark.slow
async def test_the_http_example_continues_where_it_disconnected(source: ConfigSource, tmp_path: Path) -> None:
    model = ScriptedModel.saying("A super agent harness with a sandbox.")
    async with open_harness(source, model) as harness, browse(harness) as http:
        printed = await run_example("http_resume", tmp_path, str(http.base_url).rstrip("/"))
    assert (seen := re.search(r"Disconnected after event (\d+)", printed)), printed
    assert f"Continued with event {int(seen[1]) + 1} - all later events in order: True" in printed


def test_every_example_is_run_and_listed() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    assert programs == PRINTED.keys() | SERVED | PARTS
    listed = (EXAMPLES / "README.md").read_text()
    assert [name for name in programs if f"({name}.py)" not in listed] == []


def test_examples_are_short() -> None:
    assert [path.name for path in EXAMPLES.glob("*.py") if path.read_text().count("\n") > 45] == []


async def run_example(name: str, folder: Path, *arguments: str) -> str:
    """Run a program in an empty folder, without variables of this machine, and return what it printed."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONUNBUFFERED": "1"}
    program = str(EXAMPLES / f"{name}.py")
    done = await asyncio.to_thread(run_deerflow, program, *arguments, folder=folder, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
