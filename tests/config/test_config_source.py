"""The configuration while the server runs."""

import logging
import os
from pathlib import Path

import pytest

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError


@pytest.fixture
def source(tmp_path: Path) -> ConfigSource:
    edit(tmp_path / "config.yaml", "title:\n  max_chars: 20\n")
    return open_source(directory=tmp_path, environment={})


def edit(file: Path, text: str) -> None:
    """Replace the file as an editor does: by another one, so that no clock is needed to tell them apart."""
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)


def test_a_configuration_that_is_wrong_from_the_start_is_raised(tmp_path: Path) -> None:
    edit(tmp_path / "config.yaml", "log_level: loud\n")

    with pytest.raises(ConfigError, match="log_level"):
        open_source(directory=tmp_path, environment={})


def test_without_an_edit_the_same_object_stays_in_force(source: ConfigSource) -> None:
    assert source.refresh() is source.current is source.refresh()


def test_an_edit_is_in_force_after_the_next_refresh(source: ConfigSource, tmp_path: Path) -> None:
    edit(tmp_path / "config.yaml", "title:\n  max_chars: 30\n")
    assert source.current.config.title.max_chars == 20

    assert source.refresh().config.title.max_chars == 30
    assert source.current.config.title.max_chars == 30


def test_an_edit_in_place_of_the_same_length_is_seen(source: ConfigSource, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    before = file.stat()
    file.write_text("title:\n  max_chars: 30\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    assert source.refresh().config.title.max_chars == 30


def test_files_that_appear_and_disappear_are_seen(source: ConfigSource, tmp_path: Path) -> None:
    edit(tmp_path / ".env", "CHARS=30\n")
    edit(tmp_path / "config.yaml", "title:\n  max_chars: $CHARS\n")
    edit(tmp_path / "extensions_config.json", '{"skills": {"a": {"enabled": false}}}')
    loaded = source.refresh()
    assert loaded.config.title.max_chars == 30
    assert loaded.extensions.skills["a"].enabled is False

    edit(tmp_path / ".env", "CHARS=40\n")
    assert source.refresh().config.title.max_chars == 40

    (tmp_path / "config.yaml").unlink()
    (tmp_path / "extensions_config.json").unlink()
    loaded = source.refresh()
    assert loaded.config.title.max_chars == 60
    assert loaded.extensions.skills == {}


def test_code_stays_above_an_edited_file(tmp_path: Path) -> None:
    source = open_source(overrides={"title": {"max_chars": 15}}, directory=tmp_path, environment={})

    edit(tmp_path / "config.yaml", "title:\n  max_chars: 30\n  enabled: false\n")

    title = source.refresh().config.title
    assert (title.max_chars, title.enabled) == (15, False)


def test_a_wrong_edit_changes_nothing_and_is_told_once(
    source: ConfigSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(tmp_path / "config.yaml", "title:\n  max_char: 30\n")

    before = source.current
    assert [source.refresh(), source.refresh(), source.refresh()] == [before] * 3

    assert source.problem == "config.yaml:2: title.max_char: unknown key; did you mean 'max_chars'?"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert source.problem in caplog.text

    edit(tmp_path / "config.yaml", "title:\n  max_char: 31\n")
    source.refresh()
    assert len(caplog.records) == 2

    edit(tmp_path / "config.yaml", "title:\n  max_chars: 30\n")
    assert source.refresh().config.title.max_chars == 30
    assert source.problem is None


def test_what_needs_a_restart_stays_and_is_told_once(
    source: ConfigSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = "log_level: debug\nserver:\n  port: 1\ndatabase:\n  url: sqlite:///x.db\n"
    edit(tmp_path / "config.yaml", f"{changed}title:\n  max_chars: 30\n")
    edit(tmp_path / ".env", "DEER_FLOW_HOME=elsewhere\n")

    loaded = source.refresh()

    assert loaded.config.title.max_chars == 30
    assert (loaded.config.log_level, loaded.config.server.port, loaded.config.database.url) == ("info", 2026, None)
    assert loaded.home == tmp_path / ".deer-flow"
    message = "log_level, database, server, DEER_FLOW_HOME changed; restart the server to use the new values"
    assert caplog.messages == [message]

    edit(tmp_path / "config.yaml", f"{changed}title:\n  max_chars: 40\n")
    assert source.refresh().config.title.max_chars == 40
    assert caplog.messages == [message]


def test_an_edit_taken_back_before_the_restart_is_not_worth_a_word(
    source: ConfigSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit(tmp_path / "config.yaml", "server:\n  port: 1\n")
    source.refresh()
    edit(tmp_path / "config.yaml", "server:\n  port: 2026\n")
    source.refresh()

    assert len(caplog.messages) == 1
