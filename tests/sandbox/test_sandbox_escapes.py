"""Whatever a command tries, it stays in its sandbox; and what it may do, it can."""

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

from tests.sandbox.escape_world import SECRET_VARIABLE
from tests.sandbox.escapes import BY_COMMAND
from tests.sandbox.host_escapes import BY_HOST

MODES = ["root", "user"] if os.geteuid() == 0 else ["user"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # the first test makes all attempts
NAMES = [*(attempt.name for attempt in BY_COMMAND), *BY_HOST]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of all attempts; they are made once, however many workers want to know."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # noqa: TID251 (pytest-xdist tells its workers so)
        shared = shared.parent
    with (shared / "escapes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "escapes.json"
        if not kept.exists():
            with ThreadPoolExecutor() as threads:
                kept.write_text(json.dumps(dict(zip(MODES, threads.map(try_all, MODES), strict=True))))
        return json.loads(kept.read_text())


def try_all(mode: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="deerflow-escapes-") as folder:
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "tests.sandbox.host_escapes", mode, folder],
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), SECRET_VARIABLE: secrets.token_hex(16)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=240,
        )
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", MODES)
def test_commands_are_isolated_here(results: dict[str, Any], mode: str) -> None:
    assert results[mode]["tier"] == "isolated"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_nobody_escapes_who(results: dict[str, Any], mode: str, name: str) -> None:
    verdict = results[mode]["verdicts"][name]
    assert not verdict["escaped"], verdict["evidence"]
    assert verdict["works"], f"what is allowed does not work: {verdict['evidence']}"
