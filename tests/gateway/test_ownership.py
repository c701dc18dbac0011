"""Nobody reaches what is somebody else's: every route in the description of the API, as its owner and as another."""

import httpx

from deerflow.gateway.examples import THREAD
from tests.gateway.api_world import SECRET, Example, World, examples_in, send

EVERYBODYS = {
    "GET /api/models/{name}": "models are the server's",
    "PUT /api/memory/summaries/{key}": "the name of a part that everybody's memory has; it is the caller's own",
    **dict.fromkeys(
        (
            "GET /api/mcp/servers/{server}",
            "GET /api/mcp/servers/{server}/pins",
            "POST /api/mcp/servers/{server}/reconnect",
        ),
        "MCP servers are the installation's",
    ),
    **dict.fromkeys(
        (
            "PUT /api/mcp/servers/{server}",
            "DELETE /api/mcp/servers/{server}",
            "POST /api/mcp/servers/{server}/pins/accept",
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
"""Routes with a name in their path that belongs to nobody, and why."""
BRINGS_ITS_OWN = {
    "POST /api/agents": "makes an agent of the caller's own",
    "POST /api/assistants": "makes an assistant of the caller's own",
    "POST /api/skills/custom": "makes a skill of the caller's own",
}
LINKED = {
    "GET /api/shared/{token}": "whoever has the link may read",
    "GET /api/shared/{token}/messages": "whoever has the link may read",
    "GET /api/shared/{token}/artifacts/{path}": "whoever has the link may read what was presented",
    "GET /api/shared/{token}/previews/{path}": "whoever has the link may read what was presented",
}
"""Routes under a secret that its owner has given away."""
OTHER = "mallory"


def test_others_get_not_found_and_see_nothing(world: World) -> None:
    reached = {}
    with world.client() as http, world.client(OTHER) as foreign:
        ids = world.seed(http)
        before = everything(http, ids)
        for example in examples_in(world.document):
            if problem := trespass(foreign, example, ids):
                reached[example.name] = problem
        assert reached == {}
        assert everything(http, ids) == before
        world.unseed(http)


def test_a_thread_cannot_be_taken_by_its_name(world: World) -> None:
    with world.client() as http, world.client(OTHER) as foreign:
        world.seed(http)
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
        world.unseed(http)


def trespass(foreign: httpx.Client, example: Example, ids: dict[str, str]) -> str | None:
    """What somebody else gets from a route that they should not."""
    response = send(foreign, example, ids)
    if example.name in BRINGS_ITS_OWN or example.name in LINKED:
        return None
    if SECRET in response.text:
        return f"shows {response.text[:200]}"
    names_something = "{" in example.path and example.name not in EVERYBODYS
    if names_something and response.status_code != 404:
        return f"answers {response.status_code}: {response.text[:200]}"
    return f"fails with {response.status_code}" if response.status_code >= 500 else None


def everything(http: httpx.Client, ids: dict[str, str]) -> list[object]:
    """What its owner has."""
    paths = ("", "/state", "/runs", "/messages", "/artifacts/mnt/user-data/outputs/report.md")
    found = [http.get(f"/api/threads/{THREAD}{path}") for path in paths]
    found += [
        http.get("/api/agents"),
        http.post("/api/store/items/search", json={}),
        http.post("/api/threads/search", json={}),
    ]
    assert all(response.status_code == 200 for response in found), [response.text[:100] for response in found]
    return [response.text for response in found]
