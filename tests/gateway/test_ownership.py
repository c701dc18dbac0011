"""Access control: every route of the OpenAPI document, as the owner and as another user."""

import httpx

from deerflow.gateway.examples import THREAD
from tests.gateway.populated_server import SECRET, Example, PopulatedServer, list_examples, send_example

PUBLIC = {
    "GET /api/models/{name}": "models are the server's",
    "PUT /api/memory/summaries/{key}": "the name of a part that everybody's memory has; it is the caller's own",
    **dict.fromkeys(
        (
            "GET /api/mcp/servers/{server}",
            "GET /api/mcp/servers/{server}/pins",
            "POST /api/mcp/servers/{server}/reconnect",
            "POST /api/mcp/servers/{server}/tools/call",
        ),
        "MCP servers are the installation's",
    ),
    **dict.fromkeys(
        (
            "PATCH /api/v1/auth/users/{user_id}",
            "DELETE /api/v1/auth/users/{user_id}",
            "POST /api/v1/auth/users/{user_id}/reset-link",
            "GET /api/v1/auth/users/{user_id}/quota",
            "PUT /api/v1/auth/users/{user_id}/quota",
            "DELETE /api/v1/auth/invitations/{invitation_id}",
        ),
        "accounts are the installation's, and only an admin manages them",
    ),
    **dict.fromkeys(
        ("PATCH /api/v1/auth/passkeys/{passkey_id}", "POST /api/v1/auth/oauth/{provider}/link"),
        "they need a session, and this server has no accounts: tried elsewhere",
    ),
    "GET /api/admin/threads/{thread_id}/messages": "only an admin may, and the owner sees it: tried elsewhere",
    **dict.fromkeys(
        (
            "PUT /api/channels/{name}",
            "DELETE /api/channels/{name}",
            "POST /api/channels/{name}/check",
            "POST /api/channels/{name}/restart",
        ),
        "chat apps are the installation's, and only an admin changes them: that it is refused is tried elsewhere",
    ),
    "POST /api/hooks/{hook_id}": "needs the signature of the hook, and answers without one as if there were none",
    **dict.fromkeys(
        (
            "PUT /api/mcp/servers/{server}",
            "DELETE /api/mcp/servers/{server}",
            "POST /api/mcp/servers/{server}/pins/accept",
            "PATCH /api/mcp/servers/{server}/tools",
        ),
        "MCP servers are the installation's, and only an admin changes them: that it is refused is tried elsewhere",
    ),
    **dict.fromkeys(
        (
            "POST /api/mcp/servers/{server}/oauth/start",
            "GET /api/mcp/servers/{server}/oauth",
            "DELETE /api/mcp/servers/{server}/oauth",
        ),
        "the caller's own login at a server of the installation",
    ),
}
"""Routes whose path parameters have no owner, with reasons."""
CREATING = {
    "POST /api/agents": "makes an agent of the caller's own",
    "POST /api/assistants": "makes an assistant of the caller's own",
    "POST /api/skills/custom": "makes a skill of the caller's own",
}
BY_LINK = {
    "GET /api/shared/{token}": "whoever has the link may read",
    "GET /api/shared/{token}/messages": "whoever has the link may read",
    "GET /api/shared/{token}/artifacts/{path}": "whoever has the link may read what was presented",
    "GET /api/shared/{token}/previews/{path}": "whoever has the link may read what was presented",
}
"""Routes of share links."""
OTHER = "mallory"


def test_other_users_get_not_found(server: PopulatedServer) -> None:
    reached = {}
    with server.client() as http, server.client(OTHER) as foreign:
        ids = server.seed(http)
        before = read_all(http, ids)
        for example in list_examples(server.document):
            if problem := find_leak(foreign, example, ids):
                reached[example.name] = problem
        assert reached == {}
        assert read_all(http, ids) == before
        server.unseed(http)


def test_a_thread_id_of_another_user_cannot_be_claimed(server: PopulatedServer) -> None:
    with server.client() as http, server.client(OTHER) as foreign:
        server.seed(http)
        for response in (
            foreign.post("/api/threads", json={"thread_id": THREAD}),
            foreign.post("/api/threads", json={"thread_id": THREAD, "if_exists": "do_nothing"}),
            foreign.post(
                "/api/runs/wait", json={"input": {"messages": []}, "config": {"configurable": {"thread_id": THREAD}}}
            ),
        ):
            assert response.status_code in (404, 422) and SECRET not in response.text
        found = foreign.post("/api/threads/delete", json={"ids": [THREAD], "stop_runs": True}).json()
        assert found["deleted"] == [] and found["failed"][0]["error"] == "NotFound"
        server.unseed(http)


def find_leak(foreign: httpx.Client, example: Example, ids: dict[str, str]) -> str | None:
    """Return data of the owner in the response for another user."""
    response = send_example(foreign, example, ids)
    if example.name in CREATING or example.name in BY_LINK:
        return None
    if SECRET in response.text:
        return f"shows {response.text[:200]}"
    names_something = "{" in example.path and example.name not in PUBLIC
    if names_something and response.status_code != 404:
        return f"answers {response.status_code}: {response.text[:200]}"
    return f"fails with {response.status_code}" if response.status_code >= 500 else None


def read_all(http: httpx.Client, ids: dict[str, str]) -> list[object]:
    """Return all data of the owner."""
    paths = ("", "/state", "/runs", "/messages", "/artifacts/mnt/user-data/outputs/report.md")
    found = [http.get(f"/api/threads/{THREAD}{path}") for path in paths]
    found += [
        http.get("/api/agents"),
        http.post("/api/store/items/search", json={}),
        http.post("/api/threads/search", json={}),
    ]
    assert all(response.status_code == 200 for response in found), [response.text[:100] for response in found]
    return [response.text for response in found]
