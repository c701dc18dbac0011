"""HTTP/1.1, as far as the clients of a sandbox need it: one request after the other on each connection."""

import asyncio
import hmac
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

MAX_HEAD = 64 * 1024
MAX_BODY = 400 * 1024 * 1024

Json = dict[str, Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Request:
    """What a client asks for."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Json:
        """The body, as an object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            raise Refused(400, "the body is not JSON") from None
        if not isinstance(value, dict):
            raise Refused(400, "the body is not a JSON object")
        return value


@dataclass(frozen=True)
class Answer:
    """What a client is told, at once or piece by piece."""

    body: bytes | AsyncGenerator[Json, None]
    status: int = 200
    kind: str = "application/json"
    take_over: Callable[[Streams], Awaitable[None]] | None = None
    """What the connection is for from now on, if not for further requests."""


class Refused(Exception):
    """A request that cannot be fulfilled."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Body:
    """Takes the fields out of a request's body, each of the type it has to have."""

    def __init__(self, request: Request) -> None:
        self.values = request.json()

    def __call__(self, name: str, kind: type, default: Any = ...) -> Any:
        value = self.values.get(name, None)
        if value is None and default is not ...:
            return default
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Refused(400, f"{name!r} has to be {kind.__name__}")
        return value


class Connection(asyncio.StreamReaderProtocol):
    """One client."""

    def __init__(self, handle: Callable[[Request], Awaitable[Answer]], token: str) -> None:
        super().__init__(asyncio.StreamReader(limit=MAX_HEAD), self.serve)
        self.handle = handle
        self.authorization = f"Bearer {token}".encode()
        self.is_gone = asyncio.Event()

    def eof_received(self) -> bool | None:
        self.is_gone.set()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone.set()
        super().connection_lost(error)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the client is gone, or says what we do not understand."""
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while not self.is_gone.is_set():
                answer = await self._answer_or_leave(await read_request(reader), writer)
                if answer is not None and answer.take_over is not None:
                    await answer.take_over((reader, writer))
                    break
        writer.close()

    async def _answer_or_leave(self, request: Request, writer: asyncio.StreamWriter) -> Answer | None:
        """Answer one request; what is done for a client that hangs up is ended."""
        answering = asyncio.create_task(self._write_answer(request, writer))
        leaving = asyncio.create_task(self.is_gone.wait())
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        answering.cancel()
        with suppress(asyncio.CancelledError):
            return await answering
        return None

    async def _write_answer(self, request: Request, writer: asyncio.StreamWriter) -> Answer:
        if hmac.compare_digest(request.headers.get("authorization", "").encode(), self.authorization):
            answer = await self.handle(request)
        else:
            answer = failed(401, "the token is missing or wrong")
        if isinstance(answer.body, bytes):
            length = "Connection: upgrade" if answer.take_over else f"Content-Length: {len(answer.body)}"
            writer.write(head(answer, length) + answer.body)
            await writer.drain()
            return answer
        writer.write(head(answer, "Transfer-Encoding: chunked"))
        async with aclosing(answer.body) as pieces:
            async for piece in pieces:
                line = json.dumps(piece).encode() + b"\n"
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return answer


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The next request of a connection."""
    first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
    length = int(headers.get("content-length", "0"))
    if "transfer-encoding" in headers or not 0 <= length <= MAX_BODY:
        raise ValueError("a body of unknown or too great length")
    url = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    return Request(method, unquote(url.path), query, headers, await reader.readexactly(length))


def head(answer: Answer, length: str) -> bytes:
    """The first lines of an answer."""
    first = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"
    return f"{first}\r\nContent-Type: {answer.kind}\r\n{length}\r\n\r\n".encode()


def done(data: Json, **more: object) -> Answer:
    """A success, in the envelope of the API."""
    return Answer(json.dumps({"success": True, "message": "", "data": data, **more}).encode())


def failed(status: int, message: str, **more: str) -> Answer:
    """A failure, in the envelope of the API."""
    return Answer(json.dumps({"success": False, "message": message, "data": None, **more}).encode(), status)
