"""Where the configuration is found and what it is made of."""

from pathlib import Path

import pytest

from deerflow.config.extensions import Extensions
from deerflow.config.load import load, process_environment
from deerflow.config.models import ModelConfig
from deerflow.config.root import Config
from deerflow.domain.errors import ConfigError


def test_without_any_file_the_defaults_are_in_force(tmp_path: Path) -> None:
    loaded = load(directory=tmp_path, environment={})

    assert loaded.config == Config()
    assert loaded.extensions == Extensions()
    assert loaded.config_file is None
    assert loaded.extensions_file == tmp_path / "extensions_config.json"
    assert loaded.home == tmp_path / ".deer-flow"
    assert list(tmp_path.iterdir()) == []


def test_the_variables_of_the_process_are_used_when_none_are_given(tmp_path: Path) -> None:
    loaded = load(directory=tmp_path)

    assert loaded.environment["PATH"] == process_environment()["PATH"]


def test_the_environment_of_the_process_cannot_be_changed_through_its_copy() -> None:
    with pytest.raises(TypeError):
        process_environment()["PATH"] = ""  # type: ignore[index]


def test_a_named_file_comes_before_the_variable_and_the_variable_before_the_project_root(tmp_path: Path) -> None:
    for name in ("config.yaml", "other.yaml", "third.yaml"):
        (tmp_path / name).write_text(f"models: [{{name: {name}, use: 'a:B', model: m}}]")
    environment = {"DEER_FLOW_CONFIG_PATH": str(tmp_path / "other.yaml")}

    def name(path: Path | None, variables: dict[str, str]) -> str:
        return load(path, directory=tmp_path, environment=variables).config.models[0].name

    assert name(Path("third.yaml"), environment) == "third.yaml"
    assert name(None, environment) == "other.yaml"
    assert name(None, {"DEER_FLOW_CONFIG_PATH": ""}) == "config.yaml"


def test_the_project_root_can_be_named_by_a_variable(tmp_path: Path) -> None:
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
def test_a_file_that_was_asked_for_must_be_there(
    tmp_path: Path, path: Path | None, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(path, directory=tmp_path, environment=variables)

    assert str(raised.value) == message.format(tmp_path)


def test_extensions_are_looked_for_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "mcp_config.json").write_text('{"skills": {"older": {}}}')
    assert load(directory=tmp_path, environment={}).extensions_file.name == "mcp_config.json"

    (tmp_path / "extensions_config.json").write_text('{"skills": {"newer": {}}}')
    loaded = load(directory=tmp_path, environment={})
    assert loaded.extensions_file.name == "extensions_config.json"
    assert list(loaded.extensions.skills) == ["newer"]


def test_the_state_directory_can_be_named_by_a_variable(tmp_path: Path) -> None:
    assert load(directory=tmp_path, environment={"DEER_FLOW_HOME": "/srv/state"}).home == Path("/srv/state")
    assert load(directory=tmp_path, environment={"DEER_FLOW_HOME": "state"}).home == tmp_path / "state"


def test_code_comes_before_the_file_and_the_file_before_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server:\n  host: localhost\n  port: 1\ntitle:\n  max_chars: 20\n")

    config = load(overrides={"server": {"port": 2}}, directory=tmp_path, environment={}).config

    assert (config.server.host, config.server.port) == ("localhost", 2)
    assert (config.title.enabled, config.title.max_chars) == (True, 20)


def test_lists_are_replaced_and_not_merged(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("models:\n  - {name: file, use: 'a:B', model: m, api_key: $UNSET}\n")

    overrides = {"models": ({"name": "code", "use": "a:B", "model": "m"},)}
    config = load(overrides=overrides, directory=tmp_path, environment={}).config

    assert [model.name for model in config.models] == ["code"]


def test_code_may_pass_finished_settings(tmp_path: Path) -> None:
    model = ModelConfig(name="a", use="a:B", model="m", api_key="$not-a-reference")  # type: ignore[call-arg]

    config = load(overrides={"models": [model]}, directory=tmp_path, environment={}).config

    assert config.models == (model,)


def test_an_empty_section_means_its_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server:\nmodels:\nconfig_version:\nlog_level: ~\n")

    assert load(directory=tmp_path, environment={}).config == Config()
    assert load(overrides={"server": None}, directory=tmp_path, environment={}).config == Config()


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "{}", "\ufeffconfig_version: 1\r\n"])
def test_a_file_that_says_nothing_is_fine(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8", newline="")

    assert load(directory=tmp_path, environment={}).config == Config()


def test_a_file_of_an_older_version_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("config_version: 0")

    assert load(directory=tmp_path, environment={}).config.config_version == 0


def test_variables_of_dotenv_stand_below_those_of_the_process(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("HOST=dotenv\nexport PORT='81'\nURL=http://${HOST}\nALONE\n")
    (tmp_path / "config.yaml").write_text("server:\n  host: $HOST\n  port: $PORT\n")

    loaded = load(directory=tmp_path, environment={"HOST": "process"})

    assert (loaded.config.server.host, loaded.config.server.port) == ("process", 81)
    assert dict(loaded.environment) == {"HOST": "process", "PORT": "81", "URL": "http://dotenv"}
    assert "URL" not in process_environment()


def test_dotenv_may_name_the_other_files(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DEER_FLOW_HOME=state\nDEER_FLOW_CONFIG_PATH=other.yaml\n")
    (tmp_path / "other.yaml").write_text("log_level: error")

    loaded = load(directory=tmp_path, environment={})

    assert loaded.home == tmp_path / "state"
    assert loaded.config_file == tmp_path / "other.yaml"


def test_a_line_of_dotenv_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nB = 'open\n")

    with pytest.raises(ConfigError, match=r"^\.env:2: must be of the form NAME=value$"):
        load(directory=tmp_path, environment={})


def test_with_a_dotenv_the_advice_is_to_add_to_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")

    with pytest.raises(ConfigError, match=r"HOST is not set; set it, or add it to \.env$"):
        load(overrides={"server": {"host": "$HOST"}}, directory=tmp_path, environment={})


def test_a_file_elsewhere_is_called_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "config.yaml").write_text("log_level: 1")

    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "config.yaml", directory=tmp_path / "a", environment={})

    assert str(raised.value).startswith(f"{tmp_path}/config.yaml:1: log_level: ")


def test_secrets_are_not_in_the_description_of_what_was_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "models: [{name: a, use: 'a:B', model: m, api_key: $KEY, default_headers: {Authorization: canary}}]"
    )
    (tmp_path / "extensions_config.json").write_text(
        '{"mcpServers": {"a": {"command": "x", "env": {"A_TOKEN": "canary"}}}}'
    )

    loaded = load(directory=tmp_path, environment={"KEY": "canary"})

    assert loaded.config.models[0].provider_settings["api_key"] == "canary"
    assert "canary" not in f"{loaded!r} {loaded.config} {loaded.extensions}"


def test_a_home_directory_of_nobody_is_a_name_like_any_other(tmp_path: Path) -> None:
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
def test_the_database_is_a_file(url: str | None, file: str) -> None:
    config = load(overrides={"database": {"url": url}}, environment={}, directory=Path("/nowhere")).config

    assert config.database.sqlite_file(Path("/home")) == Path(file)
