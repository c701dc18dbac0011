"""Reads the configuration; the only place that looks at the environment of the process."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from deerflow.config.extensions import Extensions
from deerflow.config.extensions_file import read_extensions
from deerflow.config.files import Stamp, read_text
from deerflow.config.lookup import CONFIG_NAME, Surroundings, survey
from deerflow.config.reading.document import Document, empty, from_argument, merge
from deerflow.config.reading.text import parse_yaml
from deerflow.config.reading.validation import validate
from deerflow.config.reading.variables import fill_variables
from deerflow.config.root import Config
from deerflow.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and where it came from."""

    config: Config
    extensions: Extensions
    home: Path
    """The directory for everything DeerFlow keeps."""
    cache: Path
    """The directory for what can be made again."""
    config_file: Path | None
    extensions_file: Path
    """Where the extensions are, or would be written."""
    environment: Mapping[str, str] = field(repr=False)
    """The variables of the process and, where it does not set them, those of `.env`."""
    stamps: tuple[Stamp, ...] = ()
    """The files that were looked for, as they were just before they were read."""
    document: Document = field(default_factory=lambda: empty(CONFIG_NAME), repr=False)
    """What was written, with the place of every key."""


def load(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Loaded:
    """The configuration for `directory`: `overrides` over `config.yaml` over the defaults.

    Args:
        path: The file to read instead of the one that would be found.
        overrides: Settings from code, in the shape of `config.yaml`.
        environment: The variables to see instead of those of the process.
        directory: The directory to look in instead of the current one.

    Raises:
        ConfigError: Something is wrong; the text says what, where, and what to write instead.
    """
    here = Path.cwd() if directory is None else directory.absolute()
    around = survey(here, process_environment() if environment is None else environment)
    config_file, extensions_file = around.config_file(path), around.extensions_file()

    def extensions() -> Extensions:
        found = extensions_file.find()
        if found is None:
            return Extensions()
        return read_extensions(found, around.environment, name=around.name(found), advice=around.advice)

    try:
        document = _document(config_file.find(), overrides, around)
        config = validate(Config, document)
    except ConfigError as error:
        raise ConfigError("\n".join([str(error), *_objections(extensions)])) from None
    return Loaded(
        config=config,
        extensions=extensions(),
        home=around.home,
        cache=around.cache,
        config_file=config_file.find(),
        extensions_file=extensions_file.find() or extensions_file.stamps[0].path,
        environment=around.environment,
        stamps=(around.dotenv, *config_file.stamps, *extensions_file.stamps),
        document=document,
    )


def config_place() -> Path:
    """Where `load` looks for the configuration when it is told nothing."""
    return survey(Path.cwd(), process_environment()).config_file(None).stamps[0].path


def process_environment() -> Mapping[str, str]:
    """The environment variables of this process, as they are now."""
    return MappingProxyType(dict(os.environ))  # noqa: TID251


def _document(file: Path | None, overrides: Mapping[str, object] | None, around: Surroundings) -> Document:
    """What was written in the file and in code, as one, with variables filled in."""
    document = empty(CONFIG_NAME) if file is None else _read_yaml(file, around.name(file))
    if overrides:
        document = merge(document, from_argument(overrides, "config argument"))
    return fill_variables(document.without(*_without_meaning(document)), around.environment, around.advice)


def _read_yaml(file: Path, name: str) -> Document:
    return parse_yaml(read_text(file, name), name)


def _without_meaning(document: Document) -> list[str]:
    """Top-level keys to pass over: sections left empty, and `x-…`, where anchors may be kept."""
    return [
        key
        for key, value in document.data.items()
        if key.startswith("x-") or (value is None and key in Config.model_fields)
    ]


def _objections(read: Callable[[], object]) -> list[str]:
    """What is wrong with a further file, so that all is told at once."""
    try:
        read()
    except ConfigError as error:
        return [str(error)]
    return []
