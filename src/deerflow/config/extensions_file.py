"""Reading `extensions_config.json`, and changing it without spelling out the variables it refers to."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deerflow.config.extensions import Extensions
from deerflow.config.files import read_text, replace_file
from deerflow.config.reading.document import Document, from_argument
from deerflow.config.reading.problems import KeyPath, WrongConfig
from deerflow.config.reading.text import parse_json
from deerflow.config.reading.validation import validate
from deerflow.config.reading.variables import fill_variables
from deerflow.domain.errors import ConfigError

Written = Mapping[str, Any]
"""The file as it is written: variables by their names, not their values."""


def read_extensions(path: Path, environment: Mapping[str, str], *, name: str, advice: str = "set it") -> Extensions:
    """The extensions in a file that messages call `name`.

    Raises:
        ConfigError: The file cannot be read or something in it is wrong.
    """
    return _checked(parse_json(read_text(path, name), name), environment, advice)


def read_written(path: Path) -> Written:
    """The file as it is written; nothing when there is none.

    Raises:
        ConfigError: The file cannot be read.
    """
    if not path.exists():
        return {}
    document = parse_json(read_text(path, path.name), path.name)
    if document.problems:
        raise WrongConfig(document.problems)
    return document.data


def change_extensions(path: Path, change: Callable[[Written], Written], environment: Mapping[str, str]) -> Extensions:
    """Apply `change` to the file, one change at a time whoever makes them, and return what it then says.

    Raises:
        ConfigError: The outcome would be wrong, or the file cannot be read or written; it is left as it was.
    """
    with _alone_in(path.resolve().parent):
        written = change(read_written(path))
        extensions = _checked(from_argument(written, path.name), environment, "set it")
        # A half of a surrogate pair has no bytes in UTF-8, but JSON has an escape for it.
        text = json.dumps(written, indent=2, ensure_ascii=False) + "\n"
        replace_file(path, text.encode(errors="backslashreplace"))
    return extensions


def with_skill(written: Written, name: str, *, enabled: bool) -> Written:
    """The file with a skill switched on or off."""
    skills = written.get("skills") or {}
    return {**written, "skills": {**skills, name: {**skills.get(name, {}), "enabled": enabled}}}


def with_servers(written: Written, servers: Mapping[str, Written]) -> Written:
    """The file with these MCP servers instead of its own."""
    return {**written, "mcpServers": dict(servers)}


def _checked(document: Document, environment: Mapping[str, str], advice: str) -> Extensions:
    document = document.without(*(key for key in ("mcpServers", "skills") if document.data.get(key) is None))
    return validate(Extensions, fill_variables(document, environment, advice, _is_in_use(document)))


def _is_in_use(document: Document) -> Callable[[KeyPath], bool]:
    """Tells which parts need their variables: a server that is switched off can be kept without its keys."""
    servers = document.data.get("mcpServers")
    named = servers.items() if isinstance(servers, dict) else ()
    unused = {name for name, server in named if isinstance(server, dict) and server.get("enabled") is False}
    return lambda path: path[:1] != ("mcpServers",) or len(path) != 2 or path[1] not in unused


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Wait until nobody else, in this process or another, changes extensions in `directory`."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"{directory}: {(error.strerror or str(error)).lower()}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
