"""`deerflow channels`: state of the chat apps, and codes."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from deerflow.channels.lease import LOCKS
from deerflow.channels.service import ChannelState
from deerflow.cli.main import build_app
from deerflow.config.source import open_source
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.liveness import hold_process_lock
from deerflow.persistence.queries import channels as rows
from deerflow.testing.channels.telegram import TOKEN

CONFIG = "channels:\n  telegram: {{bot_token: '{token}', base_url: '{url}'}}\n"


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        build_app(["channels", *arguments]), ["channels", *arguments], env={"DEER_FLOW_PROJECT_ROOT": str(home)}
    )


def write_config(home: Path, url: str = "http://127.0.0.1:9") -> None:
    (home / "config.yaml").write_text(CONFIG.format(token=TOKEN, url=url))


async def change(home: Path, *changes: Any) -> None:
    """Change the database of an installation."""
    loaded = open_source(directory=home, environment={}).current
    loaded.home.mkdir(parents=True, exist_ok=True)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        for each in changes:
            await database.write(each)


def test_without_a_chat_app_there_is_neither_state_nor_code(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("log_level: info\n")
    assert run(tmp_path, "status").output.startswith("No chat app is configured: add one to `channels:`")
    assert "No chat app is configured" in run(tmp_path, "test").output
    refused = run(tmp_path, "code")
    assert refused.exit_code == 1 and "no chat app is configured" in str(refused.exception or refused.output)


def test_a_code_is_printed_if_there_is_a_chat_app(tmp_path: Path) -> None:
    write_config(tmp_path)
    assert "/connect " in run(tmp_path, "code").output


def test_says_that_no_server_runs(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = run(tmp_path, "status")
    assert (result.exit_code, result.output) == (1, "telegram: no server runs\n")


@pytest.mark.parametrize(
    ("state", "line", "code"),
    [
        (ChannelState("deer_bot", "2026-11-19T10:00:00+00:00", received=3, sent=2), "connected as @deer_bot since", 0),
        (ChannelState(last_error="Telegram cannot be reached"), "not connected: Telegram cannot be reached; 0 in", 1),
    ],
)
def test_prints_the_state_of_a_running_server(tmp_path: Path, state: ChannelState, line: str, code: int) -> None:
    write_config(tmp_path)
    home = open_source(directory=tmp_path, environment={}).current.home
    with hold_process_lock(home / LOCKS) as process:
        create = partial(rows.create_lease, name="telegram")
        take = partial(take_any, process=process)
        renew = partial(rows.renew_lease, name="telegram", process=process, state=state.to_json())
        asyncio.run(change(tmp_path, create, take, renew))
        result = run(tmp_path, "status")
        assert line in result.output and result.exit_code == code
    assert run(tmp_path, "status").output == "telegram: no server runs\n"  # the process has ended without a word


def take_any(connection: Any, process: str) -> None:
    seen = rows.find_lease(connection, "telegram")
    assert seen is not None and rows.take_lease(connection, seen, process)
