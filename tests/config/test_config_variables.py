"""Environment variables in values."""

from pathlib import Path

import pytest

from deerflow.config.load import load
from deerflow.config.root import Config

ENVIRONMENT = {"NAME": "deer", "EMPTY": "", "PORT": "8080", "SECONDS": "1.5", "OFF": "no", "BILL": "$5 ${NAME}"}


def load_config(tmp_path: Path, text: str) -> Config:
    (tmp_path / "config.yaml").write_text(text)
    return load(directory=tmp_path, environment=ENVIRONMENT).config


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$NAME", "deer"),
        ("${NAME}", "deer"),
        ("${NAME}-${NAME}", "deer-deer"),
        ("http://${NAME}:${PORT}/v1", "http://deer:8080/v1"),
        ("${UNSET:-fallback}", "fallback"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${NAME:-fallback}", "deer"),
        ("${UNSET:-}x", "x"),
        ("${UNSET:-http://a:1/b?c}", "http://a:1/b?c"),
        ("$$NAME", "$NAME"),
        ("$${NAME}", "${NAME}"),
        ("$$$$", "$$"),
        ("a $NAME in a text", "a $NAME in a text"),
        ("5$", "5$"),
        ("$5", "$5"),
        ("$BILL", "$5 ${NAME}"),
    ],
)
def test_replaces_a_reference_by_its_value(tmp_path: Path, written: str, value: str) -> None:
    assert load_config(tmp_path, f"server:\n  host: '{written}'\n").server.host == value


def test_converts_a_variable_to_the_type_of_its_setting(tmp_path: Path) -> None:
    config = load_config(
        tmp_path,
        "server:\n  port: $PORT\nruns:\n  timeout_seconds: ${SECONDS}\n  recursion_limit: ${UNSET:-7}\n"
        "title:\n  enabled: $OFF\n",
    )

    assert config.server.port == 8080
    assert config.runs.timeout_seconds == 1.5
    assert config.runs.recursion_limit == 7
    assert config.title.enabled is False


def test_keeps_a_variable_for_a_text_as_text(tmp_path: Path) -> None:
    config = load_config(tmp_path, "models:\n  - {name: $PORT, use: 'a:B', model: $PORT, api_key: $PORT}\n")

    model = config.models[0]
    assert (model.name, model.model, model.provider_settings) == ("8080", "8080", {"api_key": "8080"})


def test_substitutes_variables_in_lists_and_mappings_but_not_in_keys(tmp_path: Path) -> None:
    config = load_config(
        tmp_path, "models:\n  - {name: a, use: 'a:B', model: m, headers: {$NAME: [$NAME, {b: '${NAME}'}]}}\n"
    )

    assert config.models[0].provider_settings == {"headers": {"$NAME": ["deer", {"b": "deer"}]}}


def test_substitutes_variables_in_overrides(tmp_path: Path) -> None:
    loaded = load(overrides={"server": {"port": "$PORT"}}, directory=tmp_path, environment=ENVIRONMENT)

    assert loaded.config.server.port == 8080
    assert loaded.document.variables == {("server", "port"): ("PORT",)}
