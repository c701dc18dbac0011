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
THUMBNAIL = "GET /api/threads/{thread_id}/thumbnails/{path}"
"""Needs the toolbox, which the server of the others does without."""


def test_every_route_has_an_example(world: World) -> None:
    lacking = {each.name: each.problem for each in examples_in(world.document) if each.problem}
    assert lacking == {}


@pytest.mark.slow
def test_every_example_works(world: World) -> None:
    failed = {}
    with world.client() as http:
        ids: Mapping[str, str] = {}
        # Those that only look come first, as they leave everything to each other.
        for example in sorted(examples_in(world.document), key=lambda each: each.method != "GET"):
            if example.name == THUMBNAIL:
                continue
            response = None if example.name in BUSY or not ids else send(http, example, ids)
            if response is None or not response.is_success:
                # An earlier one has taken or made what this one speaks of: it has to work where all is as it was.
                ids = world.seed(http, busy=example.name in BUSY)
                response = send(http, example, ids)
            if not response.is_success:
                failed[example.name] = f"{response.status_code} {response.text[:300]}"
            if example.name in BUSY:
                ids = {}  # what is left of the run would be in the way of the others
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
