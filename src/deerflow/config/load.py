"""Discovery and loading of the configuration files."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from deerflow.config.loader.document import ConfigDocument, from_mapping, make_empty_document, merge_documents
from deerflow.config.loader.files import FileStamp, parse_yaml, read_text, resolve_from
from deerflow.config.loader.validation import validate
from deerflow.config.loader.variables import read_dotenv, substitute_variables
from deerflow.config.root import Config, is_public_config
from deerflow.config.sections.extensions import Extensions, McpServerConfig, read_extensions
from deerflow.config.sections.tools import add_key_variable
from deerflow.domain.errors import ConfigError

CONFIG_NAME = "config.yaml"
EXTENSIONS_NAMES = ("extensions_config.json", "mcp_config.json")
HOME_NAME = ".deer-flow"


class PublicConfigFound(ConfigError):
    """The file is a configuration of the public DeerFlow, which has another format."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and its origin."""

    config: Config
    extensions: Extensions
    home: Path
    """The state directory of DeerFlow."""
    cache: Path
    """The directory for files that can be created again."""
    config_file: Path | None
    extensions_file: Path
    """The file with the extensions; it may not exist yet."""
    environment: Mapping[str, str] = field(repr=False)
    """The variables of the process and, where it does not set them, those of `.env`."""
    stamps: tuple[FileStamp, ...] = ()
    """The files that were looked for, as they were just before they were read."""
    document: ConfigDocument = field(default_factory=lambda: make_empty_document(CONFIG_NAME), repr=False)
    """The settings as written, with the location of every key."""

    @property
    def folder(self) -> Path:
        """Return the folder of the configuration files; relative paths in them start here."""
        return (self.config_file or self.extensions_file).parent


def load(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> LoadedConfig:
    """Return the configuration for `directory`: `overrides` over `config.yaml` over the defaults.

    Args:
        path: The file to read instead of the discovered one.
        overrides: Settings from code, in the shape of `config.yaml`.
        environment: The variables to use instead of those of the process.
        directory: The directory to look in instead of the current one.

    Raises:
        ConfigError: The configuration is invalid; the text says what, where, and what to write instead.
    """
    here = Path.cwd() if directory is None else directory.absolute()
    found = discover(here, read_process_environment() if environment is None else environment)
    config_file, extensions_file = found.config_file(path), found.extensions_file()

    def load_extensions() -> Extensions:
        file = extensions_file.find()
        if file is None:
            return Extensions()
        extensions = read_extensions(file, found.variables, name=found.name(file), advice=found.advice)
        return resolve_paths(extensions, file)

    try:
        document = _read_document(config_file.find(), overrides, found)
        config = validate(Config, document)
    except PublicConfigFound:
        raise
    except ConfigError as error:
        raise ConfigError("\n".join([str(error), *_collect_errors(load_extensions)])) from None
    return LoadedConfig(
        config=config,
        extensions=load_extensions(),
        home=found.home,
        cache=found.cache,
        config_file=config_file.find(),
        extensions_file=extensions_file.find() or extensions_file.stamps[0].path,
        environment=found.variables,
        stamps=(found.dotenv, *config_file.stamps, *extensions_file.stamps),
        document=document,
    )


def read_example_config() -> bytes:
    """Return the commented `config.yaml` with the default of every setting."""
    return files("deerflow.config").joinpath("config.example.yaml").read_bytes()


def find_config_path() -> Path:
    """Return the path where `load` looks for the configuration by default."""
    return discover(Path.cwd(), read_process_environment()).config_file(None).stamps[0].path


def read_process_environment() -> Mapping[str, str]:
    """Return a copy of the environment variables of this process."""
    return MappingProxyType(dict(os.environ))  # noqa: TID251


@dataclass(frozen=True, slots=True)
class ConfigPath:
    """The candidate paths of a file, in order of preference."""

    stamps: tuple[FileStamp, ...]
    required_by: str | None = None
    """The argument or variable that names the file; the file must exist then."""

    def find(self) -> Path | None:
        """Return the first path that exists.

        Raises:
            ConfigError: The file is required and does not exist.
        """
        found = next((stamp.path for stamp in self.stamps if stamp.state is not None), None)
        if found is None and self.required_by is not None:
            raise ConfigError(f"{self.required_by}: there is no file {str(self.stamps[0].path)!r}")
        return found


@dataclass(frozen=True, slots=True)
class Environment:
    """The directories and variables that a configuration is read from."""

    here: Path
    root: Path
    variables: Mapping[str, str]
    """The variables of the process and of `.env`."""
    dotenv: FileStamp

    @property
    def home(self) -> Path:
        """Return the state directory of DeerFlow."""
        return self._get_path("DEER_FLOW_HOME") or self.root / HOME_NAME

    @property
    def cache(self) -> Path:
        """Return the directory for files that can be created again."""
        if own := self.variables.get("XDG_CACHE_HOME"):
            return Path(own) / "deerflow"
        user = self.variables.get("HOME")
        return Path(user) / ".cache" / "deerflow" if user else self.home / "cache"

    @property
    def advice(self) -> str:
        """Return the advice for a missing variable."""
        return "set it, or write it to a file named .env" if self.dotenv.state is None else "set it, or add it to .env"

    def config_file(self, path: Path | None) -> ConfigPath:
        """Return the path of `config.yaml`, or of the file given instead."""
        if path is not None:
            return ConfigPath((FileStamp.read(resolve_from(self.here, path)),), required_by="config")
        if (own := self._get_path("DEER_FLOW_CONFIG_PATH")) is not None:
            return ConfigPath((FileStamp.read(own),), required_by="DEER_FLOW_CONFIG_PATH")
        return ConfigPath((FileStamp.read(self.root / CONFIG_NAME),))

    def extensions_file(self) -> ConfigPath:
        """Return the path of `extensions_config.json`, or of the file given instead."""
        if (own := self._get_path("DEER_FLOW_EXTENSIONS_CONFIG_PATH")) is not None:
            return ConfigPath((FileStamp.read(own),), required_by="DEER_FLOW_EXTENSIONS_CONFIG_PATH")
        return ConfigPath(tuple(FileStamp.read(self.root / name) for name in EXTENSIONS_NAMES))

    def name(self, path: Path) -> str:
        """Return the name of a file for messages."""
        return str(path.relative_to(self.here) if path.is_relative_to(self.here) else path)

    def _get_path(self, variable: str) -> Path | None:
        value = self.variables.get(variable)
        return resolve_from(self.root, Path(value)) if value else None


def discover(here: Path, process: Mapping[str, str]) -> Environment:
    """Return the environment of the directory `here`, for a process with these variables.

    Raises:
        ConfigError: `.env` cannot be read.
    """
    root = resolve_from(here, Path(process.get("DEER_FLOW_PROJECT_ROOT") or ""))
    dotenv = FileStamp.read(root / ".env")
    own = read_dotenv(dotenv.path) if dotenv.state is not None else {}
    return Environment(here, root, MappingProxyType({**own, **process}), dotenv)


def _read_document(file: Path | None, overrides: Mapping[str, object] | None, found: Environment) -> ConfigDocument:
    """Return the settings of the file and of code, merged, with variables substituted."""
    if file is None:
        document = make_empty_document(CONFIG_NAME)
    else:
        document = parse_yaml(read_text(file, found.name(file)), found.name(file))
        if is_public_config(document.data):
            name = found.name(file)
            raise PublicConfigFound(
                f"{name}: this is a configuration of the public DeerFlow; run: deerflow config migrate {name}"
            )
    if overrides:
        document = merge_documents(document, from_mapping(overrides, "config argument"))
    document = _add_tool_keys(document.drop_keys(*_find_ignored_keys(document)), found.variables)
    return substitute_variables(document, found.variables, found.advice)


def _find_ignored_keys(document: ConfigDocument) -> list[str]:
    """Return the top-level keys to ignore: empty sections, and `x-…`, which may hold anchors."""
    return [
        key
        for key, value in document.data.items()
        if key.startswith("x-") or (value is None and key in Config.model_fields)
    ]


def _add_tool_keys(document: ConfigDocument, variables: Mapping[str, str]) -> ConfigDocument:
    """Return the document with the API keys of web tools that only the environment has."""
    tools = document.data.get("tools")
    if not isinstance(tools, list):
        return document
    return replace(document, data={**document.data, "tools": [add_key_variable(each, variables) for each in tools]})


def _collect_errors(read: Callable[[], object]) -> list[str]:
    """Return the errors of a further file, so that all errors are reported at once."""
    try:
        read()
    except ConfigError as error:
        return [str(error)]
    return []


SCRIPT_SUFFIXES = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".php", ".sh", ".jar"})


def resolve_paths(extensions: Extensions, path: Path) -> Extensions:
    """Return the extensions in a file with the relative paths of their commands below its folder."""
    servers = extensions.mcp_servers.items()
    resolved = {name: resolve_server_paths(server, path.resolve().parent) for name, server in servers}
    return extensions.model_copy(update={"mcp_servers": resolved})


def resolve_server_paths(server: McpServerConfig, folder: Path) -> McpServerConfig:
    """Return a server whose `cwd` is absolute, and its arguments if they name programs and there is no `cwd`."""
    if server.cwd is not None:
        return server.model_copy(update={"cwd": str(folder / Path(server.cwd).expanduser())})
    args = tuple(str(folder / word) if is_script_in(folder, word) else word for word in server.args)
    return server.model_copy(update={"args": args}) if args != server.args else server


def is_script_in(folder: Path, word: str) -> bool:
    """Return whether an argument is the relative path of a program, such as `server.py`."""
    return Path(word).suffix in SCRIPT_SUFFIXES and not word.startswith(("-", "/")) and (folder / word).is_file()
