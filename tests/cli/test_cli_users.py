"""`deerflow users`, `deerflow audit` and the set-up link, as processes."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.e2e.server_process import SOURCES, run_deerflow

pytestmark = pytest.mark.slow

ANN, BOB, PASSWORD = "ann@example.com", "bob@example.com", "correct horse battery"


def variables(home: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": SOURCES}


def users(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_deerflow("users", *arguments, folder=home, environment=variables(home), stdin=stdin)


def test_accounts_are_managed_without_a_server(tmp_path: Path) -> None:
    assert "No accounts" in users(tmp_path, "list").stderr
    assert users(tmp_path, "add", ANN, stdin=f"{PASSWORD}\n").stdout == f"Added {ANN} (admin).\n"
    assert users(tmp_path, "add", BOB, stdin=f"{PASSWORD}\n").stdout == f"Added {BOB} (user).\n"
    found = json.loads(users(tmp_path, "list", "--json").stdout)
    assert [(each["email"], each["role"], each["is_active"]) for each in found] == [
        (ANN, "admin", True),
        (BOB, "user", True),
    ]
    assert found[0]["user_id"] == "local" and "password" not in str(found)
    assert users(tmp_path, "disable", BOB).returncode == 0
    assert "(disabled)" in users(tmp_path, "list").stdout
    assert users(tmp_path, "disable", BOB, "--enable").stdout == f"Enabled {BOB}.\n"
    assert users(tmp_path, "reset", BOB).stdout.startswith("/reset-password#")
    assert users(tmp_path, "invite").stdout.startswith("/invitation#")
    assert users(tmp_path, "delete", BOB, "--yes").stdout == f"Deleted {BOB}.\n"


def audit(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_deerflow("audit", *arguments, folder=home, environment=variables(home))


def test_the_audit_log_is_verified_and_exported_without_a_server(tmp_path: Path) -> None:
    for email in (ANN, BOB):
        users(tmp_path, "add", email, stdin=f"{PASSWORD}\n")
    kept = audit(tmp_path, "head").stdout.strip()
    assert kept.startswith("2:")
    users(tmp_path, "disable", BOB)
    assert audit(tmp_path, "verify", "--head", kept).stdout.startswith("The audit log is valid: 3 entries, head 3:")
    entries = [json.loads(line) for line in audit(tmp_path, "export").stdout.splitlines()]
    assert [each["kind"] for each in entries] == ["account.created", "account.created", "account.changed"]
    assert audit(tmp_path, "export", "--from", "2100-01-01").stdout == ""
    (database,) = tmp_path.rglob("deerflow.db")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM audit_entries WHERE seq > 1")
        connection.execute("UPDATE audit_head SET seq = 1, hash = (SELECT hash FROM audit_entries)")
    assert audit(tmp_path, "verify").returncode == 0
    found = audit(tmp_path, "verify", "--head", kept)
    assert found.returncode == 1 and "once had 2 entries" in found.stdout
    assert "SEQ:HASH" in audit(tmp_path, "verify", "--head", "2").stderr


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    assert users(tmp_path, "add", "ann", stdin=f"{PASSWORD}\n").stderr.startswith("deerflow: enter an e-mail address")
    assert "a password has 8 to 1024 characters" in users(tmp_path, "add", ANN, stdin="short\n").stderr
    assert users(tmp_path, "reset", ANN).stderr == f"deerflow: no account '{ANN}'\n"
    users(tmp_path, "add", ANN, stdin=f"{PASSWORD}\n")
    assert "already" in users(tmp_path, "add", ANN.upper(), stdin=f"{PASSWORD}\n").stderr
    for command in (["disable", ANN], ["delete", ANN, "--yes"]):
        result = users(tmp_path, *command)
        assert result.returncode == 1 and "last administrator" in result.stderr


def test_a_server_on_another_address_prints_a_set_up_link(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from deerflow.cli.main import main; main()", "serve", "--port", "0"]
    (tmp_path / "config.yaml").write_text("sandbox: {toolbox: {enabled: false}}\n")
    arguments = [*command, "--host", "0.0.0.0"]
    environment = variables(tmp_path)
    with subprocess.Popen(arguments, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            use_set_up_link(tmp_path, [server.stdout.readline() for _ in range(3)])
        finally:
            server.terminate()
            server.wait(30)


def use_set_up_link(home: Path, lines: list[str]) -> None:
    """Make the first account with the link that a server has printed, and a second one in the terminal."""
    url, _, token = lines[2].strip().partition("/setup#")
    base = url.replace("0.0.0.0", "127.0.0.1")
    with httpx.Client(base_url=base, timeout=30, headers={"origin": base}) as http:
        assert http.get("/api/v1/auth/setup-status").json()["needs_setup"] is True
        assert http.get("/api/threads/x").status_code == 401
        body = {"token": token, "email": ANN, "password": PASSWORD}
        assert http.post("/api/v1/auth/initialize", json=body).status_code == 200
        assert http.get("/api/v1/auth/me").json()["id"] == "local"
        # Another process adds a person, who may log in at once.
        assert users(home, "add", BOB, stdin=f"{PASSWORD}\n").returncode == 0
        login = {"email": BOB, "password": PASSWORD}
        assert http.post("/api/v1/auth/login/local", json=login).json()["user"]["system_role"] == "user"


def test_an_administrator_sets_and_shows_limits_of_a_person(tmp_path: Path) -> None:
    assert users(tmp_path, "add", ANN, stdin=f"{PASSWORD}\n").returncode == 0
    limits = ("tokens_per_day=500000", "cost_per_day=2.50", "concurrent_runs=none")
    done = users(tmp_path, "quota", ANN, *limits)
    assert done.returncode == 0, done.stderr
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert shown["tokens_per_day"] == "500000 (set for this person)"
    assert shown["cost_per_day"] == "2.50 (set for this person)"
    assert shown["concurrent_runs"] == "none (set for this person)"
    assert shown["storage_mb"] == "none"
    again = users(tmp_path, "quota", ANN, "tokens_per_day=default").stdout
    assert "500000" not in again and "2.50" in again


@pytest.mark.parametrize("limit", ["tokens_per_day=5", "tokens_per_day=x", "speed=1", "runs", "storage_mb=-1"])
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, limit: str) -> None:
    assert users(tmp_path, "add", ANN, stdin=f"{PASSWORD}\n").returncode == 0
    refused = users(tmp_path, "quota", ANN, limit)
    assert refused.returncode != 0 and limit.partition("=")[0] in refused.stderr and "Traceback" not in refused.stderr
