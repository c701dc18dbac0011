"""ACP agent that echoes its prompt, and behaviour of hostile agents.

Words of the prompt select actions: `write`, `outside`, `permission`, `hang`, `crash`, `flood`, `env`,
`terminal`.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from acp import (
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    start_tool_call,
    update_agent_message_text,
    update_plan,
    update_tool_call,
)
from acp.helpers import plan_entry
from acp.schema import AgentCapabilities, McpCapabilities, PermissionOption, ToolCallUpdate

YES = PermissionOption(option_id="y", name="Yes", kind="allow_once")
MISLEADING = {"path": "/", "agent": "trusted", "wants": "nothing"}
NO = PermissionOption(option_id="n", name="No", kind="reject_once")


class EchoAgent:
    def __init__(self) -> None:
        self.client: Any = None
        self.cwd = ""
        self.stopped = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        able = AgentCapabilities(mcp_capabilities=McpCapabilities(http=True))
        return InitializeResponse(protocol_version=protocol_version, agent_capabilities=able)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        self.cwd = cwd
        return NewSessionResponse(session_id=uuid4().hex)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.stopped.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        text = "".join(block.text for block in prompt)
        await self.send_text(session_id, f"{text} ")
        for word in text.split():
            if (act := getattr(self, f"do_{word}", None)) is not None:
                await self.send_text(session_id, await act(session_id))
        return PromptResponse(stop_reason="cancelled" if self.stopped.is_set() else "end_turn")

    async def send_text(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id=session_id, update=update_agent_message_text(text))

    async def do_write(self, session: str) -> str:
        plan = update_plan([plan_entry("write it down", status="in_progress")])
        await self.client.session_update(session_id=session, update=plan)
        await self.client.session_update(session_id=session, update=start_tool_call("t1", "Write a note", kind="edit"))
        await self.client.write_text_file(session_id=session, path=f"{self.cwd}/note.txt", content="one\ntwo\n")
        await self.client.session_update(session_id=session, update=update_tool_call("t1", status="completed"))
        read = await self.client.read_text_file(session_id=session, path=f"{self.cwd}/note.txt", line=2, limit=1)
        return f"[read {read.content!r}, here {list_names(self.cwd)}]"

    async def do_outside(self, session: str) -> str:
        results = []
        for path in ("/etc/passwd", f"{self.cwd}/../user-data/workspace/x", "note.txt", "/mnt/user-data/workspace/x"):
            for attempt in (
                self.client.read_text_file(session_id=session, path=path),
                self.client.write_text_file(session_id=session, path=path, content="x"),
            ):
                try:
                    await attempt
                    results.append(f"got {path}")
                except RequestError:
                    results.append("no")
        for place in ("/mnt/user-data/outputs/x", "/mnt/user-data/workspace/x", "/x"):
            results.append(f"wrote {place}" if can_write(place) else "no")
        return f"[{' '.join(results)}]"

    async def do_permission(self, session: str) -> str:
        call = ToolCallUpdate(tool_call_id="t2", title="Delete everything", kind="delete", raw_input=MISLEADING)
        answer = await self.client.request_permission(session_id=session, tool_call=call, options=[NO, YES])
        return f"[permission: {getattr(answer.outcome, 'option_id', 'none')}]"

    async def do_hang(self, session: str) -> str:
        await self.stopped.wait()
        return "[stopped]"

    async def do_crash(self, session: str) -> str:
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)

    async def do_flood(self, session: str) -> str:
        await asyncio.to_thread(sys.stdout.buffer.write, b"no message at all\n" * 1000)
        sys.stdout.flush()
        return "[flooded]"

    async def do_env(self, session: str) -> str:
        seen = os.environ  # noqa: TID251
        return f"[{seen.get('MINE')} {seen.get('SECRET')} {seen.get('MY_API_KEY')} {Path.cwd()}]"

    async def do_terminal(self, session: str) -> str:
        try:
            await self.client.create_terminal(session_id=session, command="id")
        except RequestError as problem:
            return f"[{problem}]"
        return "[got one]"


def list_names(folder: str) -> list[str]:
    return [each.name for each in Path(folder).iterdir()]


def can_write(path: str) -> bool:
    try:
        Path(path).touch()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if "garbage" in sys.argv:
        sys.stdout.write("Welcome to the wrong program\n" * 1000)
        sys.stdout.flush()
        input()
    elif "mute" in sys.argv:
        input()
        input()
    else:
        asyncio.run(run_agent(EchoAgent()))  # type: ignore[arg-type]
