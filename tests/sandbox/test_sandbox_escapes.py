"""Escape attempts by commands fail, and their harmless twins work."""

import fcntl
import json
import os
import secrets
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.escape_attempts import BY_COMMAND
from tests.sandbox.escape_environment import SECRET_VARIABLE
from tests.sandbox.host_escape_attempts import BY_HOST

MODES = ["root", "user"] if os.geteuid() == 0 else ["user"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first test makes all attempts
NAMES = [*(attempt.name for attempt in BY_COMMAND), *BY_HOST]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the results of all attempts, made once for all workers."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # noqa: TID251 (pytest-xdist tells its workers so)
        shared = shared.parent
    with (shared / "escapes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "escapes.json"
        if not kept.exists():
            with ThreadPoolExecutor() as threads:
                kept.write_text(json.dumps(dict(zip(MODES, threads.map(run_all_attempts, MODES), strict=True))))
        return json.loads(kept.read_text())


def run_all_attempts(mode: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="deerflow-escapes-") as folder:
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "tests.sandbox.host_escape_attempts", mode, folder],
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), SECRET_VARIABLE: secrets.token_hex(16)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=240,
        )
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", MODES)
def test_isolates_commands_on_this_machine(results: dict[str, Any], mode: str) -> None:
    assert results[mode]["tier"] == "isolated"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_refuses_an_escape_that(results: dict[str, Any], mode: str, name: str) -> None:
    verdict = results[mode]["verdicts"][name]
    assert not verdict["escaped"], verdict["evidence"]
    assert verdict["works"], f"what is allowed does not work: {verdict['evidence']}"
