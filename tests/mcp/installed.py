"""MCP servers and the MCP conformance suite from npm and PyPI, installed once per machine and version."""

import sysconfig
from pathlib import Path

from tests.support import dependencies, install_once, install_program, key_of, needs

EVERYTHING, FILESYSTEM, MEMORY = "server-everything", "server-filesystem", "server-memory"


def npm_server(name: str) -> Path:
    """Return the program of `@modelcontextprotocol/<name>`."""
    needs("node")
    packages = dependencies()["npm"]["mcp_servers"]
    command = [needs("npm"), "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    folder = install_once(f"mcp-npm-{key_of(*packages)}", lambda place: [[*command, "--prefix", place]])
    return folder / "node_modules" / ".bin" / f"mcp-{name}"


def conformance_suite() -> tuple[Path, Path]:
    """Return the program of the MCP conformance suite, after the Node.js it needs."""
    (package,), node = dependencies()["npm"]["mcp_conformance"], dependencies()["pypi"]["nodejs"]
    uv = Path(sysconfig.get_path("scripts"), "uv")
    folder = install_once(
        f"mcp-conformance-{key_of(package, node)}",
        lambda place: [
            [uv, "venv", "-q", place / "node"],
            [uv, "pip", "install", "-q", f"--python={place}/node/bin/python", node],
            [
                place / "node/bin/npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                "--prefix",
                place,
                package,
            ],
        ],
    )
    return folder / "node/bin/node", folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"


def pypi_server(name: str) -> Path:
    """Return the program of a PyPI package in its own environment."""
    (wanted,) = (each for each in dependencies()["pypi"]["mcp_servers"] if each.startswith(f"{name}=="))
    return install_program(wanted, name)
