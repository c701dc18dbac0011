"""HTTP API of the sandbox server, with our client and with raw requests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest
import pytest_asyncio

from deerflow.community.aio_sandbox.api import (
    CommandOutput,
    EmptyResponse,
    FoundFiles,
    MatchedLines,
    RemoteFolder,
    SandboxAddress,
    SandboxApi,
    SandboxUnreachable,
    ServerInfo,
    make_error,
    parse_response,
)
from deerflow.community.aio_sandbox.sandbox import AioSandbox
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import WORKSPACE
from deerflow.domain.sandbox import GrepMatch
from tests.community.support import ContainerEngine, running_provider
from tests.conformance.command_suite import run_command, wait_until
from tests.conformance.sandbox_suite import acquire

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AioSandbox]:
    async with running_provider(engine, tmp_path_factory.mktemp("api")) as provider:
        sandbox = await acquire(provider, "t1")
        assert isinstance(sandbox, AioSandbox)
        yield sandbox


@pytest.fixture(scope="module")
def plain(sandbox: AioSandbox) -> AioSandbox:
    """Return the sandbox used like one of another image."""
    return replace(sandbox, server=ServerInfo(home_dir=WORKSPACE, deerflow=0))


async def send_raw(sandbox: AioSandbox, raw: bytes) -> bytes:
    """Send raw bytes and return the response of the server."""
    reader, writer = await asyncio.open_unix_connection(sandbox.api.address.socket)
    try:
        writer.write(raw)
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            return head + await reader.readexactly(int(head.partition(b"Content-Length: ")[2].split()[0]))
    finally:
        writer.close()


def build_request(sandbox: AioSandbox, method: str, path: str, body: bytes, token: str | None = None) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nAuthorization: Bearer {token or sandbox.api.address.token}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/v1/nothing", b"", 404, "there is no GET /v1/nothing"),
        ("POST", "/v1/sandbox", b"", 404, "there is no POST"),
        ("POST", "/v1/shell/exec", b"{", 400, "not JSON"),
        ("POST", "/v1/shell/exec", b"[]", 400, "not a JSON object"),
        ("POST", "/v1/shell/exec", b"{}", 400, "'command' has to be str"),
        ("POST", "/v1/deerflow/run", b'{"command": "true", "hard_timeout": "soon"}', 400, "'hard_timeout'"),
        ("POST", "/v1/deerflow/run", b'{"command": "true", "env": []}', 400, "'env'"),
        ("POST", "/v1/file/write", b'{"file": "/tmp/x", "content": "*", "encoding": "base64"}', 400, "not base64"),
        ("POST", "/v1/file/read", b'{"file": "/nowhere"}', 422, "ENOENT"),
        ("GET", "/v1/file/download?path=/tmp", b"", 422, "EISDIR"),
        ("POST", "/v1/file/grep", b'{"path": "/tmp", "pattern": "("}', 422, "search failed"),
        ("POST", "/v1/file/find", b'{"path": "/tmp", "glob": "\\ud800"}', 422, "encode"),
    ],
)
async def test_answers_a_failed_request_with_a_reason(
    sandbox: AioSandbox, method: str, path: str, body: bytes, status: int, words: str
) -> None:
    answer = await send_raw(sandbox, build_request(sandbox, method, path, body))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) and words in answer.decode()


@pytest.mark.parametrize("token", ["wrong", "", "tökén"])
async def test_refuses_requests_without_the_token(sandbox: AioSandbox, token: str) -> None:
    asked = f"GET /v1/sandbox HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    assert (await send_raw(sandbox, asked)).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    "raw", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"x" * 100_000]
)
async def test_closes_the_connection_on_an_invalid_request(sandbox: AioSandbox, raw: bytes) -> None:
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await send_raw(sandbox, raw)
    assert await run_command(sandbox, "echo well") == "well\n"


async def test_disconnecting_kills_the_command(sandbox: AioSandbox) -> None:
    reader, writer = await asyncio.open_unix_connection(sandbox.api.address.socket)
    order = json.dumps({"command": f"echo up; while :; do date +%s%N > {WORKSPACE}/beat; sleep 0.02; done"}).encode()
    writer.write(build_request(sandbox, "POST", "/v1/shell/exec", order))

    async def has_begun() -> bool:
        return (await sandbox.execute_command(f"test -s {WORKSPACE}/beat")).exit_code == 0

    await wait_until(has_begun)
    writer.close()

    async def has_ended() -> bool:
        same = "a=$(cat beat); sleep 0.1; test $a = $(cat beat)"
        return (await sandbox.execute_command(same)).exit_code == 0

    await wait_until(has_ended)
    assert await reader.read() == b""


async def test_supports_the_calls_of_the_aio_image(sandbox: AioSandbox) -> None:
    api, path = sandbox.api, f"{WORKSPACE}/founding/a.txt"
    await api.post("/v1/file/write", {"file": path, "content": "one\ntwo\n"}, EmptyResponse)
    await api.post(
        "/v1/file/write", {"file": path, "content": "dGhyZWU=", "encoding": "base64", "append": True}, EmptyResponse
    )
    assert await api.download(path, 100) == b"one\ntwo\nthree"
    shell = await api.post("/v1/shell/exec", {"command": "cat founding/a.txt; exit 3"}, CommandOutput)
    assert (shell.output, shell.exit_code, shell.status) == ("one\ntwo\nthree", 3, "completed")
    bash = await api.post("/v1/bash/exec", {"command": "echo $A", "env": {"A": "1"}, "hard_timeout": 5}, CommandOutput)
    assert (bash.stdout, bash.exit_code) == ("1\n", 0)
    found = await api.post("/v1/file/find", {"path": WORKSPACE, "glob": "**/*.txt"}, FoundFiles)
    assert found.files == [path]
    listing = await api.post("/v1/file/list", {"path": WORKSPACE, "recursive": True, "show_hidden": True}, RemoteFolder)
    assert (path, False) in [(each.path, each.is_directory) for each in listing.files]
    lines = await api.post("/v1/file/grep", {"path": WORKSPACE, "pattern": "^tw.$"}, MatchedLines)
    assert [(each.file, each.line_number, each.line_content) for each in lines.matches] == [(path, 2, "two")]


async def test_works_with_other_images(plain: AioSandbox) -> None:
    received: list[str] = []
    result = await plain.execute_command("echo out; echo err >&2; exit 3", on_output=received.append)
    assert (result.output, result.exit_code, received) == ("out\nerr\n", 3, ["out\nerr\n"])
    assert (await plain.execute_command("echo $A", env={"A": "given"})).output == "given\n"
    late = await plain.execute_command("echo begun; sleep 1000", timeout_s=0.5)
    assert late.timed_out and late.exit_code == 124 and "begun" in late.output
    await plain.write_file(f"{WORKSPACE}/plain/a.py", "needle\n")
    await plain.write_file(f"{WORKSPACE}/plain/a.py", "more", append=True)
    assert await plain.read_file(f"{WORKSPACE}/plain/a.py") == "needle\nmore"
    assert (await plain.glob(f"{WORKSPACE}/plain", "*.py")).paths == [f"{WORKSPACE}/plain/a.py"]
    assert (await plain.list_dir(f"{WORKSPACE}/plain")).paths == [f"{WORKSPACE}/plain/a.py"]
    found = await plain.grep(f"{WORKSPACE}/plain", "need.e")
    assert found.matches == [GrepMatch(f"{WORKSPACE}/plain/a.py", 1, "needle")]
    assert await plain.list_processes() == []


async def test_runs_commands_concurrently_in_other_images(plain: AioSandbox) -> None:
    async with asyncio.timeout(15):
        waiting = asyncio.create_task(plain.execute_command(f"until [ -e {WORKSPACE}/go ]; do sleep 0.02; done"))
        await plain.execute_command(f"touch {WORKSPACE}/go")
        assert (await waiting).exit_code == 0


async def test_cancels_a_command_in_other_images(plain: AioSandbox) -> None:
    running = asyncio.create_task(plain.execute_command(f"touch {WORKSPACE}/begun; sleep 1000"))

    async def has_begun() -> bool:
        return (await plain.execute_command(f"test -e {WORKSPACE}/begun")).exit_code == 0

    await wait_until(has_begun)
    running.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_reports_an_unknown_endpoint_with_a_remedy(sandbox: AioSandbox) -> None:
    with pytest.raises(SandboxError, match=r"does not know /v1/bash/sessions; use a newer image \(AIO 1.9.3"):
        await sandbox.api.post("/v1/bash/sessions", {}, EmptyResponse)


async def test_limits_the_time_of_a_call(sandbox: AioSandbox) -> None:
    with pytest.raises(SandboxUnreachable, match=r"within 0.2 s"):
        await sandbox.api.post("/v1/shell/exec", {"command": "sleep 1000"}, CommandOutput, timeout_s=0.2)


async def test_limits_the_size_of_a_response(sandbox: AioSandbox) -> None:
    await sandbox.update_file(f"{WORKSPACE}/large", b"x" * 3_000_000)
    with pytest.raises(SandboxError, match="more than 1 MB"):
        await sandbox.api.download(f"{WORKSPACE}/large", 1024 * 1024)


async def test_reports_an_unreachable_server() -> None:
    async with aclosing(SandboxApi(SandboxAddress("http://127.0.0.1:9"))) as api:
        with pytest.raises(SandboxUnreachable, match="cannot be reached"):
            await api.context()
        assert api.has_failed


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, b"", SandboxError, "refuses our token"),
        (404, b'{"detail": "Not Found"}', SandboxError, "newer image"),
        (500, b"Internal Server Error", SandboxError, "Internal Server Error"),
        (503, b"", SandboxError, "status 503"),
        (
            422,
            b'{"success": false, "message": "x", "errno": "EACCES"}',
            FileProblem,
            "'/a' cannot be used: .*permitted",
        ),
        (422, b'{"success": false, "message": "odd", "errno": "EODD"}', FileProblem, "'/a' cannot be used: odd"),
    ],
)
async def test_converts_error_responses_to_messages(
    status: int, body: bytes, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        raise make_error("/v1/x", {"file": "/a"}, status, body)


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"exit_code": "many"}'])
async def test_refuses_malformed_responses(body: bytes) -> None:
    with pytest.raises(SandboxUnreachable, match="unexpected response"):
        parse_response(CommandOutput, body)
