"""Access to one section of the current configuration."""

from pathlib import Path

from deerflow.config.sections.base import Settings
from deerflow.config.sections.runs import TitleConfig
from deerflow.config.source import open_source


def test_returns_the_section_as_configured_now(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("title:\n  max_chars: 20\n")
    settings: Settings[TitleConfig] = open_source(directory=tmp_path, environment={}).settings(
        lambda loaded: loaded.config.title
    )
    assert settings.current == TitleConfig(max_chars=20)

    file.write_text("title:\n  max_chars: 300\n")  # too many, so the last valid version is used
    assert settings.current.max_chars == 20

    file.write_text("title:\n  max_chars: 40\n  enabled: false\n")
    assert settings.current == TitleConfig(max_chars=40, enabled=False)


def test_returns_a_value_derived_from_several_sections(tmp_path: Path) -> None:
    source = open_source(overrides={"title": {"enabled": False}}, directory=tmp_path, environment={})
    enabled = source.settings(lambda loaded: (loaded.config.title.enabled, loaded.config.suggestions.enabled))

    assert enabled.current == (False, True)


def test_keeps_sections_that_need_a_restart(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={})
    port = source.settings(lambda loaded: loaded.config.server.port)

    (tmp_path / "config.yaml").write_text("server:\n  port: 1\n")

    assert port.current == 2026
