"""Long arguments of tool calls, streamed without pauses, through a server: the watchdog fails a test that holds it."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.testing import ScriptedServer
from deerflow.testing.turns import Raw
from tests.support import browse

FILE = "/mnt/user-data/workspace/report.py"
LINE = 'print("a line of a program, with an umlaut: ä")\n'
ENTRIES: dict[str, dict[str, Any]] = {
    "our client": {"use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel"},
    "ChatOpenAI": {"use": "langchain_openai:ChatOpenAI", "native": False},
}


def stream_call(content: str, piece: int) -> Raw:
    """Return a response that calls `write_file`, in pieces of so many bytes."""
    arguments = orjson.dumps({"description": "to write", "path": FILE, "content": content}).decode()
    opening = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": ""}}
    pieces = (arguments[start : start + piece] for start in range(0, len(arguments), piece))
    calls = [opening, *({"index": 0, "function": {"arguments": each}} for each in pieces)]
    ended = {"delta": {}, "finish_reason": "tool_calls"}
    return Raw((*(encode({"delta": {"tool_calls": [call]}}) for call in calls), encode(ended), b"data: [DONE]\n\n"))


def encode(choice: dict[str, Any]) -> bytes:
    """Return an event of the stream."""
    body = {"id": "1", "object": "chat.completion.chunk", "model": "scripted", "choices": [{"index": 0, **choice}]}
    return b"data: " + orjson.dumps(body) + b"\n\n"


@pytest.mark.parametrize("client", ENTRIES)
@pytest.mark.parametrize(
    ("length", "piece"), [(60_000, 20), (60_000, 4_000), (300_000, 50_000), (300_000, 200)], ids=str
)
async def test_long_arguments_are_written_while_others_are_answered(
    tmp_path: Path, client: str, length: int, piece: int
) -> None:
    content = (LINE * (length // len(LINE) + 1))[:length]
    async with ScriptedServer([stream_call(content, piece), "Done."]) as endpoint:
        model = {"name": "m", "model": "scripted", "api_key": "key", "base_url": endpoint.base_url, **ENTRIES[client]}
        overrides = {"models": [model], "title": {"enabled": False}, "memory": {"enabled": False}}
        source = open_source(directory=tmp_path, environment={}, overrides=overrides)
        async with open_harness(source) as harness, browse(harness) as http, asyncio.timeout(60):
            body = {"input": {"messages": [{"type": "human", "content": "Write it"}]}, "stream_mode": ["messages"]}
            await http.post("/api/threads", json={"thread_id": "t"})
            run = asyncio.create_task(http.post("/api/threads/t/runs/stream", json=body))
            while not run.done():
                assert (await http.get("/api/threads/t")).status_code == 200
            stream = (await run).text
            state = (await http.get("/api/threads/t/state")).json()
    assert [message["content"] for message in state["values"]["messages"]][-2:] == ["OK", "Done."]
    assert "event: end" in stream and "event: error" not in stream
    written = user_data_folder(tmp_path / ".deer-flow", LOCAL_USER.user_id, "t") / "workspace" / "report.py"
    assert written.read_text() == content
