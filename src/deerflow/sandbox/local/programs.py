"""What of this machine a program needs to see of itself, when it is not one of the system's."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from deerflow.domain.errors import SandboxError

SYSTEM = Path("/usr")


def needed_paths(
    command: Sequence[str], extra: Sequence[Path], shown: Sequence[str], path: str | None
) -> tuple[list[str], list[Path]]:
    """The command to run in a sandbox, and what has to be shown there, at the same paths, besides the system.

    Args:
        command: The program, by its name or path, and its arguments.
        extra: What the configuration wants shown.
        shown: Where the sandbox looks for programs.
        path: Where this machine looks for programs.

    Raises:
        SandboxError: Something is not there.
    """
    missing = [str(each) for each in extra if not each.exists()]
    if missing:
        raise SandboxError(f"{', '.join(missing)} does not exist on this machine; correct 'paths'")
    program = command[0]
    wanted = list(extra)
    if "/" not in program:
        if any(Path(folder, program).exists() for folder in shown if is_system(Path(folder))):
            return list(command), wanted
        found = shutil.which(program, path=path)
        if found is None:  # the sandbox may have it, where this machine has not
            return list(command), wanted
        program = found
    located = Path(program).absolute()
    if not located.exists():
        raise SandboxError(f"there is no program {program!r} on this machine")
    return [str(located), *command[1:]], dedupe([*wanted, *own_folders(located)])


def own_folders(program: Path) -> list[Path]:
    """The folder a program was installed in, and that of the Python it uses; the program alone where none is known."""
    real = program.resolve()
    for each in (program, real):
        prefix = each.parent.parent
        if (prefix / "pyvenv.cfg").is_file():
            return [prefix, *bases_of(prefix)]
        if each.parent.name == ".bin" and prefix.name == "node_modules":
            return [prefix]
        if modules := next((parent for parent in each.parents if parent.name == "node_modules"), None):
            return [modules, program]
    return [each for each in (program, real) if not is_system(each)]


def bases_of(environment: Path) -> list[Path]:
    """Where the Python of a virtual environment was installed, also by the name of a link to it."""
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip():
            named = Path(value.strip()).parent
            return [each for each in (named, named.resolve()) if not is_system(each)]
    return []


def is_system(path: Path) -> bool:
    """Whether every sandbox shows it anyway."""
    return path.resolve().is_relative_to(SYSTEM)


def dedupe(paths: Sequence[Path]) -> list[Path]:
    """The paths, without those that others hold already."""
    chosen: list[Path] = []
    for each in dict.fromkeys(paths):
        if not is_system(each) and not any(each != other and each.is_relative_to(other) for other in paths):
            chosen.append(each)
    return chosen
