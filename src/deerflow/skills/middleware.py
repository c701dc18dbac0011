"""Middleware for active skills: activation by `/name` or by reading SKILL.md, and tool restrictions."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.compaction import PINNED
from deerflow.agent_support.replies import (
    AsyncModelHandler,
    AsyncToolHandler,
    ModelHandler,
    Reply,
    Request,
    ToolHandler,
    is_user_message,
    iter_current_turn,
    make_hidden_message,
)
from deerflow.agent_support.thread_state import ActiveSkill, ThreadState, read_value
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import SkillInvalid
from deerflow.domain.skills import SkillMetadata

ACTIVATION = re.compile(r"/(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)(?:\s|\Z)")
RESERVED_COMMANDS = frozenset({"bootstrap", "goal", "help", "memory", "models", "new", "status"})
"""Slash commands that are not skill names."""
READ_FILE = "read_file"
ALWAYS_ALLOWED = frozenset(
    {READ_FILE, "ls", "present_files", "ask_clarification", "write_todos", "describe_skill", "tool_search"}
)
"""Tools that every skill may use: to read on, to ask, and to present results."""
COMPANION_TOOLS: Mapping[str, Collection[str]] = {"bash": ("bash_output", "bash_kill")}


def find_active_skills(
    run: RunContext, state: Mapping[str, Any], messages: Sequence[AnyMessage], only: Collection[str] | None
) -> list[SkillMetadata]:
    """Return the skills requested or read in this run that the agent, or the agent that delegated to it, may use.

    The state keeps them after compaction. The messages keep them when the turn continues in another run because the
    user was asked a question.
    """
    if run.skills is None:
        return []
    names = [entry["name"] for entry in get_recorded_skills(state) if entry["run_id"] == run.run_id]
    latest = next(filter(is_user_message, reversed(messages)), None)
    names += [requested.name for requested in [find_requested_skill(run, latest, only)] if requested]
    read = [
        skill.name for path in find_read_paths(iter_current_turn(messages)) if (skill := run.skills.find_by_path(path))
    ]
    names += [name for name in read if only is None or name in only]
    return [skill for name in dict.fromkeys(names) if (skill := run.skills.find(name))]


def get_original_messages(request: Request) -> list[AnyMessage]:
    """Return the messages of a request without content that other middlewares prepended, such as file lists."""
    originals = {message.id: message for message in request.state["messages"]}
    return [originals.get(message.id, message) if message.id else message for message in request.messages]


def get_recorded_skills(state: Mapping[str, Any]) -> Sequence[ActiveSkill]:
    """Return the skills recorded in the thread state."""
    return read_value(state, "skill_context") or ()


def find_requested_skill(
    run: RunContext, message: AnyMessage | None, only: Collection[str] | None
) -> SkillMetadata | None:
    """Return the skill that a message requests by starting with `/name`."""
    match = ACTIVATION.match(message.text) if message is not None and is_user_message(message) else None
    if match is None or match["name"] in RESERVED_COMMANDS or run.skills is None:
        return None
    return run.skills.find(match["name"]) if only is None or match["name"] in only else None


def find_read_paths(newest_first: Iterable[AnyMessage]) -> Iterator[str]:
    """Yield the paths of files that were read successfully."""
    done = set()
    for message in newest_first:  # results come before their calls
        if isinstance(message, ToolMessage) and message.status != "error":
            done.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            yield from (
                str(call["args"].get("path", ""))
                for call in message.tool_calls
                if call["name"] == READ_FILE and call["id"] in done
            )


def resolve_allowed_tools(skills: Sequence[SkillMetadata]) -> frozenset[str] | None:
    """Return the tools allowed while these skills are active; None means all."""
    declared = [skill.allowed_tools for skill in skills if skill.allowed_tools is not None]
    if not declared:
        return None
    named = frozenset(tool for tools in declared for tool in tools)
    return named | ALWAYS_ALLOWED | {other for tool in named for other in COMPANION_TOOLS.get(tool, ())}


Result: TypeAlias = ToolMessage | Command[Any]


class SkillToolPolicyMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Hides and blocks all other tools while skills with `allowed-tools` are active."""

    state_schema = ThreadState

    def __init__(self, only: Collection[str] | None = None) -> None:
        super().__init__()
        self._only = only

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return handler(self._filter_tools(request))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return await handler(self._filter_tools(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        return self._check_call(request) or handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        return self._check_call(request) or await handler(request)

    def _filter_tools(self, request: Request) -> Request:
        run = find_run_context(request.runtime.context)
        active = (
            find_active_skills(run, request.state, get_original_messages(request), self._only)
            if run is not None
            else []
        )
        allowed = resolve_allowed_tools(active)
        if allowed is None:
            return request
        return request.override(tools=[tool for tool in request.tools if get_tool_name(tool) in allowed])

    def _check_call(self, request: ToolCallRequest) -> ToolMessage | None:
        run = find_run_context(request.runtime.context)
        if run is None:
            return None
        active = find_active_skills(run, request.state, request.state["messages"], self._only)
        allowed, name = resolve_allowed_tools(active), request.tool_call["name"]
        return None if allowed is None or name in allowed else build_refusal(request, active, allowed)


def get_tool_name(tool: BaseTool | dict[str, Any]) -> str:
    """Return the name of a tool, including provider-side tools."""
    if isinstance(tool, BaseTool):
        return tool.name
    return str(tool.get("name") or tool.get("function", {}).get("name") or tool.get("type", ""))


def build_refusal(request: ToolCallRequest, active: Collection[SkillMetadata], allowed: Collection[str]) -> ToolMessage:
    """Return the tool message for a call that the active skills do not allow."""
    name = request.tool_call["name"]
    limiting = ", ".join(skill.name for skill in active if skill.allowed_tools is not None)
    text = (
        f"Error: {name} was not called: the active skill ({limiting}) does not allow it. "
        f"Allowed are {', '.join(sorted(allowed))}. Go on with these, or tell the user what cannot be done."
    )
    return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")


MAX_DESCRIPTION = 500
MAX_BODY = 40_000
CLOSING_TAG = "</skill>"


class SkillActivationMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds a requested skill after the message that requests it, and records active skills."""

    state_schema = ThreadState

    def __init__(self, only: Collection[str] | None = None) -> None:
        super().__init__()
        self._only = only
        self._template, self._reminder = load_template("middleware"), load_template("reminder")

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        # Skills exist only in our runs, which are async.
        return handler(request)

    async def awrap_model_call(
        self, request: Request, handler: AsyncModelHandler
    ) -> Reply | ExtendedModelResponse[Any]:
        run = find_run_context(request.runtime.context)
        if run is None or run.skills is None:
            return await handler(request)
        requested = self._find_requested(run, request.state, get_original_messages(request))
        reply = await handler(await self._inject_skills(request, run, requested))
        known = {(entry["path"], entry["run_id"]) for entry in get_recorded_skills(request.state)}
        new = [
            build_entry(run, skill, message_id)
            for message_id, skill in requested.items()
            if (skill.location, run.run_id) not in known
        ]
        return ExtendedModelResponse(reply, Command(update={"skill_context": new})) if new else reply

    async def _inject_skills(
        self, request: Request, run: RunContext, requested: Mapping[str, SkillMetadata]
    ) -> Request:
        """Return `request` with the requested skills, and a reminder of active skills that are no longer visible."""
        hidden = find_hidden_skills(request, run, self._only)
        if not requested and not hidden:
            return request
        messages: list[AnyMessage] = []
        for message in request.messages:
            messages.append(message)
            if skill := requested.get(message.id or ""):
                messages.append(pin(make_hidden_message(await self._render_skill(run, skill))))
        if hidden:
            messages.append(make_hidden_message(self._reminder.substitute(places="\n".join(hidden))))
        return request.override(messages=messages)

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        result = await handler(request)
        run = find_run_context(request.runtime.context)
        skill = self._find_read_skill(run, request) if run is not None else None
        if run is None or skill is None or not isinstance(result, ToolMessage) or result.status == "error":
            return result
        return Command(update={"messages": [result], "skill_context": [build_entry(run, skill, None)]})

    def _find_requested(
        self, run: RunContext, state: Mapping[str, Any], messages: Sequence[AnyMessage]
    ) -> dict[str, SkillMetadata]:
        """Return the skills requested in this run, by message id."""
        recorded = {entry.get("message_id") for entry in get_recorded_skills(state) if entry["run_id"] == run.run_id}
        latest = next(filter(is_user_message, reversed(messages)), None)
        candidates = [message for message in messages if message.id and (message is latest or message.id in recorded)]
        found = {message.id: find_requested_skill(run, message, self._only) for message in candidates}
        return {message_id or "": skill for message_id, skill in found.items() if skill is not None}

    def _find_read_skill(self, run: RunContext, request: ToolCallRequest) -> SkillMetadata | None:
        """Return the skill whose SKILL.md a call reads."""
        if run.skills is None or request.tool_call["name"] != READ_FILE:
            return None
        skill = run.skills.find_by_path(str(request.tool_call["args"].get("path", "")))
        return skill if skill is not None and (self._only is None or skill.name in self._only) else None

    async def _render_skill(self, run: RunContext, skill: SkillMetadata) -> str:
        assert run.skills is not None
        try:
            body = await run.skills.read_body(skill.name)
        except SkillInvalid as error:
            body = f"[the skill can no longer be read: {error}]"
        if len(body) > MAX_BODY:
            body = f"{body[:MAX_BODY]}\n[… cut here; read the rest in {skill.location}]"
        folder = skill.location.rpartition("/")[0]
        return self._template.substitute(
            name=skill.name, folder=folder, body=body.replace(CLOSING_TAG, CLOSING_TAG.replace("<", "&lt;"))
        )


def find_hidden_skills(request: Request, run: RunContext, only: Collection[str] | None) -> list[str]:
    """Return the paths of active skills whose text the model cannot see: compacted, or read by another agent."""
    recorded = [entry for entry in get_recorded_skills(request.state) if entry["run_id"] == run.run_id]
    active = [entry for entry in recorded if only is None or entry["name"] in only]
    if not active:
        return []
    seen = {message.id for message in request.messages} | set(find_read_paths(reversed(request.messages)))
    return [entry["path"] for entry in active if not seen & {entry.get("message_id") or "", entry["path"]}]


def pin(message: AnyMessage) -> AnyMessage:
    """Return `message` marked to be kept during compaction."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, PINNED: True}})


def load_template(name: str) -> Template:
    """Return a prompt template."""
    return Template((Path(__file__).parent / f"skill_activation_{name}.md").read_text(encoding="utf-8").strip())


def build_entry(run: RunContext, skill: SkillMetadata, message_id: str | None) -> ActiveSkill:
    """Return the state entry of a skill that became active."""
    return {
        "name": skill.name,
        "path": skill.location,
        "description": skill.description[:MAX_DESCRIPTION],
        "loaded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": run.run_id,
        "message_id": message_id,
    }
