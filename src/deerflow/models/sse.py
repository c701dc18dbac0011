"""Server-sent events: bytes in, the data of each event out."""


class EventParser:
    """Takes a response in pieces cut anywhere and gives the data of every event that is complete."""

    __slots__ = ("_data", "_ends_in_cr", "_rest", "_started")

    def __init__(self) -> None:
        self._rest = b""  # a line whose end has not arrived
        self._data: list[bytes] = []  # lines of an event whose blank line has not arrived
        self._ends_in_cr = False
        self._started = False

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that `received` completes."""
        if received and (self._ends_in_cr or b"\r" in received):
            received = self._with_plain_line_ends(received)
        lines = (self._rest + received).split(b"\n")
        self._rest = lines.pop()
        if lines and not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        return self._complete_events(lines)

    def close(self) -> list[bytes]:
        """The last event, when the response ended without the blank line after it."""
        return self.feed(b"\n\n")

    def _complete_events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return events

    def _with_plain_line_ends(self, received: bytes) -> bytes:
        if self._ends_in_cr:
            received = received.removeprefix(b"\n")  # the other half of a line end cut in two
        self._ends_in_cr = received.endswith(b"\r")
        return received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
