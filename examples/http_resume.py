"""HTTP: start a run, disconnect in the middle of the stream, and continue with `Last-Event-ID`.

Needs a running server: `make start`, then `python examples/http_resume.py http://127.0.0.1:2026`.
"""

import json
import sys
from collections.abc import Iterator

import httpx

SERVER = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:2026"
MODES = {"stream_mode": ["messages-tuple"]}


def read_events(response: httpx.Response) -> Iterator[tuple[int, str, object]]:
    """Yield number, name and data of each server-sent event."""
    event: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            event[name] = value
        elif event:
            yield int(event["id"]), event["event"], json.loads(event["data"])
            event = {}


with httpx.Client(base_url=f"{SERVER}/api/langgraph", timeout=30) as http:
    question = {"input": {"messages": [{"type": "human", "content": "What is DeerFlow?"}]}, "on_disconnect": "continue"}
    with http.stream("POST", "/threads/resume/runs/stream", json=question | MODES) as response:
        response.raise_for_status()
        stream = response.headers["location"]
        last_id = next(number for number, name, _ in read_events(response) if name == "messages")
    print("Disconnected after event", last_id)

    resume = {"Last-Event-ID": str(last_id)}
    with http.stream("GET", stream, params=MODES, headers=resume) as response:
        response.raise_for_status()
        numbers = [number for number, _, _ in read_events(response)]
    print("Continued with event", numbers[0], "- all later events in order:", numbers == sorted(numbers))
