"""Every route has an example, and every example works. Routes that are added are found by themselves."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.gateway.api_world import World, examples_in, send

BUSY = {
    "POST /api/threads/{thread_id}/runs/{run_id}/cancel": "there must be something to stop",
    "POST /api/runs/cancel": "there must be something to stop",
}
"""Examples that need a run under way, and why."""
OF_NO_THREAD = "/api/mcp/"
"""What has nothing to do with threads, and need not wait until a run has made all the others need."""
THUMBNAIL = "GET /api/threads/{thread_id}/thumbnails/{path}"
"""Needs the toolbox, which the server of the others does without."""


def test_every_route_has_an_example(world: World) -> None:
    lacking = {each.name: each.problem for each in examples_in(world.document) if each.problem}
    assert lacking == {}


def test_every_example_works(world: World) -> None:
    failed = {}
    with world.client() as http:
        ids: Mapping[str, str] = {}
        # Those that only look come first, as they leave everything to each other.
        for example in sorted(examples_in(world.document), key=lambda each: each.method != "GET"):
            if example.name == THUMBNAIL:
                continue
            if ids and example.path.startswith(OF_NO_THREAD) and example.method != "GET":
                ids = world.seed_mcp(ids)
            elif not ids or example.method != "GET":
                ids = world.seed(http, busy=example.name in BUSY)
            response = send(http, example, ids)
            if not 200 <= response.status_code < 300:
                failed[example.name] = f"{response.status_code} {response.text[:300]}"
        world.unseed(http)
    assert failed == {}


@pytest.mark.timeout(600)  # the toolbox is built by the first test session of a machine
def test_the_example_of_a_thumbnail_works(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> None:
    with World(tmp_path, toolbox_environment, sandbox={}).opened() as world, world.client() as http:
        example = next(each for each in examples_in(world.document) if each.name == THUMBNAIL)
        drawn = send(http, example, world.seed(http))
        assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/webp"), drawn.text


def test_every_route_is_described(world: World) -> None:
    bare = [
        f"{method.upper()} {path}"
        for path, operations in world.document["paths"].items()
        for method, operation in operations.items()
        if not operation.get("summary") or not operation.get("description")
    ]
    assert bare == []
