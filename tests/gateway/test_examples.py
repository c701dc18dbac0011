"""Every route has an example, and every example works. Routes that are added are found by themselves."""

from tests.gateway.api_world import Example, World, examples_in, send

BUSY = {
    "POST /api/threads/{thread_id}/runs/{run_id}/cancel": "there must be something to stop",
    "POST /api/runs/cancel": "there must be something to stop",
}
"""Examples that need a run under way, and why."""
ELSEWHERE = {
    "GET /api/threads/{thread_id}/thumbnails/{path}": "a toolbox draws it: tests/sandbox/test_sandbox_thumbnails.py",
}
"""Examples that need more than this server has, and where they are tried."""
FORMS = frozenset({"multipart/form-data"})


def test_every_route_has_an_example(world: World) -> None:
    lacking = {each.name: each.problem for each in examples_in(world.document) if each.problem}
    assert lacking == {}


def test_every_example_works(world: World) -> None:
    failed = {}
    with world.client() as http:
        for example in examples_in(world.document):
            if not is_form(world, example) and example.name not in ELSEWHERE:
                response = send(http, example, world.seed(http, busy=example.name in BUSY))
                if not 200 <= response.status_code < 300:
                    failed[example.name] = f"{response.status_code} {response.text[:300]}"
        world.unseed(http)
    assert failed == {}


def test_every_route_is_described(world: World) -> None:
    bare = [
        f"{method.upper()} {path}"
        for path, operations in world.document["paths"].items()
        for method, operation in operations.items()
        if not operation.get("summary") or not operation.get("description")
    ]
    assert bare == []


def is_form(world: World, example: Example) -> bool:
    """Whether files are sent, for which the tests of that route have examples of their own."""
    body = world.document["paths"][example.path][example.method.lower()].get("requestBody", {})
    return bool(FORMS & body.get("content", {}).keys())
