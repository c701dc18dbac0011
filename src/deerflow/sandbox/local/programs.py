"""Location of host programs and the paths they need inside a sandbox."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from deerflow.domain.errors import SandboxError

SYSTEM = Path("/usr")
PACKAGE_FILES = ("package.json", "pyproject.toml", "setup.py", "setup.cfg", "pyvenv.cfg", "requirements.txt")
INSTALL_FOLDERS = frozenset({".venv", ".bin", ".pnpm"})
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
    if any(each.is_relative_to(folder) for each in (path, real) for folder in OWN_FOLDERS):
        return None
    if (package := find_package(path, home)) is not None:
        return package if not is_hidden(path.relative_to(package)) else None
    is_private = is_above_home(real, home) or is_hidden(path) or is_hidden(real)
    return path if not is_private else None


def find_package(path: Path, home: Path) -> Path | None:
    """Return the folder of the package that a file belongs to, with its dependencies; None if there is none."""
    for folder in path.parents if path.is_file() else ():
        if is_above_home(folder.resolve(), home):
            return None
        if folder.name == "node_modules" or any((folder / name).is_file() for name in PACKAGE_FILES):
            outer = [parent for parent in folder.parents if parent.name == "node_modules"]
            return outer[-1] if outer else folder
    return None


def is_above_home(folder: Path, home: Path) -> bool:
    """Return True for the home folder, the folders above it, and the folders directly below the root."""
    return home.resolve().is_relative_to(folder) or len(folder.parts) <= 2


def is_hidden(path: Path) -> bool:
    """Return True if a part of the path is hidden, as files with secrets usually are."""
    return any(part.startswith(".") and part not in INSTALL_FOLDERS for part in path.parts)
