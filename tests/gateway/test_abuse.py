"""Requests nobody means well: each gets the answer it should, the server goes on, and nothing is left on its disk."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from deerflow.gateway.examples import CHECKPOINT, RUN, THREAD
from tests.gateway.api_world import World, examples_in

JSON = {"content-type": "application/json"}
HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
CLIMBING = [
    "../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "%e2%80%a5/%e2%80%a5/etc/passwd",
    "mnt/user-data/outputs/%2e%2e%2f%2e%2e%2f%2e%2e%2fsnapshots/list.json",
    "%2fetc%2fpasswd",
    "mnt/user-data/outputs/..;/..;/..;/etc/passwd",
]
ODD_NAMES = {
    "a null byte": "x%00y",
    "a line break that wants to be a header": "x%0d%0aSet-Cookie:%20a=b",
    "a mark that turns text around": "x%e2%80%aefdp.exe",
    "bytes that are no text": "%ff%fe",
    "a lone surrogate": "%ed%a0%80",
    "a very long name": "x" * 5000,
    "a dot": "%2e",
    "nothing but spaces": "%20%20",
}
BODIES: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "cut off in the middle": (b'{"metadata": {', JSON, 422, "InvalidRequest"),
    "nested deeply": (b'{"metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}", JSON, 422, "InvalidRequest"),
    "nested beyond all reason": (b"[" * 100_000, JSON, 422, "InvalidRequest"),
    "a number that is none": (b'{"metadata": {"a": NaN}}', JSON, 422, "InvalidRequest"),
    "an infinite number": (b'{"metadata": {"a": -Infinity}}', JSON, 422, "InvalidRequest"),
    "a number beyond all bounds": (b'{"metadata": {"a": 1e999}}', JSON, 422, "InvalidRequest"),
    "a huge whole number": (b'{"metadata": {"a": ' + b"9" * 30 + b"}}", JSON, 422, "InvalidRequest"),
    "a whole number of 5000 digits": (b'{"metadata": {"a": ' + b"9" * 5000 + b"}}", JSON, 422, "InvalidRequest"),
    "half a character": (b'{"metadata": {"a": "\\ud800"}}', JSON, 422, "InvalidRequest"),
    "bytes that are no text": (b'{"metadata": {"a": "\xff\xfe"}}', JSON, 422, "InvalidRequest"),
    "a byte order mark": (b"\xef\xbb\xbf{}", JSON, 422, "InvalidRequest"),
    "a list in place of an object": (b"[]", JSON, 422, "InvalidRequest"),
    "null": (b"null", JSON, 422, "InvalidRequest"),
    "unknown keys": (b'{"__proto__": {"admin": true}, "constructor": 1}', JSON, 422, "InvalidRequest"),
    "a form": (b"a=b", {"content-type": "application/x-www-form-urlencoded"}, 415, "UnsupportedMediaType"),
    "plain text that is JSON": (b"{}", {"content-type": "text/plain"}, 415, "UnsupportedMediaType"),
    "no type at all": (b"{}", {"content-type": ""}, 415, "UnsupportedMediaType"),
    "files where none belong": (
        b"--x--",
        {"content-type": "multipart/form-data; boundary=x"},
        415,
        "UnsupportedMediaType",
    ),
    "too much of it": (b'"' + b"x" * 300_000 + b'"', JSON, 413, "BodyTooLarge"),
}
HEADERS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "another host": ("GET", "/health", {"host": "evil.example"}, 403),
    "a host that is none": ("GET", "/health", {"host": "[::1"}, 403),
    "a page of another site": ("POST", "/api/threads", {"origin": "https://evil.example", **JSON}, 403),
    "a page of nowhere": ("POST", "/api/threads", {"origin": "null", **JSON}, 403),
    "another method in a header": ("POST", "/api/threads/search", {"x-http-method-override": "DELETE", **JSON}, 200),
    "a last event that is none": ("GET", f"/api/threads/{THREAD}/runs/{RUN}/stream", {"last-event-id": "-5"}, 422),
    "a last event of 4000 digits": (
        "GET",
        f"/api/threads/{THREAD}/runs/{RUN}/stream",
        {"last-event-id": "9" * 4000},
        422,
    ),
    "a last event in other digits": ("GET", f"/api/threads/{THREAD}/runs/{RUN}/stream", {"last-event-id": "²"}, 422),
    "a last event of another thread": ("GET", f"/api/threads/{THREAD}/stream", {"last-event-id": "x.1"}, 404),
    "an idempotency key without end": (
        "POST",
        f"/api/threads/{THREAD}/runs",
        {"idempotency-key": "k" * 300, **JSON},
        422,
    ),
    "a range that ends before it begins": ("GET", f"/api/threads/{THREAD}/state", {"range": "bytes=9-1"}, 200),
    "a thousand ranges": ("GET", f"/api/threads/{THREAD}/state", {"range": "bytes=" + ",".join(["0-"] * 1000)}, 200),
}


@pytest.fixture(scope="module")
def ids(world: World) -> dict[str, str]:
    with world.client() as http:
        return world.seed(http)


@pytest.fixture(autouse=True)
def healthy_and_clean_afterwards(world: World, ids: dict[str, str]) -> Iterator[None]:
    """Whatever a test does, the server answers after it, and its folders hold what they held."""
    before = files(world)
    yield
    with world.client() as http:
        assert http.get("/health").status_code == 200
        assert http.get(f"/api/threads/{THREAD}").status_code == 200
    assert files(world) == before


def files(world: World) -> set[str]:
    return {str(path) for path in world.home.rglob("*") if "/data/" not in str(path)}


def is_refused(response: httpx.Response, *statuses: int) -> bool:
    """Whether the answer is one of these refusals, in the one shape."""
    assert response.status_code in statuses, (response.status_code, response.text[:300])
    assert response.json().keys() >= {"detail", "error"} and "root:" not in response.text
    return "x-request-id" in response.headers and "set-cookie" not in response.headers


@pytest.mark.parametrize("path", CLIMBING)
def test_no_path_leads_out(world: World, ids: dict[str, str], path: str) -> None:
    """In every part of every path that varies."""
    with world.client() as http:
        for example in examples_in(world.document):
            if example.method == "GET" and "{" in example.path:
                head, _, tail = example.path.rpartition("{")
                base = head.replace("{thread_id}", THREAD).replace("{run_id}", ids[RUN])
                response = http.get(httpx.URL(f"{world.url}{base}{path}{tail.partition('}')[2]}"))
                page = response.headers["content-type"].startswith("text/html")  # the address led to no API at all
                assert page or is_refused(response, 404, 405, 422)
                assert "root:" not in response.text and '"run_id"' not in response.text


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_odd_names_are_refused_everywhere(world: World, ids: dict[str, str], name: str) -> None:
    with world.client() as http:
        for example in examples_in(world.document):
            if "{" in example.path and not example.path.endswith("/stream"):
                url = example.path
                for part in ("thread_id", "run_id", "checkpoint_id", "path", "name", "assistant_id", "filename"):
                    url = url.replace(f"{{{part}}}", name)
                body = {"json": example.body} if example.body is not None else {}
                assert is_refused(http.request(example.method, f"{world.url}{url}", **body), 400, 404, 405, 409, 422)


@pytest.mark.parametrize(("body", "headers", "status", "error"), BODIES.values(), ids=BODIES)
def test_bodies_that_are_no_good(world: World, body: bytes, headers: dict[str, str], status: int, error: str) -> None:
    with world.client() as http:
        for path in ("/api/threads", f"/api/threads/{THREAD}/runs", "/api/langgraph/threads"):
            response = http.post(path, content=body, headers=headers)
            assert is_refused(response, status) and response.json()["error"] == error


@pytest.mark.parametrize(("method", "path", "headers", "status"), HEADERS.values(), ids=HEADERS)
def test_headers_that_are_no_good(
    world: World, ids: dict[str, str], method: str, path: str, headers: dict[str, str], status: int
) -> None:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    with world.client() as http:
        body = {"content": b"{}" if "runs" not in path else json.dumps(HI)} if method == "POST" else {}
        response = http.request(method, path.replace(RUN, ids[RUN]), headers=given, **body)
        assert response.status_code == status, response.text
        assert status == 200 or is_refused(response, status)


def test_the_last_of_two_equal_keys_counts_for_everyone(world: World) -> None:
    with world.client() as http:
        body = b'{"metadata": {"colour": "red", "colour": "blue"}, "limit": 1, "limit": 0}'
        assert is_refused(http.post("/api/threads/search", content=body, headers=JSON), 422)


def test_numbers_that_fit_into_no_column(world: World, ids: dict[str, str]) -> None:
    with world.client() as http:
        huge = 2**70
        for path in (f"runs?offset={huge}", f"runs/{ids[RUN]}/events?after_seq={huge}", f"history?limit={huge}"):
            assert is_refused(http.get(f"/api/threads/{THREAD}/{path}"), 422)
        assert is_refused(http.post("/api/threads/search", json={"offset": 2**63}), 422)


def test_a_body_in_pieces_without_end_is_cut_off(world: World) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 65_536

    answer = raw(world, b"POST /api/threads HTTP/1.1", chunked=endless())
    assert answer.startswith(b"HTTP/1.1 413") and b"BodyTooLarge" in answer


def test_a_body_that_says_it_is_enormous_is_not_waited_for(world: World) -> None:
    answer = raw(world, b"POST /api/threads HTTP/1.1", b"content-length: 99999999999")
    assert answer.startswith(b"HTTP/1.1 413") and b"connection: close" in answer


def test_a_body_that_is_shorter_than_it_says_is_given_up(world: World) -> None:
    answer = raw(world, b"POST /api/threads HTTP/1.1", b"content-length: 100", body=b"{}")
    assert answer.startswith(b"HTTP/1.1 408") and b"RequestTimeout" in answer


def test_a_body_that_is_longer_than_it_says_is_no_second_request(world: World) -> None:
    hidden = b"{}GET /api/threads/stolen HTTP/1.1\r\n\r\n"
    answer = raw(world, b"POST /api/threads/search HTTP/1.1", b"content-length: 2", b"connection: close", body=hidden)
    assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/1.1") == 1


def test_two_lengths_at_once_are_refused(world: World) -> None:
    answer = raw(world, b"POST /api/threads HTTP/1.1", b"content-length: 2", b"transfer-encoding: chunked", body=b"{}")
    assert answer.startswith(b"HTTP/1.1 400") and b'"error":"BadRequest"' in answer


def test_a_body_that_trickles_is_given_up(world: World) -> None:
    def trickle() -> Iterator[bytes]:
        while True:
            yield b" "

    answer = raw(world, b"POST /api/threads HTTP/1.1", chunked=trickle(), pause_s=0.3)
    assert answer.startswith(b"HTTP/1.1 408")


def test_headers_without_end_are_refused(world: World) -> None:
    answer = raw(world, b"GET /health HTTP/1.1", *(b"x-%d: %s" % (number, b"y" * 1000) for number in range(100)))
    assert answer.startswith(b"HTTP/1.1 431") and b"HeadersTooLarge" in answer


@pytest.mark.parametrize("line", [b"\x16\x03\x01\x02\x00\x01", b"GET /health HTTP/9.9", b"G\x00T / HTTP/1.1"])
def test_what_is_no_http_is_refused_in_our_shape(world: World, line: bytes) -> None:
    answer = raw(world, line)
    assert answer.startswith(b"HTTP/1.1 400") and answer.endswith(b'"error":"BadRequest"}')


@pytest.mark.parametrize("method", ["TRACE", "PUT", "PATCH", "DELETE"])
def test_methods_that_mean_nothing_are_named(world: World, method: str) -> None:
    with world.client() as http:
        response = http.request(method, "/api/models")
        assert is_refused(response, 405) and response.json()["error"] == "MethodNotAllowed"


def test_ids_in_bodies_lead_nowhere_either(world: World) -> None:
    with world.client() as http:
        for name in ("../../x", "a/b", "x\u202ey", "a\r\nb", "", "x" * 65, "~"):
            assert is_refused(http.post("/api/threads", json={"thread_id": name or " "}), 422)
            config = {"configurable": {"thread_id": name or " "}}
            assert is_refused(http.post("/api/runs", json={**HI, "config": config}), 422)
            assert is_refused(http.post("/api/agents", json={"name": f"../{name}"}), 422)
        gone = {"checkpoint": {"checkpoint_id": f"{CHECKPOINT}' OR 1=1 --"}}
        assert is_refused(http.post(f"/api/threads/{THREAD}/state/checkpoint", json=gone), 404)


def test_an_id_for_a_request_is_taken_only_when_nothing_is_wrong_with_it(world: World) -> None:
    with world.client() as http:
        assert http.get("/health", headers={"x-request-id": "job-7.a"}).headers["x-request-id"] == "job-7.a"
        for bad in ("a b", "x" * 65, "é", '"}', ""):
            made = http.get("/health", headers=[(b"x-request-id", bad.encode())]).headers["x-request-id"]
            assert made != bad and len(made) == 36


def raw(
    world: World,
    line: bytes,
    *headers: bytes,
    body: bytes = b"",
    chunked: Iterator[bytes] | None = None,
    pause_s: float = 0.0,
) -> bytes:
    """What the server says to bytes that no client library would send."""
    place = urlsplit(world.url)
    kind = [b"host: localhost", b"content-type: application/json", *headers]
    if chunked is not None:
        kind.append(b"transfer-encoding: chunked")
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        try:
            connection.sendall(b"\r\n".join([line, *kind, b"", b""]) + body)
            for piece in chunked or ():
                if hears_something(connection, pause_s):
                    break
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has heard enough
        return b"".join(heard(connection))


def hears_something(connection: socket.socket, within_s: float) -> bool:
    """Whether there is an answer already."""
    connection.settimeout(within_s or 0.0001)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except (TimeoutError, BlockingIOError):
        return False
    finally:
        connection.settimeout(20)


def heard(connection: socket.socket) -> Iterator[bytes]:
    """The answer, to its end."""
    try:
        while piece := connection.recv(65_536):
            yield piece
    except ConnectionResetError:
        return
