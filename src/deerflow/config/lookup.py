"""Where the files of a configuration are, and which variables they may refer to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import cast

from deerflow.config.files import Stamp, starting_in
from deerflow.config.imports import load_object
from deerflow.domain.errors import ConfigError

CONFIG_NAME = "config.yaml"
EXTENSIONS_NAMES = ("extensions_config.json", "mcp_config.json")
HOME_NAME = ".deer-flow"
READ_DOTENV = "deerflow.config.variables_file:read_dotenv"


@dataclass(frozen=True, slots=True)
class Sought:
    """A file that is one of several, in this order, or none."""

    stamps: tuple[Stamp, ...]
    asked_by: str | None = None
    """Who insists on the file, so that it may not be missing."""

    def find(self) -> Path | None:
        """The first that is there.

        Raises:
            ConfigError: It was asked for by name and is not there.
        """
        found = next((stamp.path for stamp in self.stamps if stamp.state is not None), None)
        if found is None and self.asked_by is not None:
            raise ConfigError(f"{self.asked_by}: there is no file {str(self.stamps[0].path)!r}")
        return found


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a configuration is read from: directories, and the variables of the process and of `.env`."""

    here: Path
    root: Path
    environment: Mapping[str, str]
    dotenv: Stamp

    @property
    def home(self) -> Path:
        """The directory for everything DeerFlow keeps."""
        return self._named_by("DEER_FLOW_HOME") or self.root / HOME_NAME

    @property
    def cache(self) -> Path:
        """The directory for what can be made again."""
        if own := self.environment.get("XDG_CACHE_HOME"):
            return Path(own) / "deerflow"
        user = self.environment.get("HOME")
        return Path(user) / ".cache" / "deerflow" if user else self.home / "cache"

    @property
    def advice(self) -> str:
        """What to do about a variable that is missing."""
        return "set it, or write it to a file named .env" if self.dotenv.state is None else "set it, or add it to .env"

    def config_file(self, path: Path | None) -> Sought:
        """`config.yaml`, or the file that was named instead of it."""
        if path is not None:
            return Sought((Stamp.of(starting_in(self.here, path)),), asked_by="config")
        if (named := self._named_by("DEER_FLOW_CONFIG_PATH")) is not None:
            return Sought((Stamp.of(named),), asked_by="DEER_FLOW_CONFIG_PATH")
        return Sought((Stamp.of(self.root / CONFIG_NAME),))

    def extensions_file(self) -> Sought:
        """`extensions_config.json`, or the file that was named instead of it."""
        if (named := self._named_by("DEER_FLOW_EXTENSIONS_CONFIG_PATH")) is not None:
            return Sought((Stamp.of(named),), asked_by="DEER_FLOW_EXTENSIONS_CONFIG_PATH")
        return Sought(tuple(Stamp.of(self.root / name) for name in EXTENSIONS_NAMES))

    def name(self, path: Path) -> str:
        """What to call a file in a message."""
        return str(path.relative_to(self.here) if path.is_relative_to(self.here) else path)

    def _named_by(self, variable: str) -> Path | None:
        value = self.environment.get(variable)
        return starting_in(self.root, Path(value)) if value else None


def survey(here: Path, process: Mapping[str, str]) -> Surroundings:
    """The surroundings of the directory `here`, for a process with these variables.

    Raises:
        ConfigError: `.env` cannot be read.
    """
    root = starting_in(here, Path(process.get("DEER_FLOW_PROJECT_ROOT") or ""))
    dotenv = Stamp.of(root / ".env")
    # Loaded when it is used: most have no such file.
    read = cast(Callable[[Path], dict[str, str]], load_object(READ_DOTENV)) if dotenv.state is not None else None
    own = read(dotenv.path) if read is not None else {}
    return Surroundings(here, root, MappingProxyType({**own, **process}), dotenv)
