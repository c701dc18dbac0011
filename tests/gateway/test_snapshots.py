"""Snapshots of the wire format."""

import asyncio
import json
import re

from deerflow.gateway.app import create_app
from deerflow.testing import ScriptedModel, thinking
from tests.support import OpenHarness, browse, same_as_snapshot


async def test_the_openapi_document_equals_the_snapshot(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        document = await asyncio.to_thread(create_app(harness).openapi)
        same_as_snapshot("openapi.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")


async def test_the_event_stream_equals_the_snapshot(harness_saying: OpenHarness) -> None:
    model = ScriptedModel.saying(thinking("Two and two.", then="Four."))
    async with harness_saying(model) as harness, browse(harness) as http:
        body = {
            "input": {"messages": [{"type": "human", "id": "question", "content": "2 + 2?"}]},
            "stream_mode": ["messages-tuple", "changes"],
        }
        response = await http.post("/api/langgraph/threads/sums/runs/stream", json=body)
    without_ids = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27,}", "…", response.text)
    without_ids = re.sub(r"\d{4}-\d\d-\d\d", "…", without_ids)  # the day it was told
    without_ids = re.sub(r"(\"thought_ms\":\{\"[^\"]+\":)\d+", r"\1…", without_ids)  # how long it was thought about
    assert "took_ms" not in without_ids  # durations below a second are not stored
    # How many words share an event depends on the machine; what they say does not.
    pieces = re.compile(r'id: \d+\nevent: messages\ndata: \[\{"type":"AIMessageChunk".*\n\n')
    words = [json.loads(found.split("data: ", 1)[1])[0] for found in pieces.findall(without_ids)]
    assert "".join(word["content"] for word in words) == "Four."
    same_as_snapshot("run.sse", re.sub(r"^id: \d+", "id: …", pieces.sub("", without_ids), flags=re.M))
