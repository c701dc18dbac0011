"""One conversation with an editor: prompts, what comes of them, and what a person is asked meanwhile."""

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
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest
from deerflow.domain.threads import ThreadRecord
from deerflow.serving.acp_projects import Project
from deerflow.serving.acp_prompts import Attached, Part, parts_of, replayed
from deerflow.serving.acp_updates import Narrator
from deerflow.serving.happenings import Listener, Said
from deerflow.serving.turns import Turn, answering

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
REPLAYED = 500
MOST_COMMANDS, MOST_DESCRIPTION = 100, 200
SOURCE = "acp"


@dataclass(slots=True)
class EditorSession:
    """A thread, as an editor sees it."""

    session_id: str
    project: Project
    client: Client
    model: str | None = None
    mode: str = DEFAULT_MODE
    is_told: bool = False
    """Whether the agent knows of the project."""
    always: set[str] = field(default_factory=set)
    """Tools that need not be asked about again."""
    turn: Turn | None = None
    is_cancelled: bool = False
    questions: Sequence[Mapping[str, Any]] = ()
    """What a tool of the user's own has asked, to be answered by the next prompt."""
    narrator: Narrator = field(init=False)

    def __post_init__(self) -> None:
        self.narrator = Narrator(self.project)

    async def prompt(self, blocks: Sequence[ContentBlock]) -> StopReason:
        """Have the agent answer a prompt.

        Raises:
            Conflict: It has not answered the one before.
            RunFailed: There is no answer.
        """
        if self.turn is not None:
            raise Conflict("the prompt before this one has not been answered yet; cancel it first")
        parts = parts_of(blocks, self.project)
        self.is_cancelled = False
        try:
            request: RunRequest | None = await self._first_request(parts)
            while request is not None:
                turn = await self._take(request)
                request = await self._after(turn)
        finally:
            self.turn = None
            for update in self.narrator.close():
                await self._send(update)
        if turn.ending == "failed":
            raise RunFailed(turn.listener.failure or "the run ended without an answer")
        return "cancelled" if self.is_cancelled or turn.ending == "stopped" else "end_turn"

    async def cancel(self) -> None:
        """Stop what is under way."""
        self.is_cancelled = True
        if self.turn is not None and self.turn.run is not None:
            await self.project.harness.runs.stop(self.turn.run.run_id)

    async def replay(self) -> None:
        """Tell everything that was said.

        Raises:
            NotFound: There is no such thread.
        """
        page = await self.project.harness.threads.messages_page(self.session_id, LOCAL_USER, None, REPLAYED)
        self.is_told = True
        for update in replayed([said.fields for said in page.messages if said.left_behind_by is None], self.narrator):
            await self._send(update)
        self.narrator.open_calls.clear()

    async def offer_skills(self) -> None:
        """Tell which skills can be asked for by `/name`."""
        found = await self.project.harness.skills.list(LOCAL_USER.user_id)
        entry = AvailableCommandInput(UnstructuredCommandInput(hint="what to do"))
        commands = [
            AvailableCommand(name=skill.name, description=skill.description[:MOST_DESCRIPTION], input=entry)
            for skill in found.enabled[:MOST_COMMANDS]
        ]
        if commands:
            await self._send(update_available_commands(commands))

    def modes(self) -> SessionModeState:
        """How the agent can work, and how it does."""
        return SessionModeState(current_mode_id=self.mode, available_modes=list(MODES))

    def choices(self) -> list[SessionConfigOptionSelect]:
        """What can be chosen: which model answers."""
        cards = self.project.harness.agents.model_cards()
        options = [SessionConfigSelectOption(value=card.name, name=card.display_name) for card in cards]
        current = self.model or cards[0].name
        return [
            SessionConfigOptionSelect(
                id=MODEL, name="Model", category="model", type="select", current_value=current, options=options
            )
        ]

    def choose(self, what: str, value: object) -> None:
        """Choose a model.

        Raises:
            InvalidRequest: That cannot be chosen.
        """
        names = [card.name for card in self.project.harness.agents.model_cards()]
        if what != MODEL or value not in names:
            raise InvalidRequest(f"what can be chosen is {MODEL!r}, one of {', '.join(names)}")
        self.model = str(value)

    def switch(self, mode: str) -> None:
        """Work in another way.

        Raises:
            InvalidRequest: There is no such mode.
        """
        if mode not in {each.id for each in MODES}:
            raise InvalidRequest(f"modes are {', '.join(each.id for each in MODES)}, not {mode!r}")
        self.mode = mode

    async def _first_request(self, parts: Sequence[Part]) -> RunRequest:
        """What is asked for by a prompt: an answer, or to go on with the one that was given to a question."""
        metadata = {"source": SOURCE, "cwd": str(self.project.folder)}
        thread = await self.project.harness.threads.create(LOCAL_USER, self.session_id, metadata, may_exist=True)
        kept = await self._keep([part for part in parts if isinstance(part, Attached)], thread)
        text = "".join(part if isinstance(part, str) else f"[{part.name}]({next(kept)})" for part in parts).strip()
        if self.questions:
            answer, self.questions = answering(self.questions, text), ()
            return self._request(answer)
        said = text if self.is_told else f"{text}{self.project.note}"
        self.is_told = True
        return self._request(None, [{"type": "human", "content": said}])

    async def _keep(self, files: Sequence[Attached], thread: ThreadRecord) -> Iterator[str]:
        """Give files to the thread; their paths.

        Raises:
            TooLarge: They are too many, or too large.
        """
        if not files:
            return iter(())
        uploads = self.project.harness.uploads
        async with uploads.receiving(thread) as reception:
            for file in files:
                await reception.begin(file.name)
                await reception.write(file.content)
                await reception.end()
            received = await uploads.keep(thread, reception)
        if received.skipped:
            raise TooLarge("; ".join(f"{each.filename}: {each.reason}" for each in received.skipped))
        return iter([file.path for file in received.files])

    def _request(self, resume: Resume | None, messages: Sequence[Mapping[str, object]] = ()) -> RunRequest:
        agent = AgentSpec(model_name=self.model, is_plan_mode=self.mode == PLAN_MODE)
        return RunRequest(
            self.session_id, messages, agent, resume=resume, create_thread=False, metadata={"source": SOURCE}
        )

    async def _take(self, request: RunRequest) -> Turn:
        listener = Listener(called=set(self.narrator.open_calls))
        turn = self.turn = Turn(self.project.harness, LOCAL_USER, request, listener=listener)
        async for happening in turn.follow():
            if self.is_cancelled and turn.run is not None:  # before there was anything to stop
                self.project.harness.runs.request_stop(turn.run.run_id)
            for update in self.narrator.tell(happening):
                await self._send(update)
        return turn

    async def _after(self, turn: Turn) -> RunRequest | None:
        """How to go on after a turn; None when that is up to the user."""
        if turn.ending == "asks" and turn.questions:
            self.questions = turn.questions
            for update in self.narrator.tell(Said(turn.asked())):
                await self._send(update)
        if turn.ending != "needs_approval" or self.is_cancelled:
            return None
        answers = {}
        for question in turn.questions:
            decisions = [await self._decide(call) for call in question["value"]["action_requests"]]
            if None in decisions:
                self.is_cancelled = True  # the thread goes on waiting, and the next message goes past it
                return None
            answers[question["id"]] = {"decisions": decisions}
        return self._request(Resume(answers))

    async def _decide(self, call: Mapping[str, Any]) -> dict[str, str] | None:
        """What the person at the editor says about a call; None when they want none of it any more."""
        name = call["name"]
        if name in self.always:
            return {"type": "approve"}
        options = [PermissionOption.model_validate({"optionId": i, "name": n, "kind": k}) for i, n, k in OPTIONS]
        answer = await self.client.request_permission(
            session_id=self.session_id, tool_call=self.narrator.call_like(name, call["args"]), options=options
        )
        if not isinstance(answer.outcome, AllowedOutcome):
            return None
        if answer.outcome.option_id == ALWAYS:
            self.always.add(name)
        return {"type": "approve" if answer.outcome.option_id in (APPROVE, ALWAYS) else "reject"}

    async def _send(self, update: SessionUpdate) -> None:
        await self.client.session_update(session_id=self.session_id, update=update)


async def must_exist(project: Project, session_id: str) -> None:
    """Raise `NotFound` for a thread that no editor has begun."""
    thread = await project.harness.threads.get(session_id, LOCAL_USER)
    if thread.metadata.get("source") != SOURCE:
        raise NotFound(f"thread {session_id!r} was not begun in an editor")
