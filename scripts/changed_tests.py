"""Prints the tests to run for what differs from a commit: by default where this branch left `main`.

python scripts/changed_tests.py [commit]

Tests mirror `src/deerflow`: for a changed module these are the tests of the deepest folder that exists in both.
Uncommitted and new files count. What belongs to all tests, such as `pyproject.toml`, selects all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

REPOSITORY = Path(__file__).resolve().parent.parent
OTHERS = {"skills": "tests/skills", "docs": "tests/docs", "deploy": "tests/community", "examples": "tests/examples"}
"""Folders besides the code, and the tests that read them."""
ALL = "tests"


def main() -> None:
    """Print the folders and files, one per line."""
    base = sys.argv[1] if len(sys.argv) > 1 else branching_point()
    names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    found = {tests for name in names if (tests := tests_of(PurePosixPath(name)))}
    print("\n".join([ALL] if ALL in found else sorted(found | {"tests/architecture"})))


def branching_point() -> str:
    """Return the commit at which this branch left `main`; the current one where there is no such branch."""
    for branch in ("origin/main", "main"):
        if point := git("merge-base", "HEAD", branch):
            return point[0]
    return "HEAD"


def tests_of(path: PurePosixPath) -> str | None:
    """Return the folder or file with the tests of `path`; None if no Python test depends on it."""
    match path.parts:
        case ("src", "deerflow", *folders, _):
            return deepest_folder(folders)
        case ("tests", _):
            return ALL
        case ("tests", *_):
            own = str(path if path.name.startswith("test_") and (REPOSITORY / path).exists() else path.parent)
            return own if (REPOSITORY / own).exists() else None
        case (folder, *_) if folder in OTHERS:
            return OTHERS[folder]
        case ("pyproject.toml" | "requirements-dev.lock",):
            return ALL
    return None


def deepest_folder(folders: list[str]) -> str:
    """Return the tests of a package: those of the nearest parent that has any."""
    place = PurePosixPath(ALL, *folders)
    while not (REPOSITORY / place).is_dir():
        place = place.parent
    return str(place)


def git(*arguments: str) -> list[str]:
    """Return the lines Git prints; none if it fails."""
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    main()
