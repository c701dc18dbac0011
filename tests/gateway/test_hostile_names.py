"""Names that no file system takes are refused with a named error, wherever a request contains them."""

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from fastapi import FastAPI

from deerflow.gateway.errors import add_error_handlers
from deerflow.gateway.examples import AGENT, SKILL, SKILL_TEXT, THREAD
from tests.gateway.populated_server import ENDLESS, OUTPUTS, PopulatedServer, list_examples, send_example
from tests.servers import PostgresServer

LONG_NAMES = {"300 bytes": "x" * 300, "150 letters of 2 bytes": "\u00e9" * 150, "5000 bytes": "/".join(["ab"] * 1700)}
ODD_TEXTS = {"null character": "\0", "quotes": "'\"`%s$1:x{}", "controls": "\x1b[0m\x7f\u202e\ufeff\uffff"}
WIDE = "\U00020000" * 90
"""Letters of four bytes each."""
PARAMETER = re.compile(r"{(\w+)}")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PopulatedServer]:
    """Server with data of every kind on one of the databases, shared by the tests of the module."""
    with ExitStack() as stack:
        settings: dict[str, object] = {}
        if request.param == "postgres":
            databases: PostgresServer = request.getfixturevalue("postgres_server")
            settings["database"] = {"url": stack.enter_context(databases.new_database())}
        yield stack.enter_context(PopulatedServer(tmp_path_factory.mktemp("server"), **settings).opened())


@pytest.fixture(scope="module")
def ids(server: PopulatedServer) -> dict[str, str]:
    with server.client() as http:
        return server.seed(http)


@pytest.fixture
def http(server: PopulatedServer, ids: dict[str, str]) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def assert_refused(response: httpx.Response, *statuses: int) -> None:
    assert response.status_code in statuses, (response.status_code, response.text[:300])
    if response.request.method != "HEAD":
        assert response.json().keys() >= {"detail", "error"}


@pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)
def test_long_names_are_refused_in_every_parameter_of_every_path(
    server: PopulatedServer, http: httpx.Client, ids: dict[str, str], name: str
) -> None:
    for example in list_examples(server.document):
        for parameter in PARAMETER.findall(example.path):
            url = example.path.format(**{**find_parameters(example.path, example.url), parameter: name})
            response = send_example(http, replace(example, url=quote(url)), ids)
            assert 400 <= response.status_code < 500, (example.name, parameter, response.text[:300])


def find_parameters(path: str, url: str) -> dict[str, str]:
    """Return the values of the parameters of a path in an example."""
    found = re.fullmatch(PARAMETER.sub(r"(?P<\1>.+)", path), url)
    assert found is not None
    return found.groupdict()


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_odd_characters_in_any_text_of_a_request_are_stored_or_refused(
    server: PopulatedServer, http: httpx.Client, ids: dict[str, str], odd: str
) -> None:
    failed = {}
    for example in list_examples(server.document):
        if example.name == ENDLESS or example.files:
            continue
        changed = [replace(example, body=body) for body in iterate_changed(example.body, odd)]
        changed += [replace(example, query={**example.query, name: odd}) for name in example.query]
        for each in changed:
            response = send_example(http, each, ids)
            if response.status_code >= 500:
                failed[example.name] = (each.body, each.query, response.text[:300])
    assert failed == {}
    assert server.seed(http).keys() == ids.keys()


def iterate_changed(value: Any, odd: str) -> Iterator[Any]:
    """Yield copies of a JSON value, each with one text or key changed."""
    if isinstance(value, str):
        yield value + odd
    elif isinstance(value, dict):
        for key, item in value.items():
            others = {name: other for name, other in value.items() if name != key}
            yield {**others, key + odd: item}
            yield from ({**value, key: changed} for changed in iterate_changed(item, odd))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from ([*value[:number], changed, *value[number + 1 :]] for changed in iterate_changed(item, odd))


@pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)
def test_long_names_of_files_are_refused(http: httpx.Client, name: str) -> None:
    files = f"/api/threads/{THREAD}"
    path = f"{OUTPUTS}/{name}"
    for response in (
        http.get(f"{files}/files", params={"path": path}),
        http.get(f"{files}/artifacts{quote(path)}"),
        http.head(f"{files}/artifacts{quote(path)}"),
        http.get(f"{files}/artifacts{quote(path)}.skill/SKILL.md"),
        http.put(f"{files}/artifacts{quote(path)}", json={"content": "x"}),
        http.get(f"{files}/thumbnails{quote(path)}"),
        http.get(f"{files}/previews{quote(path)}.html"),
        http.get(f"{files}/artifacts.zip", params={"path": path}),
        http.post(f"{files}/artifacts/zip", json={"paths": [path]}),
        http.delete(f"{files}/uploads/{quote(name)}"),
        http.post("/api/skills/install", json={"thread_id": THREAD, "path": f"{path}.skill"}),
    ):
        assert_refused(response, 404, 422)


@pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)
def test_long_names_of_skills_and_agents_are_refused(http: httpx.Client, name: str) -> None:
    skill, quoted = f"/api/skills/custom/{SKILL}/files/references", quote(name)
    for response in (
        http.get(f"/api/skills/{quoted}"),
        http.put(f"/api/skills/{quoted}", json={"enabled": False}),
        http.get(f"/api/skills/custom/{quoted}"),
        http.get(f"{skill}/{quoted}"),
        http.put(f"{skill}/{quoted}", json={"content": "x"}),
        http.delete(f"{skill}/{quoted}"),
        http.put(f"{skill}/a{quote(WIDE)}.md", json={"content": "x"}),
        http.post("/api/skills/custom", json={"content": SKILL_TEXT.format(name=name)}),
        http.get(f"/api/agents/{quoted}"),
        http.put(f"/api/agents/{quoted}", json={"description": "x"}),
        http.delete(f"/api/agents/{quoted}"),
        http.get("/api/agents/check", params={"name": name}),
        http.post("/api/agents", json={"name": name}),
        http.put(f"/api/agents/{AGENT}", json={"name": name}),
        http.post("/api/threads", json={"thread_id": name}),
    ):
        assert_refused(response, 404, 405, 422)


@pytest.mark.parametrize("name", ["x" * 300, "\u00e9" * 150, "x" * 2000], ids=["300 bytes", "2 bytes", "2000 bytes"])
def test_uploads_with_long_names_are_stored_under_shorter_ones(http: httpx.Client, name: str) -> None:
    uploads = f"/api/threads/{THREAD}/uploads"
    stored = http.post(uploads, files=[("files", (f"{name}.txt", b"x"))])
    assert stored.status_code == 200, stored.text
    (file,) = stored.json()["files"]
    assert len(file["filename"].encode()) <= 255
    assert http.delete(f"{uploads}/{quote(file['filename'])}").status_code == 200


def test_an_upload_with_a_name_that_fills_its_header_is_refused(http: httpx.Client) -> None:
    assert_refused(http.post(f"/api/threads/{THREAD}/uploads", files=[("files", ("x" * 5000, b"x"))]), 422)


@pytest.mark.parametrize("name", ["x" * 300, "\u00e9" * 150, f"chats/{'x' * 300}", f"assets/{'x' * 300}"])
def test_long_paths_of_the_page_are_not_found(http: httpx.Client, name: str) -> None:
    response = http.get(f"/{quote(name)}")
    assert (response.status_code, response.json()["error"]) == (404, "NotFound")


@pytest.mark.parametrize("hosts", [("localhost", "localhost"), ("localhost", "evil.example"), ("a", "b", "localhost")])
@pytest.mark.parametrize("path", [b"/health", b"/api/threads", b"/"])
def test_a_request_with_several_hosts_is_refused(server: PopulatedServer, hosts: tuple[str, ...], path: bytes) -> None:
    place = urlsplit(server.url)
    lines = [b"GET %s HTTP/1.1" % path, *(f"Host: {host}".encode() for host in hosts), b"Connection: close", b"", b""]
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(b"\r\n".join(lines))
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert body == b'{"detail":"request has more than one Host header","error":"BadRequest"}'


async def test_a_name_that_is_found_too_long_later_is_refused() -> None:
    app = FastAPI()
    add_error_handlers(app)

    @app.get("/{code}")
    async def fail(code: int) -> None:
        raise OSError(code, os.strerror(code))

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        long, other = await http.get(f"/{errno.ENAMETOOLONG}"), await http.get(f"/{errno.EIO}")
    assert (long.status_code, long.json()["error"]) == (422, "InvalidRequest")
    assert (other.status_code, other.json()["error"]) == (500, "InternalError")
