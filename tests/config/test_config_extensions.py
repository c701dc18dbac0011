"""Reading and changing `extensions_config.json`."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.sections.extensions import (
    Extensions,
    change_extensions,
    read_extensions,
    read_raw_extensions,
    replace_servers,
    set_skill_enabled,
)
from deerflow.domain.errors import ConfigError

EXTENSIONS = {
    "mcpServers": {
        "github": {"type": "http", "url": "https://a/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "files": {"command": "npx", "args": ["$DIRECTORY"], "env": {"PRICE": "5$$"}},
        "later": {"enabled": False, "transport": "sse", "url": "$NOT_YET"},
    },
    "skills": {"pdf": {"enabled": True}},
}
ENVIRONMENT = {"TOKEN": "canary", "DIRECTORY": "/srv"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "extensions_config.json"
    path.write_text(json.dumps(EXTENSIONS))
    return path


def read(path: Path) -> Extensions:
    return read_extensions(path, ENVIRONMENT, name=path.name)


def set_skill(path: Path, name: str, enabled: bool = False) -> Extensions:
    return change_extensions(path, lambda written: set_skill_enabled(written, name, enabled=enabled), ENVIRONMENT)


def test_reads_servers_and_skills_with_variables(file: Path) -> None:
    extensions = read(file)

    github, files, later = extensions.mcp_servers.values()
    assert github.headers == {"Authorization": "Bearer canary"}
    assert (files.type, files.args, files.env) == ("stdio", ("/srv",), {"PRICE": "5$"})
    assert extensions.skills["pdf"].enabled is True
    assert (later.enabled, later.type) == (False, "sse")


def test_a_disabled_server_needs_no_variables(file: Path) -> None:
    assert read(file).mcp_servers["later"].url == "$NOT_YET"


FOREIGN_FILES = {
    "Claude Desktop": {"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"KEY": "canary"}}}},
    "Cline": {"mcpServers": {"a": {"command": "npx", "disabled": True, "autoApprove": ["x"], "timeout": 60}}},
    "Cursor": {"mcpServers": {"a": {"url": "https://a/mcp", "headers": {"K": "${env:TOKEN}"}}}},
    "Gemini": {"mcpServers": {"a": {"httpUrl": "https://a/mcp", "trust": True}}},
    "Roo": {"mcpServers": {"a": {"type": "streamable-http", "url": "https://a/mcp", "alwaysAllow": []}}},
    "VS Code": {"servers": {"a": {"command": "npx", "env": {"KEY": "${input:token}"}}}, "inputs": [{"id": "token"}]},
    "VS Code settings": {"mcp": {"servers": {"a": {"type": "http", "url": "https://a/mcp"}}}},
    "Windsurf": {"mcpServers": {"a": {"serverUrl": "https://a/sse"}}},
}


@pytest.mark.parametrize("program", FOREIGN_FILES)
def test_reads_files_of_other_programs(tmp_path: Path, program: str) -> None:
    file = tmp_path / "f.json"
    file.write_text(json.dumps(FOREIGN_FILES[program]))
    server = read(file).mcp_servers["a"]
    assert server.type == {"Claude Desktop": "stdio", "Cline": "stdio", "VS Code": "stdio", "Windsurf": "sse"}.get(
        program, "http"
    )
    assert server.enabled is (program != "Cline")
    assert {*server.env.values(), *server.headers.values()} <= {"canary"}
    assert read_raw_extensions(file).keys() == {"mcpServers"}


def test_a_command_in_one_text_is_split(tmp_path: Path) -> None:
    file, program = tmp_path / "f.json", tmp_path / "my program"
    program.touch()
    commands = {"a": "npx -y mcp-remote https://a/mcp", "b": str(program), "c": 'uvx "x'}
    file.write_text(json.dumps({"mcpServers": {name: {"command": command} for name, command in commands.items()}}))
    servers = read(file).mcp_servers
    assert (servers["a"].command, servers["a"].args) == ("npx", ("-y", "mcp-remote", "https://a/mcp"))
    assert [(servers[name].command, servers[name].args) for name in "bc"] == [(str(program), ()), ('uvx "x', ())]


def test_servers_of_both_sections_are_read(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text('{"servers": {"b": {"command": "npx"}}, "mcpServers": {"a": {"command": "npx"}}, "skills": {}}')
    assert list(read(file).mcp_servers) == ["a", "b"]
    file.write_text('{"servers": []}')
    with pytest.raises(ConfigError, match="servers: unknown key"):
        read(file)


MISTAKES = {
    "a misspelled key": (
        {"mcpServers": {"a": {"comand": "x"}}},
        "f.json:4: mcpServers.a.comand: unknown key; did you mean 'command'?",
    ),
    "no command": (
        {"mcpServers": {"a": {"args": []}}},
        "f.json:3: mcpServers.a: a server of type 'stdio' needs 'command'",
    ),
    "a URL with the type of a command": (
        {"mcpServers": {"a": {"type": "stdio", "url": "https://a"}}},
        "f.json:3: mcpServers.a: a server of type 'stdio' needs 'command'; "
        'a server with \'url\' needs "type": "http" or "sse"',
    ),
    "an unknown key in a file of VS Code": (
        {"servers": {"a": {"comand": "x"}}},
        "f.json:4: mcpServers.a.comand: unknown key; did you mean 'command'?",
    ),
    "no URL": (
        {"mcpServers": {"my server": {"type": "sse"}}},
        "f.json:3: mcpServers.'my server': a server of type 'sse' needs 'url'",
    ),
    "an unknown transport": (
        {"mcpServers": {"a": {"type": "https", "url": "https://a"}}},
        "f.json:4: mcpServers.a.type: must be 'stdio', 'sse' or 'http', not the text 'https'; did you mean 'http'?",
    ),
    "two names for the transport": (
        {"mcpServers": {"a": {"type": "sse", "transport": "sse", "url": "https://a"}}},
        "f.json:5: mcpServers.a.transport: is an alias of 'type', which is also set",
    ),
    "a number among the arguments": (
        {"mcpServers": {"a": {"command": "x", "args": [7]}}},
        'f.json:6: mcpServers.a.args[0]: must be text, not 7; put it in quotes: "7"',
    ),
    "a grant without its secret": (
        {"mcpServers": {"a": {"type": "http", "url": "https://a", "oauth": {"token_url": "https://t"}}}},
        "f.json:6: mcpServers.a.oauth: the grant 'client_credentials' needs 'client_id' and 'client_secret'",
    ),
    "a boolean in quotes": (
        {"skills": {"pdf": {"enabled": "true"}}},
        "f.json:4: skills.pdf.enabled: must be true or false, not the text 'true'",
    ),
    "a variable that is not set": (
        {"mcpServers": {"a": {"command": "x", "env": {"KEY": "$TOKN"}}}},
        "f.json:6: mcpServers.a.env.KEY: the environment variable TOKN is not set; did you mean TOKEN?",
    ),
    "a secret of another type": (
        {"mcpServers": {"a": {"command": "x", "env": {"API_TOKEN": 4711}}}},
        "f.json:6: mcpServers.a.env.API_TOKEN: must be text",
    ),
}


@pytest.mark.parametrize(("data", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_reports_a_mistake_with_file_line_and_key(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps(data, indent=1))

    with pytest.raises(ConfigError) as raised:
        read(path)

    assert str(raised.value) == message


def test_reports_a_duplicate_key(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"skills": {"a": {},\n"a": {"enabled": false}}}')

    with pytest.raises(ConfigError, match=r"^f\.json:2: skills\.a: is given twice; first in line 1$"):
        read(path)
    with pytest.raises(ConfigError, match="is given twice"):
        set_skill(path, "b")


def test_disabled_server_may_refer_to_a_port_that_is_not_set(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"mcpServers": {"a": {"type": "http", "url": "http://localhost:${PORT}/", "enabled": false}}}')

    assert read(path).mcp_servers["a"].url == "http://localhost:${PORT}/"


def test_empty_sections_equal_missing_ones(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"mcpServers": null, "skills": null}')

    assert read(path) == Extensions()
    assert set_skill(path, "pdf").skills["pdf"].enabled is False


def test_a_change_keeps_all_other_content(file: Path) -> None:
    extensions = set_skill(file, "pdf")

    assert extensions.skills["pdf"].enabled is False
    assert read_raw_extensions(file) == {**EXTENSIONS, "skills": {"pdf": {"enabled": False}}}
    assert "canary" not in file.read_text()
    assert read(file) == extensions


def test_replaced_servers_keep_variable_references(file: Path) -> None:
    servers = {"files": EXTENSIONS["mcpServers"]["files"], "new": {"command": "x", "env": {"T": "$TOKEN"}}}

    extensions = change_extensions(file, lambda written: replace_servers(written, servers), ENVIRONMENT)

    assert extensions.mcp_servers["new"].env == {"T": "canary"}
    assert read_raw_extensions(file) == {**EXTENSIONS, "mcpServers": servers}


def test_the_first_change_creates_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "extensions_config.json"
    assert read_raw_extensions(path) == {}

    set_skill(path, "pdf")

    assert read_raw_extensions(path) == {"skills": {"pdf": {"enabled": False}}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_invalid_change_leaves_the_file_unchanged(file: Path) -> None:
    before = file.read_bytes()

    with pytest.raises(ConfigError) as raised:
        change_extensions(file, lambda written: replace_servers(written, {"a": {"type": "http"}}), ENVIRONMENT)

    assert str(raised.value) == "extensions_config.json: mcpServers.a: a server of type 'http' needs 'url'"
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_does_not_overwrite_an_unreadable_file(file: Path) -> None:
    file.write_text('{"skills": ')

    with pytest.raises(ConfigError, match="a value is missing here"):
        set_skill(file, "pdf")

    assert file.read_text() == '{"skills": '


def test_keeps_mode_and_symbolic_link(tmp_path: Path) -> None:
    real = tmp_path / "real" / "file.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    link = tmp_path / "extensions_config.json"
    link.symlink_to(real)

    set_skill(link, "pdf")

    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"skills": {"pdf": {"enabled": False}}}
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_change_preserves_any_text(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"skills": {"🦌 \\ud800 \\u0000": {}}}')

    set_skill(path, "pdf")

    assert list(read_raw_extensions(path)["skills"]) == ["🦌 \ud800 \0", "pdf"]


def test_reports_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        set_skill(tmp_path / "no" / "f.json", "pdf")


def test_keeps_concurrent_changes_of_threads_and_processes(file: Path) -> None:
    names = [f"skill-{number}" for number in range(24)]

    with ThreadPoolExecutor(6) as threads, get_context("spawn").Pool(2) as processes:
        by_processes = processes.map_async(partial(set_skill, file), names[:12])
        list(threads.map(partial(set_skill, file), names[12:]))
        by_processes.get(timeout=60)

    assert set(read(file).skills) == {"pdf", *names}
    assert list(file.parent.iterdir()) == [file]


def test_a_reader_never_sees_a_partial_file(file: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(lambda: [set_skill(file, f"skill-{number}") for number in range(20)])
        while not writing.done():
            read(file)
        writing.result()
