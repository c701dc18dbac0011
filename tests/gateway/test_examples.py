"""Every route has a working example in the OpenAPI document."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.gateway.populated_server import PopulatedServer, list_examples, send_example

BUSY = {
    "POST /api/threads/{thread_id}/runs/{run_id}/cancel": "there must be something to stop",
    "POST /api/runs/cancel": "there must be something to stop",
}
"""Examples that need an active run, with reasons."""
CONNECTED = {
    "PATCH /api/mcp/servers/{server}/tools": "the server must have listed its tools",
    "POST /api/mcp/servers/{server}/tools/call": "the server must answer",
}
"""Examples that need a connected MCP server, which `tests/services/test_manual_tests.py` has."""
CHAT_APPS = ("/api/channels/", "/api/hooks/")
"""Beginnings of the routes that need a chat app or a webhook, which `tests/channels` has."""
ACCOUNTS = "/api/v1/auth/"
"""Beginning of the routes of accounts. With one, a login is required; `test_route_permissions.py` sends them."""
AMONG_PEOPLE = ("/teams", "/grants")
"""Parts of the paths of routes that need accounts, which `test_shared_threads.py` has."""
MADE_IN_SANDBOX = {
    "GET /api/threads/{thread_id}/thumbnails/{path}": "image/webp",
    "GET /api/threads/{thread_id}/file-previews/{path}": "application/json",
}
"""Routes that need the toolbox, which the shared server does not have, with the type of their answer."""


@pytest.mark.slow
def test_every_route_has_an_example(server: PopulatedServer) -> None:
    lacking = {each.name: each.problem for each in list_examples(server.document) if each.problem}
    assert lacking == {}


@pytest.mark.slow
def test_every_example_is_accepted(server: PopulatedServer) -> None:
    failed = {}
    with server.client() as http:
        ids: Mapping[str, str] = {}
        # Those that only look come first, as they leave everything to each other.
        for example in sorted(list_examples(server.document), key=lambda each: each.method != "GET"):
            is_among_people = any(part in example.path for part in AMONG_PEOPLE)
            if (
                example.name in MADE_IN_SANDBOX | CONNECTED
                or example.path.startswith((ACCOUNTS, *CHAT_APPS))
                or is_among_people
            ):
                continue
            response = None if example.name in BUSY or not ids else send_example(http, example, ids)
            if response is None or not response.is_success:
                # An earlier one has taken or made what this one speaks of: it has to work where all is as it was.
                ids = server.seed(http, busy=example.name in BUSY)
                response = send_example(http, example, ids)
            if not response.is_success:
                failed[example.name] = f"{response.status_code} {response.text[:300]}"
            if example.name in BUSY:
                ids = {}  # what is left of the run would be in the way of the others
        server.unseed(http)
    assert failed == {}


@pytest.mark.timeout(600)  # the toolbox is built by the first test session of a machine
def test_examples_of_what_the_sandbox_makes_are_accepted(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    with PopulatedServer(tmp_path, toolbox_environment, sandbox={}).opened() as server, server.client() as http:
        ids = server.seed(http)
        examples = [each for each in list_examples(server.document) if each.name in MADE_IN_SANDBOX]
        assert len(examples) == len(MADE_IN_SANDBOX)
        for example in examples:
            made = send_example(http, example, ids)
            assert (made.status_code, made.headers["content-type"]) == (200, MADE_IN_SANDBOX[example.name]), made.text


def test_every_route_is_described(server: PopulatedServer) -> None:
    bare = [
        f"{method.upper()} {path}"
        for path, operations in server.document["paths"].items()
        for method, operation in operations.items()
        if not operation.get("summary") or not operation.get("description")
    ]
    assert bare == []
