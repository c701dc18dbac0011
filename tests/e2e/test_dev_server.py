"""`make dev`: the server is restarted after changes of its source."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = "import signal; print('up', flush=True); signal.pause()"


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_restarts_the_command_after_a_change_and_ends_with_it(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("a = 1\n")
    command = [sys.executable, ROOT / "scripts" / "dev.py", tmp_path, "--", sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        source.write_text("a = 1 + 1\n")
        assert process.stdout.readline() == f"restarting: {source} changed\n"
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait(20) == 0
        assert process.stdout.read() == ""


def test_the_printed_targets_exist() -> None:
    for target in ("config", "install", "dev", "config-upgrade"):
        listed = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert "scripts/bootstrap.py app" in listed
        assert "scripts/dev.py src -- .venv/bin/deerflow serve" in listed or target != "dev"
