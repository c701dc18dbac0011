"""`deerflow config`."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from deerflow.cli.config import app
from deerflow.config.load import read_example_config
from deerflow.config.root import Config

Command = Callable[..., Result]


@pytest.fixture
def config(tmp_path: Path) -> Command:
    """Return a function that runs a command in the project at `tmp_path`."""

    def run(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(app, arguments, env={"DEER_FLOW_PROJECT_ROOT": str(tmp_path), **environment})

    return run


def test_init_writes_the_example_and_check_accepts_it(tmp_path: Path, config: Command) -> None:
    file = tmp_path / "config.yaml"

    assert config("init").output == f"wrote {file}\n"

    assert file.read_bytes() == read_example_config()
    assert config("check").output == "config.yaml is valid\n"


def test_init_overwrites_a_file_only_with_force(tmp_path: Path, config: Command) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("log_level: debug\n")

    refused = config("init", "--path", str(file))
    assert refused.exit_code == 1
    assert refused.output == f"{file} already exists; use --force to overwrite it\n"
    assert file.read_text() == "log_level: debug\n"

    assert config("init", "--path", str(file), "--force").exit_code == 0
    assert file.read_bytes() == read_example_config()


def test_check_reports_all_errors_and_fails(tmp_path: Path, config: Command) -> None:
    (tmp_path / "config.yaml").write_text("log_level: loud\nserver:\n  prot: 1\n")
    (tmp_path / "extensions_config.json").write_text("{")

    result = config("check")

    assert result.exit_code == 1
    assert result.output == (
        f"{tmp_path}/config.yaml:1: log_level: must be 'debug', 'info', 'warning' or 'error', not the text 'loud'\n"
        f"{tmp_path}/config.yaml:3: server.prot: unknown key; did you mean 'port'?\n"
        f"{tmp_path}/extensions_config.json:1: a key in double quotes is expected here\n"
    )


def test_check_names_the_files(tmp_path: Path, config: Command) -> None:
    assert config("check").output == "no config.yaml; using defaults\n"

    (tmp_path / "other.yaml").write_text("log_level: debug\n")
    (tmp_path / "extensions_config.json").write_text("{}")
    output = config("check", "--config", str(tmp_path / "other.yaml")).output
    assert output == "other.yaml is valid\nextensions_config.json is valid\n"


def test_show_prints_the_effective_configuration_with_sources(tmp_path: Path, config: Command) -> None:
    (tmp_path / "config.yaml").write_text("# ours\nserver:\n  port: 80\n")

    output = config("show").output

    assert yaml.safe_load(output) == {
        **Config().model_dump(mode="json"),
        "server": {"host": "127.0.0.1", "port": 80, "trusted_proxies": []},
    }
    assert f"# {tmp_path}/config.yaml:2\nserver:\n" in output
    assert "# default\ntitle:\n" in output
    assert f"# state: {tmp_path}/.deer-flow\n" in output


def test_show_masks_secrets_and_values_of_variables(tmp_path: Path, config: Command) -> None:
    (tmp_path / "config.yaml").write_text(
        """\
models:
  - name: a
    use: a:B
    model: m
    api_key: $SOME_KEY
    base_url: http://user:canary@host/v1
    max_tokens: 9
    organization: ${SOME_ORGANISATION}
    default_headers: {X-Api-Key: canary, Authorization: Bearer canary, Accept: text/plain}
    clientSecret: canary
    azure_ad_token: canary
"""
    )

    result = config("show", SOME_KEY="canary", SOME_ORGANISATION="canary")

    assert "canary" not in result.output
    model = yaml.safe_load(result.output)["models"][0]
    assert model["api_key"] == "******** (from $SOME_KEY)"
    assert model["base_url"] == "http://********@host/v1"
    assert model["max_tokens"] == 9
    assert model["default_headers"]["Accept"] == "text/plain"


def test_show_reports_configuration_errors(tmp_path: Path, config: Command) -> None:
    result = config("show", "--config", str(tmp_path / "no.yaml"))

    assert result.exit_code == 1
    assert result.output == f"config: there is no file '{tmp_path}/no.yaml'\n"


INVALID_OBJECTS = """
models:
  - {name: a, use: "langchain_openai:ChatNobody", model: m}
  - {name: b, use: "os:system", model: m}
  - {name: c, use: "no_such_module:Model", model: m}
tools:
  - {name: t, group: web, use: "deerflow.community.ddg_search.tools:web_serch_tool"}
sandbox: {use: "pathlib:Path"}
memory: {storage_class: "os:system"}
guardrails: {provider: {use: "subprocess:Popen", config: {args: ["touch", "called"]}}}
"""


def test_check_loads_all_classes_and_functions_without_calling_them(
    tmp_path: Path, config: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(INVALID_OBJECTS)

    result = config("check")

    assert result.exit_code == 1
    assert [line.partition(": ")[2].partition(": ")[0] for line in result.output.splitlines()] == [
        "models[0].use", "models[1].use", "models[2].use", "tools[0].use", "sandbox.use", "memory.storage_class",
        "guardrails.provider.use",
    ]  # fmt: skip
    assert "config.yaml:3: models[0].use" in result.output and "did you mean" in result.output
    assert not (tmp_path / "called").exists()
