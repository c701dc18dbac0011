"""Location of host programs and the paths they need inside a sandbox; commands that run a container."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path

from deerflow.domain.errors import SandboxError

SYSTEM = Path("/usr")
PACKAGE_FILES = ("package.json", "pyproject.toml", "setup.py", "setup.cfg", "pyvenv.cfg", "requirements.txt")
INSTALL_FOLDERS = frozenset({".venv", ".bin", ".pnpm"})
CONFIG_FILES = ("extensions_config.json", ".deer-flow")
OWN_FOLDERS = tuple(
    Path(folder) for folder in ("/mnt/user-data", "/mnt/skills", "/proc", "/sys", "/dev", "/etc", "/run")
)
"""Folders of which a sandbox has its own version."""


def resolve_program(
    command: Sequence[str], extra: Sequence[Path], shown: Sequence[str], path: str | None
) -> tuple[list[str], list[Path]]:
    """Return the command to run in a sandbox and the paths to mount for it, at the same paths.

    Args:
        command: Program, by name or path, and its arguments.
        extra: Paths from the configuration to mount.
        shown: Program folders of the sandbox.
        path: `PATH` of this machine.

    Raises:
        SandboxError: A path does not exist.
    """
    missing = [str(each) for each in extra if not each.exists()]
    if missing:
        raise SandboxError(f"{', '.join(missing)} does not exist on this machine; correct 'paths'")
    program = command[0]
    needed = list(extra)
    if "/" not in program:
        if any(Path(folder, program).exists() for folder in shown if is_system(Path(folder))):
            return list(command), needed
        found = shutil.which(program, path=path)
        if found is None:  # the sandbox may have it even if this machine does not
            return list(command), needed
        program = found
    located = Path(program).absolute()
    if not located.exists():
        raise SandboxError(f"there is no program {program!r} on this machine")
    return [str(located), *command[1:]], drop_nested([*needed, *find_install_folders(located)])


def find_install_folders(program: Path) -> list[Path]:
    """Return the install folder of a program and of its Python, or the program alone if none is known."""
    real = program.resolve()
    for each in (program, real):
        prefix = each.parent.parent
        if (prefix / "pyvenv.cfg").is_file():
            return [prefix, *find_base_python(prefix)]
        if each.parent.name == ".bin" and prefix.name == "node_modules":
            return [prefix]
        if modules := next((parent for parent in each.parents if parent.name == "node_modules"), None):
            return [modules, program]
    return [each for each in (program, real) if not is_system(each)]


def find_base_python(environment: Path) -> list[Path]:
    """Return the install folders of the base Python of a virtual environment, including that of a link to it."""
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip():
            named = Path(value.strip()).parent
            return [each for each in (named, named.resolve()) if not is_system(each)]
    return []


def is_system(path: Path) -> bool:
    """Return True if every sandbox mounts the path anyway."""
    return path.resolve().is_relative_to(SYSTEM)


def drop_nested(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without duplicates and without those inside others."""
    chosen: list[Path] = []
    for each in dict.fromkeys(paths):
        if not is_system(each) and not any(each != other and each.is_relative_to(other) for other in paths):
            chosen.append(each)
    return chosen


def find_argument_paths(arguments: Sequence[str], home: Path) -> list[Path]:
    """Return the host paths that the arguments of a program name and that it may read.

    A file of a package is shown with its package, another file alone, and a folder with its content. Not shown are the
    home folder and those above it, hidden files and folders outside of packages, and folders that every sandbox has.
    """
    named = [Path(each.rpartition("=")[2] if each.startswith("-") else each) for each in arguments]
    found = [shown for path in named if (shown := find_shown_path(path, home)) is not None]
    return drop_nested(found)


def find_shown_path(path: Path, home: Path) -> Path | None:
    """Return the file or folder to show for a path in an argument; None for none."""
    if not path.is_absolute() or ".." in path.parts or is_system(path) or not path.exists():
        return None
    real = path.resolve()
    if any(each.is_relative_to(folder) for each in (path, real) for folder in OWN_FOLDERS) or has_secrets(real):
        return None
    if (package := find_package(path, home)) is not None:
        return package if not is_hidden(path.relative_to(package)) else None
    is_private = is_above_home(real, home) or is_hidden(path) or is_hidden(real)
    return path if not is_private else None


def find_package(path: Path, home: Path) -> Path | None:
    """Return the folder of the package that a file belongs to, with its dependencies; None if there is none."""
    for folder in path.parents if path.is_file() else ():
        if is_above_home(folder.resolve(), home) or has_secrets(folder):
            return None
        if folder.name == "node_modules" or any((folder / name).is_file() for name in PACKAGE_FILES):
            outer = [parent for parent in folder.parents if parent.name == "node_modules"]
            return outer[-1] if outer else folder
    return None


def is_above_home(folder: Path, home: Path) -> bool:
    """Return True for the home folder, the folders above it, and the folders directly below the root."""
    return home.resolve().is_relative_to(folder) or len(folder.parts) <= 2


def has_secrets(folder: Path) -> bool:
    """Return True for the folder with the configuration of this server."""
    return any((folder / name).exists() for name in CONFIG_FILES)


def is_hidden(path: Path) -> bool:
    """Return True if a part of the path is hidden, as files with secrets usually are."""
    return any(part.startswith(".") and part not in INSTALL_FOLDERS for part in path.parts)


NETWORK_OPTIONS = frozenset({"--network", "--net", "--pod"})
NAMESPACE_OPTIONS = NETWORK_OPTIONS | {"--pid", "--ipc", "--uts", "--userns", "--cgroupns"}
SHORT_FLAGS = frozenset("diPqt")
"""Short options of `docker run` without a value; they can be written together, as in `-it`."""
ENGINE_VARIABLES = (
    *("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
)
"""Variables by which the client of a container engine finds it."""
ENGINE_TIMEOUT_S = 30.0
MOUNT_OPTIONS = frozenset({"-v", "--volume", "--mount"})
REFUSED_OPTIONS = frozenset(
    {"--privileged", "--device", "--cap-add", "--security-opt", "--volumes-from", "--cgroup-parent", "--gpus"}
)
"""Options of `docker run` that lead out of the container."""


def build_container_command(command: Sequence[str], name: str, home: Path, *, has_network: bool) -> list[str]:
    """Return the command of a container with the given name, which is removed at its end.

    The container isolates the program, so the engine itself runs as the server's user. Options that would give the
    program more than its own container and the folders that it mounts are refused.

    Raises:
        SandboxError: The command does not run a container, or one that is not isolated.
    """
    if "run" not in command[1:]:
        raise SandboxError(f"{command[0]!r} runs a server by 'run' alone: {command[0]} run -i --rm IMAGE")
    start = list(command).index("run", 1) + 1
    options = list(split_options(command[start:]))
    for option, value in options:
        if option in REFUSED_OPTIONS or (option in NAMESPACE_OPTIONS and is_host_namespace(value)):
            raise SandboxError(f"{option!r} lets the container out; start it yourself and use its URL")
        if option in NETWORK_OPTIONS and not has_network and value != "none":
            raise SandboxError(f"{option!r} contradicts 'network': false; remove one of them")
        source = find_mount_source(value) if option in MOUNT_OPTIONS else None
        if source is not None and find_shown_path(source, home) is None:
            raise SandboxError(f"a server must not see {str(source)!r}; mount a folder with its files alone")
    named = {value for option, value in options if option == "--name"}
    kept = [word for word in command[start:] if word not in {"--name", *named, *(f"--name={each}" for each in named)}]
    is_set = any(option in NETWORK_OPTIONS for option, _ in options)
    network = [] if has_network or is_set else ["--network", "none"]
    return [*command[:start], "--interactive", "--rm", "--name", name, *network, *kept]


def is_host_namespace(value: str) -> bool:
    """Return whether the value of an option names a namespace of this machine."""
    return value == "host" or value.startswith("ns:")


def split_options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options with the text after `=`, or else the next argument; short ones with the rest of their word."""
    for word, following in pairwise([*arguments, ""]):
        if word.startswith("--"):
            option, sign, value = word.partition("=")
            yield option, value if sign else following
        elif word.startswith("-"):
            flags = "".join(takewhile(SHORT_FLAGS.__contains__, word[1:]))
            yield from ((f"-{flag}", "") for flag in flags)
            if letter := word[1 + len(flags) : 2 + len(flags)]:
                yield f"-{letter}", word[2 + len(flags) :].removeprefix("=") or following


def find_mount_source(mount: str) -> Path | None:
    """Return the host path of a mount; None for a volume of the engine."""
    fields = dict(part.split("=", 1) for part in mount.split(",") if "=" in part)
    source = fields.get("src") or fields.get("source") or mount.split(":")[0]
    return Path(source).expanduser() if source.startswith(("/", "~", ".")) else None


def find_engine_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this machine that the client of an engine needs."""
    return {key: environment[key] for key in ENGINE_VARIABLES if key in environment}


def remove_container(engine: str, name: str, environment: Mapping[str, str]) -> None:
    """Stop and remove a container, if it still exists; blocks."""
    program = shutil.which(engine, path=environment.get("PATH"))
    if program is not None:
        with suppress(subprocess.TimeoutExpired):
            command = [program, "rm", "--force", name]
            subprocess.run(command, env=environment, capture_output=True, timeout=ENGINE_TIMEOUT_S, check=False)
