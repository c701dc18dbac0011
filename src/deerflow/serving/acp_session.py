"""Conversation with an editor: prompts, session updates and permission requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acp import Client
from acp.helpers import ContentBlock, SessionUpdate, update_available_commands
from acp.schema import (
    AllowedOutcome,
    AvailableCommand,
    AvailableCommandInput,
    PermissionOption,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    StopReason,
    UnstructuredCommandInput,
)

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, RunFailed, TooLarge
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest
from deerflow.domain.threads import ThreadRecord
from deerflow.serving.acp_content import AttachedFile, PromptPart, SessionUpdateWriter, parse_prompt, replay_messages
from deerflow.serving.acp_projects import EditorProject
from deerflow.serving.turns import TextDelta, Turn, TurnEventReader, build_resume

MODEL, DEFAULT_MODE, PLAN_MODE = "model", "default", "plan"
APPROVE, ALWAYS, REJECT = "approve", "always", "reject"
OPTIONS = (
    (APPROVE, "Allow", "allow_once"),
    (ALWAYS, "Always allow in this session", "allow_always"),
    (REJECT, "Reject", "reject_once"),
)
MODES = (
    SessionMode(id=DEFAULT_MODE, name="Default", description="Gets on with it."),
    SessionMode(id=PLAN_MODE, name="Plan", description="Keeps a list of what is to be done."),
)
MAX_REPLAYED_MESSAGES = 500
MAX_COMMANDS, MAX_DESCRIPTION_CHARS = 100, 200
SOURCE = "acp"


@dataclass(slots=True)
class AcpEditorSession:
    """Thread as an editor uses it."""

    session_id: str
    project: EditorProject
    client: Client
    model: str | None = None
    mode: str = DEFAULT_MODE
    knows_project: bool = False
    """True once the project note was sent."""
    always_allowed: set[str] = field(default_factory=set)
    """Tools allowed for the whole session."""
    turn: Turn | None = None
    is_cancelled: bool = False
    questions: Sequence[Mapping[str, Any]] = ()
    """Questions of a user's own tool, answered by the next prompt."""
    writer: SessionUpdateWriter = field(init=False)

    def __post_init__(self) -> None:
        self.writer = SessionUpdateWriter(self.project)

    async def prompt(self, blocks: Sequence[ContentBlock]) -> StopReason:
        """Run the agent for a prompt and return the stop reason.

        Raises:
            Conflict: The previous prompt has not been answered.
            RunFailed: The run has failed.
        """
        if self.turn is not None:
            raise Conflict("the previous prompt is still running; cancel it first")
        parts = parse_prompt(blocks, self.project)
        self.is_cancelled = False
        try:
            request: RunRequest | None = await self._first_request(parts)
            while request is not None:
                turn = await self._run_turn(request)
                request = await self._next_request(turn)
        finally:
            self.turn = None
            for update in self.writer.close():
                await self._send(update)
        if turn.ending == "failed":
            raise RunFailed(turn.reader.failure or "the run ended without an answer")
        return "cancelled" if self.is_cancelled or turn.ending == "stopped" else "end_turn"

    async def cancel(self) -> None:
        """Stop the active run."""
        self.is_cancelled = True
        if self.turn is not None and self.turn.run is not None:
            await self.project.harness.runs.stop(self.turn.run.run_id)

    async def replay(self) -> None:
        """Send all messages of the thread.

        Raises:
            NotFound: The thread does not exist.
        """
        page = await self.project.harness.threads.messages_page(
            self.session_id, LOCAL_USER, None, MAX_REPLAYED_MESSAGES
        )
        self.knows_project = True
        for update in replay_messages(
            [message.fields for message in page.messages if message.left_behind_by is None], self.writer
        ):
            await self._send(update)
        self.writer.open_calls.clear()

    async def offer_skills(self) -> None:
        """Send the skills available as `/name` commands."""
        found = await self.project.harness.core.skills.list(LOCAL_USER.user_id)
        entry = AvailableCommandInput(UnstructuredCommandInput(hint="what to do"))
        commands = [
            AvailableCommand(name=skill.name, description=skill.description[:MAX_DESCRIPTION_CHARS], input=entry)
            for skill in found.enabled[:MAX_COMMANDS]
        ]
        if commands:
            await self._send(update_available_commands(commands))

    def modes(self) -> SessionModeState:
        """Return the available modes and the current one."""
        return SessionModeState(current_mode_id=self.mode, available_modes=list(MODES))

    def config_options(self) -> list[SessionConfigOptionSelect]:
        """Return the configuration options: the model."""
        cards = self.project.harness.core.agents.model_cards()
        options = [SessionConfigSelectOption(value=card.name, name=card.display_name) for card in cards]
        current = self.model or cards[0].name
        return [
            SessionConfigOptionSelect(
                id=MODEL, name="Model", category="model", type="select", current_value=current, options=options
            )
        ]

    def set_option(self, what: str, value: object) -> None:
        """Set the model.

        Raises:
            InvalidRequest: The option or value does not exist.
        """
        names = [card.name for card in self.project.harness.core.agents.model_cards()]
        if what != MODEL or value not in names:
            raise InvalidRequest(f"the only option is {MODEL!r}, one of {', '.join(names)}")
        self.model = str(value)

    def set_mode(self, mode: str) -> None:
        """Set the mode.

        Raises:
            InvalidRequest: The mode does not exist.
        """
        if mode not in {each.id for each in MODES}:
            raise InvalidRequest(f"modes are {', '.join(each.id for each in MODES)}, not {mode!r}")
        self.mode = mode

    async def _first_request(self, parts: Sequence[PromptPart]) -> RunRequest:
        """Return the request of a prompt: a new message, or the answer to a question of a paused run."""
        metadata = {"source": SOURCE, "cwd": str(self.project.folder)}
        thread = await self.project.harness.threads.create(LOCAL_USER, self.session_id, metadata, may_exist=True)
        kept = await self._upload([part for part in parts if isinstance(part, AttachedFile)], thread)
        text = "".join(part if isinstance(part, str) else f"[{part.name}]({next(kept)})" for part in parts).strip()
        if self.questions:
            answer, self.questions = build_resume(self.questions, text), ()
            return self._request(answer)
        content = text if self.knows_project else f"{text}{self.project.note}"
        self.knows_project = True
        return self._request(None, [{"type": "human", "content": content}])

    async def _upload(self, files: Sequence[AttachedFile], thread: ThreadRecord) -> Iterator[str]:
        """Upload files to the thread and return their paths.

        Raises:
            TooLarge: There are too many files, or they are too large.
        """
        if not files:
            return iter(())
        uploads = self.project.harness.core.uploads
        async with uploads.receive(thread) as reception:
            for file in files:
                await reception.begin(file.name)
                await reception.write(file.content)
                await reception.end()
            received = await uploads.complete(thread, reception)
        if received.skipped:
            raise TooLarge("; ".join(f"{each.filename}: {each.reason}" for each in received.skipped))
        return iter([file.path for file in received.files])

    def _request(self, resume: Resume | None, messages: Sequence[Mapping[str, object]] = ()) -> RunRequest:
        agent = AgentSpec(model_name=self.model, is_plan_mode=self.mode == PLAN_MODE)
        return RunRequest(
            self.session_id, messages, agent, resume=resume, create_thread=False, metadata={"source": SOURCE}
        )

    async def _run_turn(self, request: RunRequest) -> Turn:
        reader = TurnEventReader(called=set(self.writer.open_calls))
        turn = self.turn = Turn(self.project.harness, LOCAL_USER, request, reader=reader)
        async for event in turn.follow():
            if self.is_cancelled and turn.run is not None:  # cancelled before the run started
                self.project.harness.runs.request_stop(turn.run.run_id)
            for update in self.writer.to_updates(event):
                await self._send(update)
        return turn

    async def _next_request(self, turn: Turn) -> RunRequest | None:
        """Return the request that continues a turn; None when the user continues."""
        if turn.ending == "asks" and turn.questions:
            self.questions = turn.questions
            for update in self.writer.to_updates(TextDelta(turn.get_answer())):
                await self._send(update)
        if turn.ending != "needs_approval" or self.is_cancelled:
            return None
        answers = {}
        for question in turn.questions:
            decisions = [await self._request_decision(call) for call in question["value"]["action_requests"]]
            if None in decisions:
                self.is_cancelled = True  # the thread stays paused; the next message bypasses the question
                return None
            answers[question["id"]] = {"decisions": decisions}
        return self._request(Resume(answers))

    async def _request_decision(self, call: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the user's decision about a call; None when they cancel."""
        name = call["name"]
        if name in self.always_allowed:
            return {"type": "approve"}
        options = [PermissionOption.model_validate({"optionId": i, "name": n, "kind": k}) for i, n, k in OPTIONS]
        answer = await self.client.request_permission(
            session_id=self.session_id, tool_call=self.writer.find_call(name, call["args"]), options=options
        )
        if not isinstance(answer.outcome, AllowedOutcome):
            return None
        if answer.outcome.option_id == ALWAYS:
            self.always_allowed.add(name)
        return {"type": "approve" if answer.outcome.option_id in (APPROVE, ALWAYS) else "reject"}

    async def _send(self, update: SessionUpdate) -> None:
        await self.client.session_update(session_id=self.session_id, update=update)


async def require_session(project: EditorProject, session_id: str) -> None:
    """Raise `NotFound` for a thread that was not started in an editor."""
    thread = await project.harness.threads.get(session_id, LOCAL_USER)
    if thread.metadata.get("source") != SOURCE:
        raise NotFound(f"thread {session_id!r} was not started in an editor")
