"""Real MCP servers from npm and PyPI, installed once per machine and version."""

import fcntl
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

from tests.support import needs, user_cache

EVERYTHING, FILESYSTEM, MEMORY = "server-everything", "server-filesystem", "server-memory"
NPM_VERSION = "2026.8.31"
PYPI_VERSIONS = {
    "mcp-server-time": "2026.10.19",
    "mcp-server-git": "2026.10.19",
    "mcp-server-fetch": "2026.10.24",
}


def npm_server(name: str) -> Path:
    """The program of `@modelcontextprotocol/<name>`."""
    needs("node")
    npm = needs("npm")
    packages = [f"@modelcontextprotocol/{each}@{NPM_VERSION}" for each in (EVERYTHING, FILESYSTEM, MEMORY)]
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    folder = installed(f"npm-{NPM_VERSION}", lambda place: [[*command, "--prefix", str(place)]])
    return folder / "node_modules" / ".bin" / f"mcp-{name}"


def pypi_server(name: str) -> Path:
    """The program of a PyPI package, in an environment of its own."""
    version = PYPI_VERSIONS[name]
    uv = str(Path(sysconfig.get_path("scripts"), "uv"))
    folder = installed(
        f"{name}-{version}-compiled",
        lambda place: [
            [uv, "venv", "-q", "--relocatable", str(place)],
            [uv, "pip", "install", "-q", "--compile-bytecode", f"--python={place}/bin/python", f"{name}=={version}"],
        ],
    )
    return folder / "bin" / name


def installed(name: str, commands: Callable[[Path], list[list[str]]]) -> Path:
    """A folder that was filled by commands, once, whichever process is first."""
    root = user_cache() / "deerflow-tests" / "mcp"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for command in commands(folder):
                subprocess.run(command, check=True, cwd=root, env=dict(os.environ), timeout=300)  # noqa: TID251
            (folder / ".complete").touch()
    return folder
