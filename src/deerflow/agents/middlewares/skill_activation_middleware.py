"""Makes a skill active: when a message asks for it by `/name`, and when the agent reads its file."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.active_skills import READ_FILE, as_written, asked_for, noted_in, paths_read
from deerflow.agents.middlewares.compaction import PINNED
from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    RunTool,
    RunToolAsync,
    hidden_message,
    is_from_a_person,
)
from deerflow.agents.thread_state import ActiveSkill, ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import SkillInvalid
from deerflow.domain.skills import SkillCard

Result: TypeAlias = ToolMessage | Command[Any]

MAX_DESCRIPTION = 500
MAX_BODY = 40_000
CLOSING = "</skill>"


class SkillActivationMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Shows a skill that was asked for behind the message that asks, and notes which skills are active."""

    state_schema = ThreadState

    def __init__(self, only: Collection[str] | None = None) -> None:
        super().__init__()
        self._only = only
        self._words, self._reminder = words("middleware"), words("reminder")

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        # Skills are there only in a run of ours, which is async.
        return handler(request)

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply | ExtendedModelResponse[Any]:
        run = run_in(request.runtime.context)
        if run is None or run.skills is None:
            return await handler(request)
        asked = self._asked(run, request.state, as_written(request))
        reply = await handler(await self._showing(request, run, asked))
        known = {(entry["path"], entry["run_id"]) for entry in noted_in(request.state)}
        new = [
            entry_for(run, card, message_id)
            for message_id, card in asked.items()
            if (card.location, run.run_id) not in known
        ]
        return ExtendedModelResponse(reply, Command(update={"skill_context": new})) if new else reply

    async def _showing(self, request: Request, run: RunContext, asked: Mapping[str, SkillCard]) -> Request:
        """`request` with the skills that were asked for, and a word about active ones the model cannot see any more."""
        lost = out_of_view(request, run, self._only)
        if not asked and not lost:
            return request
        messages: list[AnyMessage] = []
        for message in request.messages:
            messages.append(message)
            if card := asked.get(message.id or ""):
                messages.append(pinned(hidden_message(await self._shown(run, card))))
        if lost:
            messages.append(hidden_message(self._reminder.substitute(places="\n".join(lost))))
        return request.override(messages=messages)

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        result = await handler(request)
        run = run_in(request.runtime.context)
        card = self._read(run, request) if run is not None else None
        if run is None or card is None or not isinstance(result, ToolMessage) or result.status == "error":
            return result
        return Command(update={"messages": [result], "skill_context": [entry_for(run, card, None)]})

    def _asked(self, run: RunContext, state: Mapping[str, Any], messages: Sequence[AnyMessage]) -> dict[str, SkillCard]:
        """The skills that were asked for in this run, by the messages that did."""
        noted = {entry.get("message_id") for entry in noted_in(state) if entry["run_id"] == run.run_id}
        latest = next(filter(is_from_a_person, reversed(messages)), None)
        wanted = [message for message in messages if message.id and (message is latest or message.id in noted)]
        found = {message.id: asked_for(run, message, self._only) for message in wanted}
        return {message_id or "": card for message_id, card in found.items() if card is not None}

    def _read(self, run: RunContext, request: ToolCallRequest) -> SkillCard | None:
        """The skill whose file a call reads."""
        if run.skills is None or request.tool_call["name"] != READ_FILE:
            return None
        card = run.skills.at(str(request.tool_call["args"].get("path", "")))
        return card if card is not None and (self._only is None or card.name in self._only) else None

    async def _shown(self, run: RunContext, card: SkillCard) -> str:
        assert run.skills is not None
        try:
            body = await run.skills.body(card.name)
        except SkillInvalid as problem:
            body = f"[it cannot be read any more: {problem}]"
        if len(body) > MAX_BODY:
            body = f"{body[:MAX_BODY]}\n[… cut here; read the rest in {card.location}]"
        folder = card.location.rpartition("/")[0]
        return self._words.substitute(
            name=card.name, folder=folder, body=body.replace(CLOSING, CLOSING.replace("<", "&lt;"))
        )


def out_of_view(request: Request, run: RunContext, only: Collection[str] | None) -> list[str]:
    """Where the active skills are whose text the model does not see: compacted away, or read by somebody else."""
    noted = [entry for entry in noted_in(request.state) if entry["run_id"] == run.run_id]
    active = [entry for entry in noted if only is None or entry["name"] in only]
    if not active:
        return []
    seen = {message.id for message in request.messages} | set(paths_read(reversed(request.messages)))
    return [entry["path"] for entry in active if not seen & {entry.get("message_id") or "", entry["path"]}]


def pinned(message: AnyMessage) -> AnyMessage:
    """`message` marked as one that stays when a request is made to fit."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, PINNED: True}})


def words(name: str) -> Template:
    """What the model is told."""
    return Template((Path(__file__).parent / f"skill_activation_{name}.md").read_text(encoding="utf-8").strip())


def entry_for(run: RunContext, card: SkillCard, message_id: str | None) -> ActiveSkill:
    """What the thread remembers of a skill that has become active."""
    return {
        "name": card.name,
        "path": card.location,
        "description": card.description[:MAX_DESCRIPTION],
        "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": run.run_id,
        "message_id": message_id,
    }
