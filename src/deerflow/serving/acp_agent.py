"""The lead agent as an ACP agent: what an editor may ask of it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from acp import PROTOCOL_VERSION, Client, RequestError
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
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound
from deerflow.domain.ids import new_id
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.threads import ThreadFilter
from deerflow.serving.acp_projects import Project, Projects
from deerflow.serving.acp_session import SOURCE, EditorSession, must_exist

LISTED = 50
INVALID, FAILED, NOT_FOUND = -32602, -32603, -32002


class EditorAgent:
    """Answers one editor. What it needs of the protocol arrives as named arguments."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._sessions: dict[str, EditorSession] = {}
        self._client: Client | None = None
        self._beside: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Stop what is done beside."""
        for task in self._beside:
            task.cancel()
        if self._beside:
            await asyncio.wait(self._beside)

    def on_connect(self, conn: Client) -> None:
        """Remember who is at the other end."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Say what can be done here."""
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
        """Nobody has to: who starts a program on this machine is the local person."""
        return AuthenticateResponse()

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """Begin a conversation about the project in `cwd`."""
        with told():
            session = self._remember(new_id(), await self._projects.open(cwd))
            return NewSessionResponse(
                session_id=session.session_id, modes=session.modes(), config_options=list(session.choices())
            )

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        """Go on with a conversation: what was said is told again."""
        with told():
            project = await self._projects.open(cwd)
            await must_exist(project, session_id)
            session = self._remember(session_id, project)
            await session.replay()
            return LoadSessionResponse(modes=session.modes(), config_options=list(session.choices()))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        """The conversations that were begun in a folder, latest first."""
        with told():
            if cwd is None:
                raise InvalidRequest("sessions are listed for a folder: give cwd")
            project = await self._projects.open(cwd)
            offset = int(cursor) if cursor and cursor.isdecimal() and len(cursor) < 10 else 0
            wanted = ThreadFilter(metadata={"source": SOURCE, "cwd": str(project.folder)})
            found = await project.harness.threads.search(LOCAL_USER, LISTED, offset, wanted)
            sessions = [
                SessionInfo(
                    session_id=thread.thread_id, cwd=cwd, title=thread.title, updated_at=thread.updated_at.isoformat()
                )
                for thread in found
            ]
            more = str(offset + LISTED) if len(found) == LISTED else None
            return ListSessionsResponse(sessions=sessions, next_cursor=more)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        """Work in another way from the next prompt on."""
        with told():
            self._session(session_id).switch(mode_id)
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Have another model answer from the next prompt on."""
        with told():
            session = self._session(session_id)
            session.choose(config_id, value)
            return SetSessionConfigOptionResponse(config_options=list(session.choices()))

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> PromptResponse:
        """Answer, and tell meanwhile what is done."""
        with told():
            return PromptResponse(stop_reason=await self._session(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what is under way."""
        with told():
            await self._session(session_id).cancel()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Nothing is done beyond the protocol."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Nothing is heard beyond the protocol."""

    def _remember(self, session_id: str, project: Project) -> EditorSession:
        assert self._client is not None
        session = self._sessions[session_id] = EditorSession(session_id, project, self._client)
        # Once this task has answered: until then the editor knows of no session.
        task = asyncio.create_task(session.offer_skills())
        self._beside.add(task)
        task.add_done_callback(self._end_beside)
        return session

    def _end_beside(self, task: "asyncio.Task[None]") -> None:
        self._beside.discard(task)
        if not task.cancelled():
            task.exception()  # the editor has left, and nobody is to be told

    def _session(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise NotFound(f"there is no session {session_id!r}; begin or load it first")
        return self._sessions[session_id]


@contextmanager
def told() -> Iterator[None]:
    """Have named errors told to the editor in their own words."""
    try:
        yield
    except NotFound as problem:
        raise RequestError(NOT_FOUND, str(problem)) from problem
    except InvalidRequest as problem:
        raise RequestError(INVALID, str(problem)) from problem
    except DeerFlowError as problem:
        raise RequestError(FAILED, str(problem), {"error": type(problem).__name__}) from problem
