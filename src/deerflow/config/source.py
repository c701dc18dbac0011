"""The current configuration: edits take effect between runs, and an invalid edit changes nothing."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from deerflow.config.load import CONFIG_NAME, LoadedConfig, load
from deerflow.config.loader.document import KeyPath
from deerflow.config.loader.files import FileStamp
from deerflow.config.loader.validation import CREDENTIALS_IN_URL, MASK, NO_VARIABLES, is_redactable, is_secret
from deerflow.config.sections.base import Settings
from deerflow.domain.errors import ConfigError

logger = logging.getLogger(__name__)


def open_source(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> "ConfigSource":
    """Return a source for the configuration that `load` returns for these arguments.

    Raises:
        ConfigError: The configuration is invalid from the start.
    """
    reload = partial(load, path, overrides=overrides, environment=environment, directory=directory)
    return ConfigSource(reload(), reload)


T = TypeVar("T")


class ConfigSource:
    """Holds the current configuration and reloads it on request when its files have changed."""

    def __init__(self, loaded: LoadedConfig, reload: Callable[[], LoadedConfig]) -> None:
        self._reload = reload
        self._current = loaded
        self._written = loaded
        self._stamps = loaded.stamps
        self._problem: str | None = None
        self._secrets_by_kind: dict[str, tuple[str, ...]] = {}
        self._saved_secrets: tuple[str, ...] = ()
        self._redactor = loaded, Redactor(loaded)

    @property
    def current(self) -> LoadedConfig:
        """Return the current configuration without looking at the files."""
        return self._current

    @property
    def problem(self) -> str | None:
        """Return the error in the files as they are now; None when they are valid."""
        return self._problem

    def redact(self, text: str) -> str:
        """Return `text` with the secrets of the current configuration, and those that were saved, masked."""
        if self._redactor[0] is not self._current:
            self._redactor = self._current, Redactor(self._current, self._saved_secrets)
        return self._redactor[1](text)

    def remember_secrets(self, secrets: Sequence[str], kind: str = "models") -> None:
        """Mask these secrets too, in place of those of an earlier call for the same kind."""
        if self._secrets_by_kind.get(kind) != tuple(secrets):
            self._secrets_by_kind[kind] = tuple(secrets)
            self._saved_secrets = tuple(chain.from_iterable(self._secrets_by_kind.values()))
            self._redactor = self._current, Redactor(self._current, self._saved_secrets)

    def refresh(self) -> LoadedConfig:
        """Reload the files if they have changed, and return the current configuration."""
        if all(stamp.is_current() for stamp in self._stamps):
            return self._current
        stamps = tuple(FileStamp.read(stamp.path) for stamp in self._stamps)
        # Stored first, so that an invalid file is reported once and not before every run.
        self._stamps = stamps
        try:
            written = self._reload()
        except ConfigError as error:
            self._problem = str(error)
            logger.error("the changed configuration is invalid; using the last valid version:\n%s", error)
            return self._current
        if written.config_file is not None and is_blank(written.config_file):
            # Some editors empty a file before they write it, and agents would change to the demo model meanwhile.
            self._problem = f"{CONFIG_NAME} is empty; delete it to use the defaults"
            logger.error("%s; using the last valid version", self._problem)
            return self._current
        self._problem = None
        self._adopt(written)
        return self._current

    def settings(self, select: Callable[[LoadedConfig], T]) -> Settings[T]:
        """Return one part of the configuration as it changes over time."""
        return Settings(lambda: select(self.refresh()))

    def _adopt(self, written: LoadedConfig) -> None:
        """Make `written` the current configuration, except for settings that need a restart."""
        running, before, now = map(_get_restart_settings, (self._current, self._written, written))
        # Only the latest edit is reported: earlier ones were reported when they were made.
        pending = [name for name, value in now.items() if value != before[name] and value != running[name]]
        if pending:
            logger.warning("%s changed; restart the server to use the new values", ", ".join(pending))
        config = written.config.model_copy(update=self._current.config.get_restart_settings())
        self._current = replace(written, config=config, home=self._current.home)
        self._written = written
        self._stamps = written.stamps


def is_blank(file: Path) -> bool:
    """Return whether a file contains nothing, not even a comment."""
    try:
        return not file.read_bytes().strip()
    except OSError:
        return False


def _get_restart_settings(loaded: LoadedConfig) -> dict[str, object]:
    return {**loaded.config.get_restart_settings(), "DEER_FLOW_HOME": loaded.home}


class Redactor:
    """Masks every secret of a configuration."""

    def __init__(self, loaded: LoadedConfig, saved: Sequence[str] = ()) -> None:
        texts = {
            *saved,
            *find_secrets(loaded.config.model_dump(), loaded.document.variables),
            *find_secrets(loaded.extensions.model_dump()),
            *find_secrets(dict(loaded.environment)),
        }
        longest_first = sorted(filter(is_redactable, texts), key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return `text` with the secrets masked."""
        return self._secrets.sub(MASK, text) if self._secrets else text


def find_secrets(
    value: Any, variables: Mapping[KeyPath, tuple[str, ...]] = NO_VARIABLES, path: KeyPath = ()
) -> Iterator[str]:
    """Yield the secret texts in `value`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from find_secrets(item, variables, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from find_secrets(item, variables, (*path, index))
    elif isinstance(value, str) and is_secret(path):
        yield value.strip()
    elif isinstance(value, str):
        yield from CREDENTIALS_IN_URL.findall(value)
