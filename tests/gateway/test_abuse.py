"""Malicious requests: each is answered correctly, the server keeps running and no files are left behind."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from deerflow.gateway.examples import CHECKPOINT, RUN, THREAD
from tests.gateway.populated_server import PopulatedServer, list_examples

JSON = {"content-type": "application/json"}
HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
TRAVERSAL_PATHS = [
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
def ids(server: PopulatedServer) -> dict[str, str]:
    with server.client() as http:
        return server.seed(http)


@pytest.fixture(autouse=True)
def healthy_and_clean_afterwards(server: PopulatedServer, ids: dict[str, str]) -> Iterator[None]:
    """Check after each test that the server answers and its folders are unchanged."""
    before = list_files(server)
    yield
    with server.client() as http:
        assert http.get("/health").status_code == 200
        assert http.get(f"/api/threads/{THREAD}").status_code == 200
    assert list_files(server) == before


def list_files(server: PopulatedServer) -> set[str]:
    return {str(path) for path in server.home.rglob("*") if "/data/" not in str(path)}


def is_rejected(response: httpx.Response, *statuses: int) -> bool:
    """Return whether the response is an error with one of these statuses."""
    assert response.status_code in statuses, (response.status_code, response.text[:300])
    assert response.json().keys() >= {"detail", "error"} and "root:" not in response.text
    return "x-request-id" in response.headers and "set-cookie" not in response.headers


@pytest.mark.parametrize("path", TRAVERSAL_PATHS)
def test_paths_cannot_leave_the_thread(server: PopulatedServer, ids: dict[str, str], path: str) -> None:
    """Try the path in every path parameter."""
    with server.client() as http:
        for example in list_examples(server.document):
            if example.method == "GET" and "{" in example.path:
                head, _, tail = example.path.rpartition("{")
                base = head.replace("{thread_id}", THREAD).replace("{run_id}", ids[RUN])
                response = http.get(httpx.URL(f"{server.url}{base}{path}{tail.partition('}')[2]}"))
                page = response.headers["content-type"].startswith("text/html")  # the address led to no API at all
                assert page or is_rejected(response, 404, 405, 422)
                assert "root:" not in response.text and '"run_id"' not in response.text


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_invalid_names_are_rejected_by_every_route(server: PopulatedServer, ids: dict[str, str], name: str) -> None:
    with server.client() as http:
        for example in list_examples(server.document):
            if "{" in example.path and not example.path.endswith("/stream"):
                url = example.path
                for part in ("thread_id", "run_id", "checkpoint_id", "path", "name", "assistant_id", "filename"):
                    url = url.replace(f"{{{part}}}", name)
                body = {"json": example.body} if example.body is not None else {}
                # A webhook answers everything that is not signed alike.
                refused = (401,) if example.name == "POST /api/hooks/{hook_id}" else ()
                response = http.request(example.method, f"{server.url}{url}", **body)
                assert is_rejected(response, 400, 404, 405, 409, 422, *refused)


@pytest.mark.parametrize(("body", "headers", "status", "error"), BODIES.values(), ids=BODIES)
def test_invalid_bodies_are_rejected(
    server: PopulatedServer, body: bytes, headers: dict[str, str], status: int, error: str
) -> None:
    with server.client() as http:
        for path in ("/api/threads", f"/api/threads/{THREAD}/runs", "/api/langgraph/threads"):
            response = http.post(path, content=body, headers=headers)
            assert is_rejected(response, status) and response.json()["error"] == error


@pytest.mark.parametrize(("method", "path", "headers", "status"), HEADERS.values(), ids=HEADERS)
def test_invalid_headers_are_rejected(
    server: PopulatedServer, ids: dict[str, str], method: str, path: str, headers: dict[str, str], status: int
) -> None:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    with server.client() as http:
        body = {"content": b"{}" if "runs" not in path else json.dumps(HI)} if method == "POST" else {}
        response = http.request(method, path.replace(RUN, ids[RUN]), headers=given, **body)
        assert response.status_code == status, response.text
        assert status == 200 or is_rejected(response, status)


def test_the_last_of_duplicate_keys_wins(server: PopulatedServer) -> None:
    with server.client() as http:
        body = b'{"metadata": {"colour": "red", "colour": "blue"}, "limit": 1, "limit": 0}'
        assert is_rejected(http.post("/api/threads/search", content=body, headers=JSON), 422)


def test_numbers_too_large_for_a_column_are_rejected(server: PopulatedServer, ids: dict[str, str]) -> None:
    with server.client() as http:
        huge = 2**70
        for path in (f"runs?offset={huge}", f"runs/{ids[RUN]}/events?after_seq={huge}", f"history?limit={huge}"):
            assert is_rejected(http.get(f"/api/threads/{THREAD}/{path}"), 422)
        assert is_rejected(http.post("/api/threads/search", json={"offset": 2**63}), 422)


def test_an_endless_chunked_body_is_cut_off(server: PopulatedServer) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 65_536

    answer = send_raw(server, b"POST /api/threads HTTP/1.1", chunked=endless())
    assert answer.startswith(b"HTTP/1.1 413") and b"BodyTooLarge" in answer


def test_a_huge_announced_body_is_rejected_at_once(server: PopulatedServer) -> None:
    answer = send_raw(server, b"POST /api/threads HTTP/1.1", b"content-length: 99999999999")
    assert answer.startswith(b"HTTP/1.1 413") and b"connection: close" in answer


def test_a_body_shorter_than_announced_times_out(server: PopulatedServer) -> None:
    answer = send_raw(server, b"POST /api/threads HTTP/1.1", b"content-length: 100", body=b"{}")
    assert answer.startswith(b"HTTP/1.1 408") and b"RequestTimeout" in answer


def test_a_body_longer_than_announced_is_not_a_second_request(server: PopulatedServer) -> None:
    hidden = b"{}GET /api/threads/stolen HTTP/1.1\r\n\r\n"
    answer = send_raw(
        server, b"POST /api/threads/search HTTP/1.1", b"content-length: 2", b"connection: close", body=hidden
    )
    assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/1.1") == 1


def test_two_content_lengths_are_rejected(server: PopulatedServer) -> None:
    answer = send_raw(
        server, b"POST /api/threads HTTP/1.1", b"content-length: 2", b"transfer-encoding: chunked", body=b"{}"
    )
    assert answer.startswith(b"HTTP/1.1 400") and b'"error":"BadRequest"' in answer


@pytest.mark.slow
def test_a_trickling_body_times_out(server: PopulatedServer) -> None:
    def trickle() -> Iterator[bytes]:
        while True:
            yield b" "

    answer = send_raw(server, b"POST /api/threads HTTP/1.1", chunked=trickle(), pause_s=0.3)
    assert answer.startswith(b"HTTP/1.1 408")


def test_endless_headers_are_rejected(server: PopulatedServer) -> None:
    answer = send_raw(server, b"GET /health HTTP/1.1", *(b"x-%d: %s" % (number, b"y" * 1000) for number in range(100)))
    assert answer.startswith(b"HTTP/1.1 431") and b"HeadersTooLarge" in answer


@pytest.mark.parametrize("line", [b"\x16\x03\x01\x02\x00\x01", b"GET /health HTTP/9.9", b"G\x00T / HTTP/1.1"])
def test_malformed_http_gets_a_named_error(server: PopulatedServer, line: bytes) -> None:
    answer = send_raw(server, line)
    assert answer.startswith(b"HTTP/1.1 400") and answer.endswith(b'"error":"BadRequest"}')


@pytest.mark.parametrize("method", ["TRACE", "PUT", "PATCH", "DELETE"])
def test_unknown_methods_get_a_named_error(server: PopulatedServer, method: str) -> None:
    with server.client() as http:
        response = http.request(method, "/api/models")
        assert is_rejected(response, 405) and response.json()["error"] == "MethodNotAllowed"


def test_ids_in_bodies_cannot_escape(server: PopulatedServer) -> None:
    with server.client() as http:
        for name in ("../../x", "a/b", "x\u202ey", "a\r\nb", "", "x" * 65, "~"):
            assert is_rejected(http.post("/api/threads", json={"thread_id": name or " "}), 422)
            config = {"configurable": {"thread_id": name or " "}}
            assert is_rejected(http.post("/api/runs", json={**HI, "config": config}), 422)
            assert is_rejected(http.post("/api/agents", json={"name": f"../{name}"}), 422)
        gone = {"checkpoint": {"checkpoint_id": f"{CHECKPOINT}' OR 1=1 --"}}
        assert is_rejected(http.post(f"/api/threads/{THREAD}/state/checkpoint", json=gone), 404)


def test_a_request_id_is_accepted_only_if_valid(server: PopulatedServer) -> None:
    with server.client() as http:
        assert http.get("/health", headers={"x-request-id": "job-7.a"}).headers["x-request-id"] == "job-7.a"
        for bad in ("a b", "x" * 65, "é", '"}', ""):
            made = http.get("/health", headers=[(b"x-request-id", bad.encode())]).headers["x-request-id"]
            assert made != bad and len(made) == 36


def send_raw(
    server: PopulatedServer,
    line: bytes,
    *headers: bytes,
    body: bytes = b"",
    chunked: Iterator[bytes] | None = None,
    pause_s: float = 0.0,
) -> bytes:
    """Send raw bytes and return the response."""
    place = urlsplit(server.url)
    kind = [b"host: localhost", b"content-type: application/json", *headers]
    if chunked is not None:
        kind.append(b"transfer-encoding: chunked")
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        try:
            connection.sendall(b"\r\n".join([line, *kind, b"", b""]) + body)
            for piece in chunked or ():
                if has_response(connection, pause_s):
                    break
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has heard enough
        return b"".join(read_response(connection))


def has_response(connection: socket.socket, within_s: float) -> bool:
    """Return whether a response has arrived."""
    connection.settimeout(within_s or 0.0001)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except (TimeoutError, BlockingIOError):
        return False
    finally:
        connection.settimeout(20)


def read_response(connection: socket.socket) -> Iterator[bytes]:
    """Yield the response to its end."""
    try:
        while piece := connection.recv(65_536):
            yield piece
    except ConnectionResetError:
        return
