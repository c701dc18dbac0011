"""MCP servers from npm and PyPI, installed once per machine and version."""

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


def pypi_server(name: str) -> Path:
    """Return the program of a PyPI package in its own environment."""
    (wanted,) = (each for each in dependencies()["pypi"]["mcp_servers"] if each.startswith(f"{name}=="))
    return install_program(wanted, name)
