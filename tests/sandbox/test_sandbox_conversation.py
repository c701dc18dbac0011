"""What programs say, and when they are given up."""

import asyncio

import pytest

from deerflow.sandbox.conversation import MOST_GARBAGE, Conversation, RulesBroken


class Talker:
    """A program that has said all it has to say."""

    def __init__(self, said: bytes, complaints: str = "") -> None:
        self.output = asyncio.StreamReader()
        self.output.feed_data(said)
        self.output.feed_eof()
        self.complaints = complaints

    async def write(self, data: bytes) -> None:
        raise AssertionError

    def keep(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        raise AssertionError


def number_in(line: bytes) -> int | None:
    return int(line) if line.isdigit() else None


async def test_a_line_that_never_ends_is_given_up() -> None:
    heard = Conversation(Talker(b"1\n" + b"2" * 1000), number_in, "the server", limit=500)
    assert await heard.next() == 1
    with pytest.raises(RulesBroken, match="^the server sent a message of more than .*, which was refused"):
        await heard.next()


async def test_who_says_something_else_for_long_is_given_up() -> None:
    heard = Conversation(Talker(b"hello\n\n1\n" + b"x\n" * MOST_GARBAGE), number_in)
    assert await heard.next() == 1
    with pytest.raises(RulesBroken, match="what it prints is not the protocol: it begins with 'hello'"):
        await heard.next()


async def test_what_a_program_said_last_tells_why_it_has_ended() -> None:
    for talker, told in (
        (Talker(b"1\n", "out of luck"), "it has ended by itself; it said: out of luck"),
        (Talker(b"usage: x\n1\n"), "it has ended by itself; it said: usage: x"),
        (Talker(b"1\n"), "it has ended by itself and said nothing"),
    ):
        heard = Conversation(talker, number_in)
        assert (await heard.next(), await heard.next()) == (1, None) and heard.ending() == told
