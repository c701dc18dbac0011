"""Packages and toolboxes built locally, without a package index."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.sandbox.local.toolbox import ToolboxBuilder


def build_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    """Create a package with one module and a program that prints its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n\n\ndef main():\n    print({name!r}, version)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return file


def make_lock_line(wheel: Path) -> str:
    name, version, *_ = wheel.name.split("-")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


class ToolboxFixture:
    """Folder with wheels, a lock and a cache for one test."""

    def __init__(self, root: Path) -> None:
        self.root, self.wheels, self.lock = root, root / "wheels", root / "toolbox.lock"
        self.wheels.mkdir()
        self.lock.write_text(make_lock_line(build_wheel(self.wheels, "hammer")))
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "UV_CACHE_DIR": str(root / "uv"),
            "UV_NO_CONFIG": "1",
            "UV_DEFAULT_INDEX": (root / "empty").as_uri(),
            "UV_FIND_LINKS": str(self.wheels),
        }

    def builder(self, *packages: str, **changes: object) -> ToolboxBuilder:
        settings = {"lock": self.lock, "environment": self.environment, **changes}
        return ToolboxBuilder(ToolboxConfig(packages=packages), self.root / "cache", **settings)  # type: ignore[arg-type]

    def instead_of_uv(self, script: str) -> "FindUv":
        program = self.root / "uv.sh"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return FindUv([str(program)])

    def list_cached(self) -> list[str]:
        """Return the files in the folder of the only toolbox."""
        return sorted(path.name for path in (self.root / "cache/toolbox").glob("*/*"))


class FindUv:
    def __init__(self, command: Sequence[str] | None) -> None:
        self.command = command

    def __call__(self, environment: Mapping[str, str]) -> Sequence[str] | None:
        return self.command
