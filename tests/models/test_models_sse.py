"""Incremental parsing of server-sent events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.models.openai_compatible.stream import SseParser

LINES = st.sampled_from(
    [
        b"data: one",
        b"data:two",
        b"data: ",
        b"data",
        b": comment",
        b"event: ping",
        b"id: 7",
        b"retry: 1",
        b"",
        b"data: \xe9\xb9\xbf",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
BODIES = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda parts: b"".join(line + end for line, end in parts))


def parse(*pieces: bytes) -> list[bytes]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


@given(BODIES, st.data())
def test_any_split_yields_the_same_events(body: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    assert parse(*pieces) == parse(body)


def test_a_split_line_end_counts_once() -> None:
    assert parse(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [b"a\nb"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_accepts_all_line_ends(end: bytes) -> None:
    assert parse(end.join([b"data: a", b"", b"data: b", b"", b""])) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b": keep-alive\n\ndata: a\n\n", [b"a"]),
        (b"event: message\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\n\n\n", []),
        (b"", []),
    ],
    ids=["comment", "fields", "lines", "spaces", "no end", "no blank line", "byte order mark", "blank", "nothing"],
)
def test_returns_the_data_of_an_event(body: bytes, events: list[bytes]) -> None:
    assert parse(body) == events
