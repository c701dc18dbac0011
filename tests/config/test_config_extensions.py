"""`extensions_config.json`: what it says and how it is changed."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.extensions import Extensions
from deerflow.config.extensions_file import change_extensions, read_extensions, read_written, with_servers, with_skill
from deerflow.domain.errors import ConfigError

WRITTEN = {
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
    path.write_text(json.dumps(WRITTEN))
    return path


def read(path: Path) -> Extensions:
    return read_extensions(path, ENVIRONMENT, name=path.name)


def switch(path: Path, name: str, enabled: bool = False) -> Extensions:
    return change_extensions(path, lambda written: with_skill(written, name, enabled=enabled), ENVIRONMENT)


def test_servers_and_skills_are_read_with_their_variables(file: Path) -> None:
    extensions = read(file)

    github, files, later = extensions.mcp_servers.values()
    assert github.headers == {"Authorization": "Bearer canary"}
    assert (files.type, files.args, files.env) == ("stdio", ("/srv",), {"PRICE": "5$"})
    assert extensions.skills["pdf"].enabled is True
    assert (later.enabled, later.type) == (False, "sse")


def test_a_server_that_is_switched_off_does_without_its_variables(file: Path) -> None:
    assert read(file).mcp_servers["later"].url == "$NOT_YET"


MISTAKES = {
    "a misspelt key": (
        {"mcpServers": {"a": {"comand": "x"}}},
        "f.json:4: mcpServers.a.comand: unknown key; did you mean 'command'?",
    ),
    "no command": (
        {"mcpServers": {"a": {"args": []}}},
        "f.json:3: mcpServers.a: a server of type 'stdio' needs 'command'",
    ),
    "an address without a type": (
        {"mcpServers": {"a": {"url": "https://a"}}},
        "f.json:3: mcpServers.a: a server of type 'stdio' needs 'command'; "
        'a server with \'url\' needs "type": "http" or "sse"',
    ),
    "no address": (
        {"mcpServers": {"my server": {"type": "sse"}}},
        "f.json:3: mcpServers.'my server': a server of type 'sse' needs 'url'",
    ),
    "a transport there is not": (
        {"mcpServers": {"a": {"type": "https", "url": "https://a"}}},
        "f.json:4: mcpServers.a.type: must be 'stdio', 'sse' or 'http', not the text 'https'; did you mean 'http'?",
    ),
    "two names for the transport": (
        {"mcpServers": {"a": {"type": "sse", "transport": "sse", "url": "https://a"}}},
        "f.json:5: mcpServers.a.transport: means the same as 'type', which is given too",
    ),
    "a number among the arguments": (
        {"mcpServers": {"a": {"command": "x", "args": [7]}}},
        'f.json:6: mcpServers.a.args[0]: must be text, not 7; put it in quotes: "7"',
    ),
    "a grant without its secret": (
        {"mcpServers": {"a": {"type": "http", "url": "https://a", "oauth": {"token_url": "https://t"}}}},
        "f.json:6: mcpServers.a.oauth: the grant 'client_credentials' needs 'client_id' and 'client_secret'",
    ),
    "a switch in quotes": (
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
def test_a_mistake_is_told_by_file_line_and_key(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps(data, indent=1))

    with pytest.raises(ConfigError) as raised:
        read(path)

    assert str(raised.value) == message


def test_a_key_given_twice_is_told_and_never_silently_dropped(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"skills": {"a": {},\n"a": {"enabled": false}}}')

    with pytest.raises(ConfigError, match=r"^f\.json:2: skills\.a: is given twice; first in line 1$"):
        read(path)
    with pytest.raises(ConfigError, match="is given twice"):
        switch(path, "b")


def test_empty_sections_mean_none(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"mcpServers": null, "skills": null}')

    assert read(path) == Extensions()
    assert switch(path, "pdf").skills["pdf"].enabled is False


def test_a_change_keeps_everything_else_as_it_was_written(file: Path) -> None:
    extensions = switch(file, "pdf")

    assert extensions.skills["pdf"].enabled is False
    assert read_written(file) == {**WRITTEN, "skills": {"pdf": {"enabled": False}}}
    assert "canary" not in file.read_text()
    assert read(file) == extensions


def test_servers_are_replaced_with_references_as_they_are_given(file: Path) -> None:
    servers = {"files": WRITTEN["mcpServers"]["files"], "new": {"command": "x", "env": {"T": "$TOKEN"}}}

    extensions = change_extensions(file, lambda written: with_servers(written, servers), ENVIRONMENT)

    assert extensions.mcp_servers["new"].env == {"T": "canary"}
    assert read_written(file) == {**WRITTEN, "mcpServers": servers}


def test_a_first_change_makes_the_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "extensions_config.json"
    assert read_written(path) == {}

    switch(path, "pdf")

    assert read_written(path) == {"skills": {"pdf": {"enabled": False}}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_change_that_would_be_wrong_leaves_the_file_alone(file: Path) -> None:
    before = file.read_bytes()

    with pytest.raises(ConfigError) as raised:
        change_extensions(file, lambda written: with_servers(written, {"a": {"type": "http"}}), ENVIRONMENT)

    assert str(raised.value) == "extensions_config.json: mcpServers.a: a server of type 'http' needs 'url'"
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_cannot_be_read_is_not_overwritten(file: Path) -> None:
    file.write_text('{"skills": ')

    with pytest.raises(ConfigError, match="a value is missing here"):
        switch(file, "pdf")

    assert file.read_text() == '{"skills": '


def test_mode_and_link_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real" / "file.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    link = tmp_path / "extensions_config.json"
    link.symlink_to(real)

    switch(link, "pdf")

    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"skills": {"pdf": {"enabled": False}}}
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_text_of_any_kind_survives_a_change(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"skills": {"🦌 \\ud800 \\u0000": {}}}')

    switch(path, "pdf")

    assert list(read_written(path)["skills"]) == ["🦌 \ud800 \0", "pdf"]


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        switch(tmp_path / "no" / "f.json", "pdf")


def test_changes_made_at_once_by_threads_and_processes_are_all_kept(file: Path) -> None:
    names = [f"skill-{number}" for number in range(24)]

    with ThreadPoolExecutor(6) as threads, get_context("spawn").Pool(2) as processes:
        by_processes = processes.map_async(partial(switch, file), names[:12])
        list(threads.map(partial(switch, file), names[12:]))
        by_processes.get(timeout=60)

    assert set(read(file).skills) == {"pdf", *names}
    assert list(file.parent.iterdir()) == [file]


def test_a_reader_never_meets_half_a_file(file: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(lambda: [switch(file, f"skill-{number}") for number in range(20)])
        while not writing.done():
            read(file)
        writing.result()
