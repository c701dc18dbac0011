"""Start without usable storage, `deerflow db`, and serving without usable output."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import httpx
import pytest

from tests.e2e.server_process import run_deerflow
from tests.support import fill_disk, mount_disk

pytestmark = pytest.mark.slow

DEERFLOW = Path(sys.executable).parent / "deerflow"
LIMIT_S = 60


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.defpath, "HOME": str(home.parent), "DEER_FLOW_HOME": str(home)}
    return run_deerflow(*arguments, folder=home.parent, environment=variables)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a small disk."""
    with mount_disk(tmp_path / "disk", 8) as folder:
        yield folder


def fill(disk: Path) -> None:
    fill_disk(disk / "filler")


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


@pytest.mark.external
@pytest.mark.parametrize("was_used", [False, True])
@pytest.mark.parametrize(("harm", "remedy"), [(fill, "free some space"), (make_read_only, "writable|be written")])
def test_a_start_on_a_disk_that_cannot_be_written_ends_with_one_sentence(
    disk: Path, harm: Callable[[Path], None], remedy: str, was_used: bool
) -> None:
    home = disk / "home"
    if was_used:
        assert run(home, "chat", "Hi").returncode == 0
    harm(disk)
    for command in (("chat", "Hi"), ("serve", "--port", "0")):
        result = run(home, *command)
        assert result.returncode == 1 and result.stdout == "", result
        (line,) = result.stderr.splitlines()
        assert line.startswith("deerflow: ") and any(part in line for part in remedy.split("|")), line
        assert "DEER_FLOW_HOME" in line


def damage(home: Path) -> Path:
    """Overwrite a page of the table of runs."""
    file = home / "data" / "deerflow.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        (page,) = connection.execute("SELECT pageno FROM dbstat WHERE name = 'runs' AND pagetype = 'leaf'").fetchone()
    with file.open("r+b") as content:
        content.seek((page - 1) * size)
        content.write(b"\xa5" * size)
    return file


def test_a_damaged_database_is_found_repaired_and_used_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run(home, "chat", "Hi", "--thread", "t").returncode == 0
    assert run(home, "db", "check").stdout.count(": ok\n") == 2
    file = damage(home)
    found = run(home, "db", "check")
    assert found.returncode == 1 and f"{file}: damaged" in found.stdout and "deerflow db repair" in found.stdout
    refused = run(home, "chat", "Hi", "--thread", "t")
    assert refused.returncode == 1 and "deerflow db" in refused.stderr and "Traceback" not in refused.stderr
    repaired = run(home, "db", "repair")
    assert repaired.returncode == 0 and "runs: a part could not be read" in repaired.stdout, repaired
    assert "checkpoints.db: nothing to repair" in repaired.stdout
    assert run(home, "db", "check").returncode == 0
    assert run(home, "chat", "Hi", "--thread", "t").returncode == 0


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def serving(home: Path, output: int | Path) -> Iterator[httpx.Client]:
    """Run a server that prints into `output`; yield a client once it answers."""
    port, variables = find_free_port(), {"PATH": os.defpath, "HOME": str(home.parent), "DEER_FLOW_HOME": str(home)}
    with Path(output).open("w") if isinstance(output, Path) else nullcontext(output) as out:
        command = [DEERFLOW, "serve", "--port", str(port)]
        process = subprocess.Popen(command, cwd=home.parent, env=variables, stdout=out, stderr=out)
    try:
        transport = httpx.HTTPTransport(retries=20)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=LIMIT_S) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()


def test_a_database_in_use_is_not_repaired(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home, subprocess.DEVNULL) as client:
        assert client.get("/ready").status_code == 200
        result = run(home, "db", "repair")
    assert result.returncode == 1 and result.stderr == "deerflow: a server uses the database; stop it first\n"


def test_a_full_output_device_does_not_break_serving(tmp_path: Path) -> None:
    body = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
    with serving(tmp_path / "home", Path("/dev/full")) as client:
        assert client.get("/ready").status_code == 200
        assert client.post("/api/threads/t/runs/wait", json={**body, "if_not_exists": "create"}).status_code == 200
