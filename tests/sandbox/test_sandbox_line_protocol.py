"""Line protocol of services: limits and exit messages."""

import asyncio

import pytest

from deerflow.sandbox.jobs.services import MAX_INVALID_LINES, LineProtocol, ProtocolViolation


class FinishedService:
    """Service that has printed all its output."""

    def __init__(self, output: bytes, stderr_tail: str = "") -> None:
        self.output = asyncio.StreamReader()
        self.output.feed_data(output)
        self.output.feed_eof()
        self.stderr_tail = stderr_tail

    async def write(self, data: bytes) -> None:
        raise AssertionError

    def keep_home(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        raise AssertionError


def parse_number(line: bytes) -> int | None:
    return int(line) if line.isdigit() else None


async def test_refuses_an_endless_line() -> None:
    lines = LineProtocol(FinishedService(b"1\n" + b"2" * 1000), parse_number, "the server", limit=500)
    assert await lines.next() == 1
    with pytest.raises(ProtocolViolation, match="^the server sent a message of more than .* MB; request less at once"):
        await lines.next()


async def test_refuses_too_many_invalid_lines() -> None:
    lines = LineProtocol(FinishedService(b"hello\n\n1\n" + b"x\n" * MAX_INVALID_LINES), parse_number)
    assert await lines.next() == 1
    with pytest.raises(ProtocolViolation, match="what it prints does not follow the protocol; it starts with 'hello'"):
        await lines.next()


async def test_describes_an_exit_with_the_last_output() -> None:
    for service, message in (
        (FinishedService(b"1\n", "out of luck"), "it has exited; its output: out of luck"),
        (FinishedService(b"usage: x\n1\n"), "it has exited; its output: usage: x"),
        (FinishedService(b"1\n"), "it has exited without output"),
    ):
        lines = LineProtocol(service, parse_number)
        assert (await lines.next(), await lines.next()) == (1, None) and lines.describe_exit() == message
