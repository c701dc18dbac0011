"""`deerflow acp`, driven by a client of the protocol package."""

import asyncio
import base64
import json
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp._transport import memory_transport_pair
from acp.agent.connection import AgentSideConnection
from acp.client.connection import ClientSideConnection
from acp.helpers import audio_block, embedded_text_resource, image_block, resource_block, resource_link_block
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AllowedOutcome,
    AvailableCommandsUpdate,
    FileEditToolCallContent,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UserMessageChunk,
)

from deerflow.config.source import open_source
from deerflow.serving.acp_agent import AcpServerAgent
from deerflow.serving.acp_projects import EditorProjects
from deerflow.testing import Answer, ScriptedServer, Stall, calling, thinking
from tests.acp.examples import acp_example
from tests.pictures import png

REPO = Path(__file__).parents[2]
DEERFLOW = Path(sys.executable).parent / "deerflow"
LAUNCH = {"name": "launch", "group": "space", "use": "tests.serving.support:launch", "approval": "always"}


class Editor:
    """Client that records updates and answers permission requests in order."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[ToolCallUpdate] = []
        self.updates: list[Any] = []
        self.received = asyncio.Event()

    def on_connect(self, conn: object) -> None:
        """Do nothing: no requests are sent from here."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        if isinstance(update, AgentMessageChunk):
            self.received.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        chosen = AllowedOutcome(outcome="selected", option_id=self.answers.pop(0))
        return RequestPermissionResponse(outcome=chosen)

    def find_updates(self, kind: type) -> list[Any]:
        return [update for update in self.updates if isinstance(update, kind)]

    def text(self, kind: type = AgentMessageChunk) -> str:
        return "".join(update.content.text for update in self.find_updates(kind))


@asynccontextmanager
async def open_workplace(folder: Path, script: Sequence[Any]) -> AsyncIterator[Path]:
    """Create a configuration in `folder`/deerflow and a project in `folder`/project, with a scripted model."""
    project, root = folder / "project", folder / "deerflow"
    root.mkdir()
    project.mkdir()
    project.chmod(0o777)
    (project / "hello.py").write_text("print('hi')\n")
    async with ScriptedServer(list(script)) as model:
        entry = model.model_config().model_dump(mode="json", exclude_none=True) | {"supports_thinking": True}
        quiet = {"title": {"enabled": False}, "memory": {"enabled": False}, "tools": [LAUNCH]}
        (root / "config.yaml").write_text(json.dumps({"models": [entry], **quiet}))
        yield root


EditorProcess = tuple[ClientSideConnection, asyncio.subprocess.Process]


@asynccontextmanager
async def start_editor(folder: Path, editor: Editor, script: Sequence[Any]) -> AsyncIterator[EditorProcess]:
    """Start `deerflow acp` as an editor does."""
    async with open_workplace(folder, script) as root:
        env = environment(folder, root)
        with (folder / "log").open("w") as log:
            options = {"stderr": log.fileno(), "shutdown_timeout": 30}
            starting = spawn_agent_process(
                editor, str(DEERFLOW), "acp", env=env, cwd=folder / "project", transport_kwargs=options
            )  # type: ignore[arg-type]
            async with starting as pair, asyncio.timeout(60):
                yield pair
    assert "Traceback" not in (folder / "log").read_text()


def environment(folder: Path, root: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(folder), "DEER_FLOW_PROJECT_ROOT": str(root), "PYTHONPATH": str(REPO)}


@asynccontextmanager
async def connect_editor(folder: Path, editor: Editor, script: Sequence[Any]) -> AsyncIterator[ClientSideConnection]:
    """Connect an editor to an agent in this process."""
    async with open_workplace(folder, script) as root:
        read = partial(open_source, directory=root, environment={})
        ours, theirs = memory_transport_pair()
        async with (
            EditorProjects(read, read_only=False) as projects,
            AgentSideConnection(AcpServerAgent(projects), theirs),  # type: ignore[arg-type]
            ClientSideConnection(editor, ours) as agent,  # type: ignore[arg-type]
            asyncio.timeout(60),
        ):
            yield agent


@pytest.mark.slow
async def test_editor_receives_updates_and_resumes_sessions(tmp_path: Path) -> None:
    change = calling(
        "str_replace", description="Greet", path="/mnt/project/hello.py", old_str="hi", new_str="hello"
    )  # fmt: skip
    look = calling("read_file", description="Look", path="/mnt/project/hello.py")
    plan = calling("write_todos", todos=[{"content": "Greet better", "status": "completed"}])
    script = [thinking("Let me look.", look), plan, change, "It greets now.", "Gone on.", Stall(Answer("Well"))]
    editor = Editor()
    async with start_editor(tmp_path, editor, script) as (agent, program):
        hello = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        assert hello.agent_capabilities is not None and hello.agent_capabilities.load_session
        project = str(tmp_path / "project")
        session = await agent.new_session(cwd=project)
        assert session.modes is not None and session.config_options is not None
        await agent.set_session_mode(session_id=session.session_id, mode_id="plan")
        given = [
            text_block("Make it greet better: "),
            resource_link_block("hello.py", f"file://{project}/hello.py"),
            resource_block(embedded_text_resource(f"file://{project}/notes.md", "Be kind.")),
            image_block(base64.b64encode(png(2, 2)).decode(), "image/png"),
        ]
        answer = await agent.prompt(session_id=session.session_id, prompt=given)

        assert answer.stop_reason == "end_turn"
        assert (editor.text(), editor.text(AgentThoughtChunk)) == ("It greets now.", "Let me look.")
        assert (tmp_path / "project" / "hello.py").read_text() == "print('hello')\n"
        read, edit = editor.find_updates(ToolCallStart)
        assert (read.kind, edit.kind) == ("read", "edit")
        assert edit.locations[0].path == f"{project}/hello.py"
        (diff,) = [each for each in edit.content if isinstance(each, FileEditToolCallContent)]
        assert (diff.path, diff.old_text, diff.new_text) == (f"{project}/hello.py", "hi", "hello")
        done = {update.tool_call_id for update in editor.find_updates(ToolCallProgress) if update.status == "completed"}
        assert done == {read.tool_call_id, edit.tool_call_id}
        assert [entry.content for entry in editor.find_updates(AgentPlanUpdate)[0].entries] == ["Greet better"]

        (offered,) = editor.find_updates(AvailableCommandsUpdate)
        assert "deep-research" in [command.name for command in offered.available_commands]

        listed = await agent.list_sessions(cwd=project)
        assert [each.session_id for each in listed.sessions] == [session.session_id]
        editor.updates.clear()
        await agent.load_session(cwd=project, session_id=session.session_id)
        said = editor.text(UserMessageChunk)
        assert said.startswith("Make it greet better: [hello.py](/mnt/project/hello.py)") and "Be kind." in said
        assert said.endswith("[image.png](/mnt/user-data/uploads/image.png)")
        assert editor.text() == "It greets now." and len(editor.find_updates(ToolCallStart)) == 2
        await agent.prompt(session_id=session.session_id, prompt=[text_block("Go on.")])
        assert editor.text().endswith("Gone on.")

        editor.received.clear()
        last = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[text_block("More.")]))
        await editor.received.wait()
        program.terminate()
        assert await program.wait() == 0
        await asyncio.gather(last, return_exceptions=True)
    assert ": interrupted" in (tmp_path / "log").read_text()  # and not left for another process to go on with


@pytest.mark.external
@pytest.mark.timeout(120)  # the first time on a machine it is fetched
async def test_example_client_of_the_protocol_package_works(tmp_path: Path) -> None:
    client = await asyncio.to_thread(acp_example, "client.py")
    async with open_workplace(
        tmp_path, ["Hello, deer.", calling("ls", description="Look", path="/mnt/project"), "Seen."]
    ) as root:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, str(client), str(DEERFLOW), "acp"),
            **{"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "cwd": tmp_path / "project"},
            env=environment(tmp_path, root),
        )
        async with asyncio.timeout(60):
            said, complained = await program.communicate(b"Hello?\nWhat is there?\n")
    assert program.returncode == 0 and b"Prompt failed" not in complained, complained.decode()
    assert re.findall(r"\| Agent: (.*)", said.decode()) == ["Hello, deer.", "Seen."]


async def test_editor_requests_permission_and_can_cancel(tmp_path: Path) -> None:
    script = [
        calling("launch", rocket="Heron"), "It stays.",
        calling("launch", rocket="Wren"), calling("launch", rocket="Finch"), "They fly.",
        Stall(Answer("Let me think")), "Back again.",
    ]  # fmt: skip
    editor = Editor("reject", "always")
    async with connect_editor(tmp_path, editor, script) as agent:
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        for cwd, sentence in (("project", "absolute path"), ("/", "root folder"), (str(tmp_path), "keeps its state")):
            with pytest.raises(RequestError, match=sentence):
                await agent.new_session(cwd=cwd)
        session = (await agent.new_session(cwd=str(tmp_path / "project"))).session_id
        for wrong in (
            agent.prompt(session_id="none", prompt=[text_block("Hi")]),
            agent.prompt(session_id=session, prompt=[text_block(" ")]),
            agent.prompt(session_id=session, prompt=[image_block("no base64!", "image/png")]),
            agent.prompt(session_id=session, prompt=[audio_block("AAAA", "audio/wav")]),
            agent.load_session(cwd=str(tmp_path / "project"), session_id="none"),
            agent.set_session_mode(session_id=session, mode_id="none"),
            agent.set_config_option(session_id=session, config_id="model", value="none"),
        ):
            with pytest.raises(RequestError):
                await wrong

        async def say(text: str) -> str:
            editor.updates.clear()
            return (await agent.prompt(session_id=session, prompt=[text_block(text)])).stop_reason

        assert await say("Launch the heron.") == "end_turn" and editor.text() == "It stays."
        assert editor.asked[0].raw_input == {"rocket": "Heron"}
        assert editor.asked[0].tool_call_id == editor.find_updates(ToolCallStart)[0].tool_call_id
        assert editor.find_updates(ToolCallProgress)[-1].status == "failed"

        assert await say("Then the others.") == "end_turn" and editor.text() == "They fly."
        assert len(editor.asked) == 2  # the second time it was for the whole session
        results = [update.content[0].content.text for update in editor.find_updates(ToolCallProgress)]
        assert results == ["Wren is in the air", "Finch is in the air"]

        editor.received.clear()
        waiting = asyncio.create_task(say("Think."))
        await editor.received.wait()
        with pytest.raises(RequestError, match="still running"):
            await agent.prompt(session_id=session, prompt=[text_block("Hello?")])
        await agent.cancel(session_id=session)
        assert await waiting == "cancelled"
        assert await say("And now?") == "end_turn" and editor.text() == "Back again."
