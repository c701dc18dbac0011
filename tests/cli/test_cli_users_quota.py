"""Limits of people in the terminal."""

from pathlib import Path

import pytest

from tests.cli.test_cli_users import ANN, users

pytestmark = pytest.mark.slow

PASSWORD = "correct horse battery"


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
