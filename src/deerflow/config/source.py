"""The configuration over time: edits are picked up between runs, and a wrong edit changes nothing."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from deerflow.config.files import Stamp
from deerflow.config.hiding import Hiding
from deerflow.config.load import Loaded, load
from deerflow.domain.errors import ConfigError

logger = logging.getLogger(__name__)


def open_source(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> "ConfigSource":
    """The configuration that `load` finds with these arguments, now and later.

    Raises:
        ConfigError: It is wrong from the start.
    """
    load_again = partial(load, path, overrides=overrides, environment=environment, directory=directory)
    return ConfigSource(load_again(), load_again)


class ConfigSource:
    """Holds the configuration in force and, when asked, looks whether its files have changed."""

    def __init__(self, loaded: Loaded, load_again: Callable[[], Loaded]) -> None:
        self._load_again = load_again
        self._current = loaded
        self._written = loaded
        self._stamps = loaded.stamps
        self._problem: str | None = None
        self._hiding = loaded, Hiding(loaded)

    @property
    def current(self) -> Loaded:
        """The configuration in force."""
        return self._current

    @property
    def problem(self) -> str | None:
        """What is wrong with the files as they are now; None when they are in force."""
        return self._problem

    def hide(self, text: str) -> str:
        """`text` as others may read it: without a secret of the configuration in force."""
        if self._hiding[0] is not self._current:
            self._hiding = self._current, Hiding(self._current)
        return self._hiding[1](text)

    def refresh(self) -> Loaded:
        """The configuration in force, after reading the files again if they have changed."""
        stamps = tuple(Stamp.of(stamp.path) for stamp in self._stamps)
        if stamps == self._stamps:
            return self._current
        # Remembered first, so that a wrong file is told of once and not before every run.
        self._stamps = stamps
        try:
            written = self._load_again()
        except ConfigError as error:
            self._problem = str(error)
            logger.error("the configuration was changed but is wrong, so the former one stays in force:\n%s", error)
            return self._current
        self._problem = None
        self._adopt(written)
        return self._current

    def _adopt(self, written: Loaded) -> None:
        """Put what was read in force, except for what needs a restart."""
        running, before, now = map(_settled_at_start, (self._current, self._written, written))
        # Only what was edited just now is told of: an edit that waits already was told of when it was made.
        waiting = [name for name, value in now.items() if value != before[name] and value != running[name]]
        if waiting:
            logger.warning("%s changed; restart the server to use the new values", ", ".join(waiting))
        config = written.config.model_copy(update=self._current.config.settled_at_start())
        self._current = replace(written, config=config, home=self._current.home)
        self._written = written
        self._stamps = written.stamps


def _settled_at_start(loaded: Loaded) -> dict[str, object]:
    return {**loaded.config.settled_at_start(), "DEER_FLOW_HOME": loaded.home}
