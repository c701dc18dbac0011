"""Everything that agents fetch goes through `Egress.connect`. Other modules that connect are listed with reasons."""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/deerflow"
FOR_AGENTS = (
    "agents",
    "agent_support",
    "budget",
    "community",
    "guardrails",
    "memory",
    "sandbox",
    "skills",
    "subagents",
    "tools",
    "uploads",
)
"""The packages that work for agents. Models, MCP servers and other agents are reached where the configuration says."""
CLIENT_NAMES = {
    "AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport", "ClientSession", "TCPConnector", "HTTPConnection",
    "HTTPSConnection", "open_connection", "create_connection", "start_connection", "getaddrinfo", "urlopen",
}  # fmt: skip
"""What opens connections, or looks up names to do so, by the last part of its name."""
ALLOWED_OPENERS = {
    "sandbox/egress.py": "the one function",
    "community/web/http.py": "a client whose transport is always given: see the next test",
    "sandbox/proxy.py": "speaks with sandboxes over sockets it has accepted; what they want, Egress opens",
    "sandbox/local/services.py": "speaks with programs it has started itself, over a pair of sockets",
    "community/aio_sandbox/api.py": "speaks with containers that we have started ourselves",
    "community/aio_sandbox/engine.py": "speaks with Docker or Podman",
    "community/aio_sandbox/remote_backend.py": "speaks with the provisioner that the configuration names",
}
ALLOWED_PRIVATE = {
    "community/web_fetch/tools.py": "allow_private_addresses, on the entry of the tool",
    "community/web/tool.py": "base_url or proxy, on the entry of the tool, and no other host",
}
"""Modules that allow private addresses, with the setting that says so."""
WEB_CLIENTS = {*ALLOWED_PRIVATE, "skills/authoring/download.py"}


@cache
def list_calls() -> list[tuple[str, ast.Call, str]]:
    """Return every call in the packages with its file and the last part of the called name."""
    found = []
    for package in FOR_AGENTS:
        for file in sorted((SOURCE / package).rglob("*.py")):
            name = str(file.relative_to(SOURCE))
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call):
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    found.append((name, node, called))
    return found


def test_only_listed_modules_open_connections_for_agents() -> None:
    opening = {name for name, _, called in list_calls() if called in CLIENT_NAMES}
    assert opening == ALLOWED_OPENERS.keys(), "go through Egress, or say above why not; what is gone leaves the list"


def test_the_web_tools_know_no_way_around() -> None:
    clients = [(name, node) for name, node, called in list_calls() if called == "AsyncClient"]
    assert [name for name, _ in clients] == ["community/web/http.py"]
    assert all("transport" in {each.arg for each in node.keywords} for _, node in clients)
    transports = [name for name, _, called in list_calls() if called == "EgressTransport"]
    made = [name for name, _, called in list_calls() if called == "HttpClient"]
    assert sorted(transports) == sorted(made) == sorted(WEB_CLIENTS)


def test_private_addresses_are_let_through_by_the_entries_of_tools_alone() -> None:
    lifting = {
        name
        for name, node, called in list_calls()
        if called == "Egress" and "is_allowed" in {each.arg for each in node.keywords}
    }
    assert lifting == ALLOWED_PRIVATE.keys()
    files = (file for package in FOR_AGENTS for file in (SOURCE / package).rglob("*.py"))
    saying = {str(file.relative_to(SOURCE)) for file in files if mentions_private_addresses(file)}
    assert saying == {"community/web_fetch/tools.py"}


def mentions_private_addresses(file: Path) -> bool:
    return "allow_private_addresses" in file.read_text()
