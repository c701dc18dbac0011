"""DeerFlow on macOS and Windows, as far as Linux can imitate them."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deerflow
from tests.architecture.other_system import POSIX_MODULES, PROGRAMS

SOURCE = Path(deerflow.__file__).parent
PROGRAM = Path(__file__).with_name("other_system.py")


def test_modules_that_windows_lacks_are_imported_conditionally() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if ".".join(["deerflow", *path.relative_to(SOURCE).with_suffix("").parts]) not in PROGRAMS
        for name in list_unconditional_imports(path)
        if name in POSIX_MODULES
    ]
    assert found == []


def list_unconditional_imports(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


@pytest.mark.slow
def test_server_starts_on_windows_and_says_what_to_do(tmp_path: Path) -> None:
    seen = run_on("win32", tmp_path)
    assert seen["health"] == 200 and seen["answer"] == "Done."
    assert seen["tier"] == "none" and "WSL2" in seen["remedy"] and "container" in seen["remedy"]
    assert all("there is no tool" in result or "WSL2" in result for result in seen["tools"])
    assert seen["upload"] == 503 and "WSL2" in seen["problem_of_upload"]


@pytest.mark.slow
def test_server_starts_on_macos_and_keeps_files(tmp_path: Path) -> None:
    seen = run_on("darwin", tmp_path)
    assert seen["health"] == 200 and seen["answer"] == "Done."
    assert seen["tier"] == "none" and "sandbox-exec was not found" in seen["problem"]
    assert seen["tools"][-1] == "written" and seen["upload"] == 200


def run_on(system: str, folder: Path) -> dict[str, Any]:
    """Import all modules and start the server as on another system; return what was seen."""
    command = [sys.executable, str(PROGRAM), system, str(folder)]
    variables = {"PYTHONPATH": str(SOURCE.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen
