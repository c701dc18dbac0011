"""ACP server: the lead agent for an editor, and `deerflow acp` on standard input and output."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, Client, RequestError, run_agent
from acp.helpers import ContentBlock
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)

from deerflow import __version__
from deerflow.config.source import open_source
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound
from deerflow.domain.identity import LOCAL_USER, new_id
from deerflow.domain.threads import ThreadFilter
from deerflow.serving import open_stdio, take_over_stdout
from deerflow.serving.acp_projects import EditorProject, EditorProjects
from deerflow.serving.acp_session import SOURCE, AcpEditorSession, require_session

PAGE_SIZE = 50
INVALID_PARAMS, INTERNAL_ERROR, NOT_FOUND = -32602, -32603, -32002


class AcpServerAgent:
    """Serves one editor. Protocol parameters arrive as keyword arguments."""

    def __init__(self, projects: EditorProjects) -> None:
        self._projects = projects
        self._sessions: dict[str, AcpEditorSession] = {}
        self._client: Client | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Stop background tasks."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)

    def on_connect(self, conn: Client) -> None:
        """Store the connection to the editor."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Return the capabilities of the agent."""
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
            agent_info=Implementation(name="deerflow", title="DeerFlow", version=__version__),
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Accept without credentials: the user who starts a process on this machine is the local user."""
        return AuthenticateResponse()

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """Start a conversation about the project in `cwd`."""
        with map_errors():
            session = self._add_session(new_id(), await self._projects.open(cwd))
            return NewSessionResponse(
                session_id=session.session_id, modes=session.modes(), config_options=list(session.config_options())
            )

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        """Resume a conversation and replay its messages."""
        with map_errors():
            project = await self._projects.open(cwd)
            await require_session(project, session_id)
            session = self._add_session(session_id, project)
            await session.replay()
            return LoadSessionResponse(modes=session.modes(), config_options=list(session.config_options()))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        """Return the conversations of a folder, latest first."""
        with map_errors():
            if cwd is None:
                raise InvalidRequest("cwd is required to list sessions")
            project = await self._projects.open(cwd)
            offset = int(cursor) if cursor and cursor.isdecimal() and len(cursor) < 10 else 0
            wanted = ThreadFilter(metadata={"source": SOURCE, "cwd": str(project.folder)})
            found = await project.harness.threads.search(LOCAL_USER, PAGE_SIZE, offset, wanted)
            sessions = [
                SessionInfo(
                    session_id=thread.thread_id, cwd=cwd, title=thread.title, updated_at=thread.updated_at.isoformat()
                )
                for thread in found
            ]
            more = str(offset + PAGE_SIZE) if len(found) == PAGE_SIZE else None
            return ListSessionsResponse(sessions=sessions, next_cursor=more)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        """Change the mode from the next prompt on."""
        with map_errors():
            self._session(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Change the model from the next prompt on."""
        with map_errors():
            session = self._session(session_id)
            session.set_option(config_id, value)
            return SetSessionConfigOptionResponse(config_options=list(session.config_options()))

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> PromptResponse:
        """Run the agent and stream updates."""
        with map_errors():
            return PromptResponse(stop_reason=await self._session(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the active run."""
        with map_errors():
            await self._session(session_id).cancel()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse extension methods."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore extension notifications."""

    def _add_session(self, session_id: str, project: EditorProject) -> AcpEditorSession:
        assert self._client is not None
        session = self._sessions[session_id] = AcpEditorSession(session_id, project, self._client)
        # In the background: the editor does not know the session before the response.
        task = asyncio.create_task(session.offer_skills())
        self._background.add(task)
        task.add_done_callback(self._on_background_done)
        return session

    def _on_background_done(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # the editor has disconnected

    def _session(self, session_id: str) -> AcpEditorSession:
        if session_id not in self._sessions:
            raise NotFound(f"no session {session_id!r}; create or load it first")
        return self._sessions[session_id]


async def serve_acp(config: Path | None, read_only: bool) -> None:
    """Serve the local user until the editor closes the pipe."""
    reader, writer = await open_stdio(take_over_stdout())
    async with EditorProjects(partial(open_source, config), read_only=read_only) as projects:
        agent = AcpServerAgent(projects)
        try:
            await run_agent(agent, writer, reader)  # type: ignore[arg-type]
        finally:
            await agent.aclose()


@contextmanager
def map_errors() -> Iterator[None]:
    """Convert our errors to protocol errors."""
    try:
        yield
    except NotFound as problem:
        raise RequestError(NOT_FOUND, str(problem)) from problem
    except InvalidRequest as problem:
        raise RequestError(INVALID_PARAMS, str(problem)) from problem
    except DeerFlowError as problem:
        raise RequestError(INTERNAL_ERROR, str(problem), {"error": type(problem).__name__}) from problem
