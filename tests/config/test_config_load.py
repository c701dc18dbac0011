"""Discovery and loading of the configuration."""

from pathlib import Path

import pytest

from deerflow.config.load import load, read_process_environment
from deerflow.config.root import Config
from deerflow.config.sections.extensions import Extensions
from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import ConfigError


def test_uses_defaults_without_any_file(tmp_path: Path) -> None:
    loaded = load(directory=tmp_path, environment={})

    assert loaded.config == Config()
    assert loaded.extensions == Extensions()
    assert loaded.config_file is None
    assert loaded.extensions_file == tmp_path / "extensions_config.json"
    assert loaded.home == tmp_path / ".deer-flow"
    assert list(tmp_path.iterdir()) == []


def test_uses_the_process_environment_by_default(tmp_path: Path) -> None:
    loaded = load(directory=tmp_path)

    assert loaded.environment["PATH"] == read_process_environment()["PATH"]


def test_the_environment_copy_is_read_only() -> None:
    with pytest.raises(TypeError):
        read_process_environment()["PATH"] = ""  # type: ignore[index]


def test_the_path_argument_wins_over_the_variable_and_the_project_root(tmp_path: Path) -> None:
    for name in ("config.yaml", "other.yaml", "third.yaml"):
        (tmp_path / name).write_text(f"models: [{{name: {name}, use: 'a:B', model: m}}]")
    environment = {"DEER_FLOW_CONFIG_PATH": str(tmp_path / "other.yaml")}

    def name(path: Path | None, variables: dict[str, str]) -> str:
        return load(path, directory=tmp_path, environment=variables).config.models[0].name

    assert name(Path("third.yaml"), environment) == "third.yaml"
    assert name(None, environment) == "other.yaml"
    assert name(None, {"DEER_FLOW_CONFIG_PATH": ""}) == "config.yaml"


def test_a_variable_sets_the_project_root(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "config.yaml").write_text("log_level: debug")

    loaded = load(directory=tmp_path, environment={"DEER_FLOW_PROJECT_ROOT": "project"})

    assert loaded.config.log_level == "debug"
    assert loaded.home == root / ".deer-flow"


@pytest.mark.parametrize(
    ("path", "variables", "message"),
    [
        (Path("no.yaml"), {}, "config: there is no file '{}/no.yaml'"),
        (None, {"DEER_FLOW_CONFIG_PATH": "no.yaml"}, "DEER_FLOW_CONFIG_PATH: there is no file '{}/no.yaml'"),
        (
            None,
            {"DEER_FLOW_EXTENSIONS_CONFIG_PATH": "no.json"},
            "DEER_FLOW_EXTENSIONS_CONFIG_PATH: there is no file '{}/no.json'",
        ),
    ],
)
def test_a_file_given_explicitly_must_exist(
    tmp_path: Path, path: Path | None, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(path, directory=tmp_path, environment=variables)

    assert str(raised.value) == message.format(tmp_path)


def test_finds_extensions_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "mcp_config.json").write_text('{"skills": {"older": {}}}')
    assert load(directory=tmp_path, environment={}).extensions_file.name == "mcp_config.json"

    (tmp_path / "extensions_config.json").write_text('{"skills": {"newer": {}}}')
    loaded = load(directory=tmp_path, environment={})
    assert loaded.extensions_file.name == "extensions_config.json"
    assert list(loaded.extensions.skills) == ["newer"]


def test_a_variable_sets_the_state_directory(tmp_path: Path) -> None:
    assert load(directory=tmp_path, environment={"DEER_FLOW_HOME": "/srv/state"}).home == Path("/srv/state")
    assert load(directory=tmp_path, environment={"DEER_FLOW_HOME": "state"}).home == tmp_path / "state"


def test_overrides_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server:\n  host: localhost\n  port: 1\ntitle:\n  max_chars: 20\n")

    config = load(overrides={"server": {"port": 2}}, directory=tmp_path, environment={}).config

    assert (config.server.host, config.server.port) == ("localhost", 2)
    assert (config.title.enabled, config.title.max_chars) == (True, 20)


def test_replaces_lists_instead_of_merging(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("models:\n  - {name: file, use: 'a:B', model: m, api_key: $UNSET}\n")

    overrides = {"models": ({"name": "code", "use": "a:B", "model": "m"},)}
    config = load(overrides=overrides, directory=tmp_path, environment={}).config

    assert [model.name for model in config.models] == ["code"]


def test_accepts_section_objects_as_overrides(tmp_path: Path) -> None:
    model = ModelConfig(name="a", use="a:B", model="m", api_key="$not-a-reference")  # type: ignore[call-arg]

    config = load(overrides={"models": [model]}, directory=tmp_path, environment={}).config

    assert config.models == (model,)


def test_an_empty_section_uses_its_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server:\nmodels:\nconfig_version:\nlog_level: ~\n")

    assert load(directory=tmp_path, environment={}).config == Config()
    assert load(overrides={"server": None}, directory=tmp_path, environment={}).config == Config()


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "{}", "\ufeffconfig_version: 1\r\n"])
def test_accepts_an_empty_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8", newline="")

    assert load(directory=tmp_path, environment={}).config == Config()


def test_accepts_a_file_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("config_version: 0")

    assert load(directory=tmp_path, environment={}).config.config_version == 0


def test_process_variables_win_over_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("HOST=dotenv\nexport PORT='81'\nURL=http://${HOST}\nALONE\n")
    (tmp_path / "config.yaml").write_text("server:\n  host: $HOST\n  port: $PORT\n")

    loaded = load(directory=tmp_path, environment={"HOST": "process"})

    assert (loaded.config.server.host, loaded.config.server.port) == ("process", 81)
    assert dict(loaded.environment) == {"HOST": "process", "PORT": "81", "URL": "http://dotenv"}
    assert "URL" not in read_process_environment()


def test_dotenv_can_set_the_other_paths(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DEER_FLOW_HOME=state\nDEER_FLOW_CONFIG_PATH=other.yaml\n")
    (tmp_path / "other.yaml").write_text("log_level: error")

    loaded = load(directory=tmp_path, environment={})

    assert loaded.home == tmp_path / "state"
    assert loaded.config_file == tmp_path / "other.yaml"


def test_reports_an_invalid_line_of_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nB = 'open\n")

    with pytest.raises(ConfigError, match=r"^\.env:2: must be of the form NAME=value$"):
        load(directory=tmp_path, environment={})


def test_advises_to_add_a_variable_to_an_existing_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")

    with pytest.raises(ConfigError, match=r"HOST is not set; set it, or add it to \.env$"):
        load(overrides={"server": {"host": "$HOST"}}, directory=tmp_path, environment={})


def test_names_a_file_outside_the_directory_by_its_full_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "config.yaml").write_text("log_level: 1")

    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "config.yaml", directory=tmp_path / "a", environment={})

    assert str(raised.value).startswith(f"{tmp_path}/config.yaml:1: log_level: ")


def test_the_representation_contains_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "models: [{name: a, use: 'a:B', model: m, api_key: $KEY, default_headers: {Authorization: canary}}]"
    )
    (tmp_path / "extensions_config.json").write_text(
        '{"mcpServers": {"a": {"command": "x", "env": {"A_TOKEN": "canary"}}}}'
    )

    loaded = load(directory=tmp_path, environment={"KEY": "canary"})

    assert loaded.config.models[0].provider_settings["api_key"] == "canary"
    assert "canary" not in f"{loaded!r} {loaded.config} {loaded.extensions}"


def test_treats_the_home_of_an_unknown_user_as_a_name(tmp_path: Path) -> None:
    assert load(directory=tmp_path, environment={"DEER_FLOW_HOME": "~nobody-of-that-name/x"}).home == (
        tmp_path / "~nobody-of-that-name/x"
    )


@pytest.mark.parametrize(
    ("url", "file"),
    [
        (None, "/home/data/deerflow.db"),
        ("sqlite:///threads.db", "/home/threads.db"),
        ("sqlite:////srv/threads.db", "/srv/threads.db"),
    ],
)
def test_locates_the_database_file(url: str | None, file: str) -> None:
    config = load(overrides={"database": {"url": url}}, environment={}, directory=Path("/nowhere")).config

    assert config.database.get_sqlite_file(Path("/home")) == Path(file)
