"""Reloading of the configuration."""

import logging
import os
from pathlib import Path

import pytest

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError


@pytest.fixture
def source(tmp_path: Path) -> ConfigSource:
    replace_file(tmp_path / "config.yaml", "title:\n  max_chars: 20\n")
    return open_source(directory=tmp_path, environment={})


def replace_file(file: Path, text: str) -> None:
    """Replace the file by another one, as an editor does, so that the change is detected by its inode."""
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)


def test_raises_for_an_initially_invalid_configuration(tmp_path: Path) -> None:
    replace_file(tmp_path / "config.yaml", "log_level: loud\n")

    with pytest.raises(ConfigError, match="log_level"):
        open_source(directory=tmp_path, environment={})


def test_returns_the_same_object_without_an_edit(source: ConfigSource) -> None:
    assert source.refresh() is source.current is source.refresh()


def test_an_edit_takes_effect_at_the_next_refresh(source: ConfigSource, tmp_path: Path) -> None:
    replace_file(tmp_path / "config.yaml", "title:\n  max_chars: 30\n")
    assert source.current.config.title.max_chars == 20

    assert source.refresh().config.title.max_chars == 30
    assert source.current.config.title.max_chars == 30


def test_detects_an_edit_of_the_same_length(source: ConfigSource, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    before = file.stat()
    file.write_text("title:\n  max_chars: 30\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    assert source.refresh().config.title.max_chars == 30


def test_detects_created_and_deleted_files(source: ConfigSource, tmp_path: Path) -> None:
    replace_file(tmp_path / ".env", "CHARS=30\n")
    replace_file(tmp_path / "config.yaml", "title:\n  max_chars: $CHARS\n")
    replace_file(tmp_path / "extensions_config.json", '{"skills": {"a": {"enabled": false}}}')
    loaded = source.refresh()
    assert loaded.config.title.max_chars == 30
    assert loaded.extensions.skills["a"].enabled is False

    replace_file(tmp_path / ".env", "CHARS=40\n")
    assert source.refresh().config.title.max_chars == 40

    (tmp_path / "config.yaml").unlink()
    (tmp_path / "extensions_config.json").unlink()
    loaded = source.refresh()
    assert loaded.config.title.max_chars == 60
    assert loaded.extensions.skills == {}


@pytest.mark.parametrize("text", ["", "\n  \n"])
def test_an_emptied_file_changes_nothing_until_it_is_written_or_deleted(
    source: ConfigSource, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    replace_file(tmp_path / "config.yaml", text)
    assert source.refresh().config.title.max_chars == 20
    assert source.problem == "config.yaml is empty; delete it to use the defaults" and source.problem in caplog.text

    replace_file(tmp_path / "config.yaml", "title:\n  max_chars: 30\n")
    assert source.refresh().config.title.max_chars == 30 and source.problem is None

    replace_file(tmp_path / "config.yaml", "# nothing but a comment\n")
    assert source.refresh().config.title.max_chars == 60


def test_overrides_win_over_an_edited_file(tmp_path: Path) -> None:
    source = open_source(overrides={"title": {"max_chars": 15}}, directory=tmp_path, environment={})

    replace_file(tmp_path / "config.yaml", "title:\n  max_chars: 30\n  enabled: false\n")

    title = source.refresh().config.title
    assert (title.max_chars, title.enabled) == (15, False)


def test_an_invalid_edit_changes_nothing_and_is_logged_once(
    source: ConfigSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replace_file(tmp_path / "config.yaml", "title:\n  max_char: 30\n")

    before = source.current
    assert [source.refresh(), source.refresh(), source.refresh()] == [before] * 3

    assert source.problem == "config.yaml:2: title.max_char: unknown key; did you mean 'max_chars'?"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert source.problem in caplog.text

    replace_file(tmp_path / "config.yaml", "title:\n  max_char: 31\n")
    source.refresh()
    assert len(caplog.records) == 2

    replace_file(tmp_path / "config.yaml", "title:\n  max_chars: 30\n")
    assert source.refresh().config.title.max_chars == 30
    assert source.problem is None


def test_keeps_restart_settings_and_logs_them_once(
    source: ConfigSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = "log_level: debug\nserver:\n  port: 1\ndatabase:\n  url: sqlite:///x.db\n"
    replace_file(tmp_path / "config.yaml", f"{changed}title:\n  max_chars: 30\n")
    replace_file(tmp_path / ".env", "DEER_FLOW_HOME=elsewhere\n")

    loaded = source.refresh()

    assert loaded.config.title.max_chars == 30
    assert (loaded.config.log_level, loaded.config.server.port, loaded.config.database.url) == ("info", 2026, None)
    assert loaded.home == tmp_path / ".deer-flow"
    message = "log_level, database, server, DEER_FLOW_HOME changed; restart the server to use the new values"
    assert caplog.messages == [message]

    replace_file(tmp_path / "config.yaml", f"{changed}title:\n  max_chars: 40\n")
    assert source.refresh().config.title.max_chars == 40
    assert caplog.messages == [message]


def test_does_not_log_a_reverted_edit(source: ConfigSource, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    replace_file(tmp_path / "config.yaml", "server:\n  port: 1\n")
    source.refresh()
    replace_file(tmp_path / "config.yaml", "server:\n  port: 2026\n")
    source.refresh()

    assert len(caplog.messages) == 1


@pytest.mark.parametrize("key", ["ollama", "EMPTY", "none", "x", "sk-1234", "sk-no-key-required", "LM-Studio"])
def test_short_keys_and_placeholders_are_not_replaced_in_texts(tmp_path: Path, key: str) -> None:
    write = f"models: [{{name: m, use: 'a:B', model: m, api_key: {key!r}}}]\n"
    (tmp_path / "config.yaml").write_text(write)
    source = open_source(directory=tmp_path, environment={"OTHER_API_KEY": "sk-0123456789"})

    text = f"model {key} is empty; none of x, ollama or EMPTY"
    assert source.redact(f"{text}: sk-0123456789") == f"{text}: ********"
