"""Location of host programs and the paths they need inside a sandbox."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from deerflow.domain.errors import SandboxError

SYSTEM = Path("/usr")


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
