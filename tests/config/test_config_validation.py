"""Error messages for invalid configurations."""

from pathlib import Path
from textwrap import dedent

import pytest

from deerflow.config.load import load
from deerflow.config.root import Config
from deerflow.domain.errors import ConfigError

ENVIRONMENT = {
    "PORT": "eighty",
    "OPENAI_APIKEY": "sk-canary",
    "EMPTY": "",
    "DSN": "canary://host",
    "CLASS": "canary.Chat",
}

MISTAKES = {
    "a misspelled key of a model": (
        """\
        models:
          - name: gpt
            use: langchain_openai:ChatOpenAI
            model: gpt-5.1
            suports_thinking: true
        """,
        "config.yaml:5: models[0].suports_thinking: unknown key; did you mean 'supports_thinking'?",
    ),
    "a key of a model written in another style": (
        """\
        models:
          - name: gpt
            use: langchain_openai:ChatOpenAI
            model: gpt-5.1
            displayName: GPT
        """,
        "config.yaml:5: models[0].displayName: unknown key; did you mean 'display_name'?",
    ),
    "a misspelled required key of a model": (
        """\
        models:
          - name: gpt
            use: langchain_openai:ChatOpenAI
            modle: gpt-5.1
        """,
        "config.yaml:4: models[0].modle: unknown key; did you mean 'model'?",
    ),
    "a model without the provider's model name": (
        """\
        models:
          - name: gpt
            use: langchain_openai:ChatOpenAI
        """,
        "config.yaml:2: models[0].model: is missing: the provider's name of the model",
    ),
    "a model name that YAML reads as a number": (
        """\
        models:
          - name: gpt
            use: langchain_openai:ChatOpenAI
            model: 4.5
        """,
        'config.yaml:4: models[0].model: must be text, not 4.5; put it in quotes: "4.5"',
    ),
    "a model name that YAML reads as a boolean": (
        """\
        models:
          - name: no
            use: langchain_openai:ChatOpenAI
            model: gpt-5.1
        """,
        'config.yaml:2: models[0].name: must be text, not no; put it in quotes: "no"',
    ),
    "a class written with a dot": (
        """\
        models:
          - name: gpt
            use: langchain_openai.ChatOpenAI
            model: gpt-5.1
        """,
        'config.yaml:3: models[0].use: must be "module:Class", for instance "langchain_openai:ChatOpenAI"; '
        "did you mean 'langchain_openai:ChatOpenAI'?",
    ),
    "two models of one name": (
        """\
        models:
          - {name: gpt, use: "a:B", model: x}
          - {name: gpt, use: "a:B", model: y}
        """,
        "config.yaml:3: models[1].name: models[0] has the same name; names must be unique",
    ),
    "a model without a list around it": (
        """\
        models:
          name: gpt
          use: langchain_openai:ChatOpenAI
        """,
        "config.yaml:1: models: must be a list: lines that start with '- ', not a mapping",
    ),
    "a model that is only a name": (
        "models: [gpt]\n",
        "config.yaml:1: models[0]: must be a mapping: lines of the form 'key: value', not the text 'gpt'",
    ),
    "a variable that is not set": (
        """\
        models:
          - name: deepseek
            use: langchain_openai:ChatOpenAI
            model: deepseek-chat
            api_key: $DEEPSEEK_API_KEY
        """,
        "config.yaml:5: models[0].api_key: the environment variable DEEPSEEK_API_KEY is not set; "
        "set it, or write it to a file named .env",
    ),
    "a variable that is set under a similar name": (
        """\
        models:
          - name: gpt
            use: langchain_openai:ChatOpenAI
            model: gpt-5.1
            api_key: $OPENAI_API_KEY
        """,
        "config.yaml:5: models[0].api_key: the environment variable OPENAI_API_KEY is not set; "
        "did you mean OPENAI_APIKEY?",
    ),
    "a variable with more text after it": (
        "database:\n  url: $DATA/deerflow.db\n",
        "config.yaml:2: database.url: write '${DATA}' for a variable inside a text, or '$$' for a dollar sign",
    ),
    "a reference without its end": (
        "server:\n  host: ${HOST\n",
        "config.yaml:2: server.host: '${' must be followed by 'NAME}' or 'NAME:-default}'; "
        "write '$${' for the text itself",
    ),
    "a variable that holds something else": (
        "server:\n  port: $PORT\n",
        "config.yaml:2: server.port: must be a whole number; the value comes from $PORT",
    ),
    "a variable that is empty": (
        "server:\n  host: $EMPTY\n",
        "config.yaml:2: server.host: must not be empty; the value comes from $EMPTY",
    ),
    "a misspelled section": (
        "sever:\n  port: 80\n",
        "config.yaml:1: sever: unknown key; did you mean 'server'?",
    ),
    "an unknown section": (
        "xyzzy:\n  enabled: true\n",
        f"config.yaml:1: xyzzy: unknown key; known keys: {', '.join(Config.model_fields)}",
    ),
    "a setting outside its section": (
        "port: 8080\n",
        "config.yaml:1: port: unknown key here; did you mean 'server.port'?",
    ),
    "a section inside another": (
        "server:\n  port: 80\n  title:\n    enabled: false\n",
        "config.yaml:3: server.title: unknown key here; did you mean 'title' at the top level?",
    ),
    "a text for a number": (
        'server:\n  port: "abc"\n',
        "config.yaml:2: server.port: must be a whole number, not the text 'abc'",
    ),
    "a number in quotes": (
        'runs:\n  timeout_seconds: "600"\n',
        "config.yaml:2: runs.timeout_seconds: must be a number, not the text '600'; remove the quotes",
    ),
    "a fraction for a whole number": (
        "runs:\n  recursion_limit: 2.5\n",
        "config.yaml:2: runs.recursion_limit: must be a whole number, not 2.5",
    ),
    "a boolean in quotes": (
        'title:\n  enabled: "yes"\n',
        "config.yaml:2: title.enabled: must be true or false, not the text 'yes'",
    ),
    "a number for a boolean": (
        "title:\n  enabled: 1\n",
        "config.yaml:2: title.enabled: must be true or false, not 1",
    ),
    "a number that is too large": (
        "server:\n  port: 70000\n",
        "config.yaml:2: server.port: must be at most 65535, not 70000",
    ),
    "a number that is too small": (
        "runs:\n  timeout_seconds: 0\n",
        "config.yaml:2: runs.timeout_seconds: must be more than 0, not 0",
    ),
    "an infinite number": (
        "runs:\n  timeout_seconds: .inf\n",
        "config.yaml:2: runs.timeout_seconds: must be a finite number, not .inf",
    ),
    "a word that is not one of the choices": (
        "log_level: warn\n",
        "config.yaml:1: log_level: must be 'debug', 'info', 'warning' or 'error', not the text 'warn'; "
        "did you mean 'warning'?",
    ),
    "a key without a value": (
        "server:\n  port:\n",
        "config.yaml:2: server.port: must be a whole number, but has no value",
    ),
    "a section that is a single value": (
        "server: 8080\n",
        "config.yaml:1: server: must be a mapping: lines of the form 'key: value', not 8080",
    ),
    "another database": (
        "database:\n  url: mysql://user:canary@host/name\n",
        "config.yaml:2: database.url: must be 'sqlite:///path/to/file.db' or 'postgresql://user:password@host/name'",
    ),
    "another database from a variable": (
        "database:\n  url: $DSN\n",
        "config.yaml:2: database.url: must be 'sqlite:///path/to/file.db' or 'postgresql://user:password@host/name'; "
        "the value comes from $DSN",
    ),
    "a class from a variable": (
        """\
        models:
          - name: gpt
            use: $CLASS
            model: gpt-5.1
        """,
        'config.yaml:3: models[0].use: must be "module:Class", for instance "langchain_openai:ChatOpenAI"; '
        "the value comes from $CLASS",
    ),
    "a database in memory": (
        'database:\n  url: "sqlite:///:memory:"\n',
        "config.yaml:2: database.url: an in-memory database is not supported; name a file: 'sqlite:///path/to/file.db'",
    ),
    "a lease that is too short": (
        "database:\n  lease_seconds: 0.5\n",
        "config.yaml:2: database.lease_seconds: must be at least 1, not 0.5",
    ),
    "a bridge without a URL": (
        "stream_bridge:\n  type: redis\n",
        "config.yaml:1: stream_bridge.redis_url: is required for type: redis, for instance 'redis://127.0.0.1:6379/0'",
    ),
    "a bridge with another scheme": (
        "stream_bridge:\n  type: redis\n  redis_url: http://:canary@host\n",
        "config.yaml:3: stream_bridge.redis_url: must start with 'redis://', 'rediss://' or 'unix://'",
    ),
    "a file for a later version": (
        "config_version: 7\n",
        "config.yaml:1: config_version: this version of DeerFlow supports config versions up to 1; "
        "upgrade it, or write 1",
    ),
    "a key given twice": (
        "server:\n  port: 80\n  host: a\n  port: 81\n",
        "config.yaml:4: server.port: is given twice; first in line 2",
    ),
    "a tab": (
        "server:\n\tport: 80\n",
        "config.yaml:2: a tab is used for indentation; use spaces",
    ),
    "indentation that does not fit": (
        "server:\n    port: 80\n  host: a\n",
        "config.yaml:3: the indentation does not match the lines above",
    ),
    "an unexpected colon": (
        "server:\n  host: a: b\n",
        "config.yaml:2: unexpected ':'; check the indentation, or put the value in quotes",
    ),
    "a key without its colon": (
        "server:\n  port: 80\nlog_level\ntitle:\n",
        "config.yaml:3: a ':' is missing after the key",
    ),
    "a quote that is not closed": (
        'log_level: info\nserver:\n  host: "a\n',
        "config.yaml:3: a quote is not closed",
    ),
    "a bracket that is not closed": (
        "log_level: info\nserver: {port: 80\n",
        "config.yaml:2: a ',' or the closing '}' is missing",
    ),
    "a value that starts with a special character": (
        "server:\n  host: @home\n",
        "config.yaml:2: a value cannot start with '@'; put it in quotes",
    ),
    "a backslash in double quotes": (
        'server:\n  host: "a\\d"\n',
        "config.yaml:2: a backslash in double quotes; write '\\\\' or use single quotes",
    ),
    "an alias of nothing": (
        "server: *base\n",
        "config.yaml:1: the alias '*base' has no anchor '&base' before it",
    ),
    "an alias inside its own anchor": (
        "server: &base\n  host: *base\n",
        "config.yaml:2: server: is too large or nested too deeply",
    ),
    "a tag of another program": (
        "server:\n  host: !env HOST\n",
        "config.yaml:2: server.host: the tag '!env' is not known; for a variable write $NAME",
    ),
    "a Python object": (
        "server: !!python/object/apply:os.system ['true']\n",
        "config.yaml:1: server: the tag '!!python/object/apply:os.system' is not known",
    ),
    "two documents": (
        "log_level: info\n---\nlog_level: debug\n",
        "config.yaml:2: only one document is allowed; remove the second '---'",
    ),
    "a list instead of sections": (
        "- server\n- title\n",
        "config.yaml:1: must be a mapping: lines of the form 'key: value'",
    ),
    "a text instead of sections": (
        "see config.example.yaml\n",
        "config.yaml:1: must be a mapping: lines of the form 'key: value'",
    ),
    "a control character": (
        "log_level: info\n# \x07\n",
        "config.yaml:2: the character '\\x07' is not allowed in YAML",
    ),
    "several mistakes at once": (
        """\
        title:
          max_char: 40
        server:
          port: -1
          host: 7
        log_level: $LEVEL
        """,
        "config.yaml:2: title.max_char: unknown key; did you mean 'max_chars'?\n"
        "config.yaml:4: server.port: must be at least 0, not -1\n"
        'config.yaml:5: server.host: must be text, not 7; put it in quotes: "7"\n'
        "config.yaml:6: log_level: the environment variable LEVEL is not set; "
        "set it, or write it to a file named .env",
    ),
    "several mistakes in one model": (
        """\
        models:
          - name: ""
            use: ChatOpenAI
            model: gpt-5.1
            suports_vision: true
            context_window: many
        """,
        "config.yaml:2: models[0].name: must not be empty\n"
        'config.yaml:3: models[0].use: must be "module:Class", for instance "langchain_openai:ChatOpenAI"\n'
        "config.yaml:5: models[0].suports_vision: unknown key; did you mean 'supports_vision'?\n"
        "config.yaml:6: models[0].context_window: must be a whole number, not the text 'many'",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_reports_a_mistake_with_file_line_key_and_advice(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.yaml").write_text(dedent(text))

    with pytest.raises(ConfigError) as raised:
        load(directory=tmp_path, environment=ENVIRONMENT)

    assert str(raised.value) == message
    assert "canary" not in str(raised.value)


OVERRIDES = {
    "a misspelled key": (
        {"server": {"prot": 80}},
        "config argument: server.prot: unknown key; did you mean 'port'?",
    ),
    "another type": (
        {"server": {"port": "80"}},
        "config argument: server.port: must be a whole number, not the text '80'; remove the quotes",
    ),
    "an object": (
        {"server": {"host": Path("/tmp")}},
        f"config argument: server.host: must be text, not a {type(Path()).__name__}",
    ),
    "a key that is not text": (
        {"models": [{1: "x", "name": "a", "use": "a:B", "model": "m"}]},
        "config argument: models[0]: keys must be text, not 1",
    ),
    "a public address with a path": (
        {"gateway": {"public_url": "https://deer.example/agents"}},
        "config argument: gateway.public_url: 'https://deer.example/agents' is not an origin; write https://host or "
        "https://host:port, without a path",
    ),
    "a variable that is not set": (
        {"server": {"host": "$NOWHERE"}},
        "config argument: server.host: the environment variable NOWHERE is not set; "
        "set it, or write it to a file named .env",
    ),
}


@pytest.mark.parametrize(("overrides", "message"), OVERRIDES.values(), ids=OVERRIDES.keys())
def test_reports_a_mistake_in_overrides(tmp_path: Path, overrides: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(overrides=overrides, directory=tmp_path, environment={})

    assert str(raised.value) == message


def test_a_mistake_in_overrides_does_not_hide_one_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("log_level: loud\nserver:\n  port: 80\n")

    with pytest.raises(ConfigError) as raised:
        load(overrides={"server": {"port": -1}}, directory=tmp_path, environment={})

    assert str(raised.value) == (
        "config.yaml:1: log_level: must be 'debug', 'info', 'warning' or 'error', not the text 'loud'\n"
        "config argument: server.port: must be at least 0, not -1"
    )


def test_reports_mistakes_in_both_files_together(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("log_levl: info\n")
    (tmp_path / "extensions_config.json").write_text('{\n  "mcpServer": {}\n}')

    with pytest.raises(ConfigError) as raised:
        load(directory=tmp_path, environment={})

    assert str(raised.value) == (
        "config.yaml:1: log_levl: unknown key; did you mean 'log_level'?\n"
        "extensions_config.json:2: mcpServer: unknown key; did you mean 'mcpServers'?"
    )


def test_reports_a_file_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes("log_level: info # für".encode("latin-1"))

    with pytest.raises(ConfigError, match=r"^config\.yaml: is not UTF-8 text; save it in that encoding$"):
        load(directory=tmp_path, environment={})


def test_reports_a_directory_instead_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()

    with pytest.raises(ConfigError, match=r"^config\.yaml: cannot be read: is a directory$"):
        load(directory=tmp_path, environment={})


def test_reports_deep_nesting(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server: " + "[" * 5000 + "]" * 5000)

    with pytest.raises(ConfigError, match=r"^config\.yaml: is nested too deeply$"):
        load(directory=tmp_path, environment={})


def test_rejects_exponential_aliases(tmp_path: Path) -> None:
    levels = "".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
    (tmp_path / "config.yaml").write_text(f"x-0: &a0 [lol]\n{levels}")

    with pytest.raises(ConfigError, match="is too large or nested too deeply"):
        load(directory=tmp_path, environment={})
