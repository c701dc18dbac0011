"""Which skills are active in a run, and which tools that leaves."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deerflow.agents.middlewares.replies import Request, is_from_a_person, messages_of_this_turn
from deerflow.agents.thread_state import ActiveSkill
from deerflow.domain.context import RunContext
from deerflow.domain.skills import SkillCard

ACTIVATION = re.compile(r"/(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)(?:\s|\Z)")
RESERVED = frozenset({"bootstrap", "goal", "help", "memory", "models", "new", "status"})
"""Words after a slash that mean something else wherever people write to agents."""
READ_FILE = "read_file"
ALWAYS_ALLOWED = frozenset(
    {READ_FILE, "ls", "present_files", "ask_clarification", "write_todos", "describe_skill", "tool_search"}
)
"""Whoever reads a skill must be able to read on, to ask, and to hand over what was made."""
GOES_WITH: Mapping[str, Collection[str]] = {"bash": ("bash_output", "bash_kill")}


def active_skills(
    run: RunContext, state: Mapping[str, Any], messages: Sequence[AnyMessage], only: Collection[str] | None
) -> list[SkillCard]:
    """The skills that were asked for or read in this run, as far as the agent may use them, or who gave it work does.

    The state knows them also when the messages have been compacted away; the messages, also when the turn goes on in
    another run because somebody was asked something.
    """
    if run.skills is None:
        return []
    names = [entry["name"] for entry in noted_in(state) if entry["run_id"] == run.run_id]
    latest = next(filter(is_from_a_person, reversed(messages)), None)
    names += [asked.name for asked in [asked_for(run, latest, only)] if asked]
    read = [card.name for path in paths_read(messages_of_this_turn(messages)) if (card := run.skills.at(path))]
    names += [name for name in read if only is None or name in only]
    return [card for name in dict.fromkeys(names) if (card := run.skills.named(name))]


def as_written(request: Request) -> list[AnyMessage]:
    """The messages of a request without what others have put before the words of people, such as lists of files."""
    kept = {message.id: message for message in request.state["messages"]}
    return [kept.get(message.id, message) if message.id else message for message in request.messages]


def noted_in(state: Mapping[str, Any]) -> Sequence[ActiveSkill]:
    """The skills that a thread remembers to have used."""
    return state.get("skill_context") or ()


def asked_for(run: RunContext, message: AnyMessage | None, only: Collection[str] | None) -> SkillCard | None:
    """The skill that a message asks for by beginning with `/name`."""
    match = ACTIVATION.match(message.text) if message is not None and is_from_a_person(message) else None
    if match is None or match["name"] in RESERVED or run.skills is None:
        return None
    return run.skills.named(match["name"]) if only is None or match["name"] in only else None


def paths_read(newest_first: Iterable[AnyMessage]) -> Iterator[str]:
    """The files that were read."""
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


def allowed_by(skills: Sequence[SkillCard]) -> frozenset[str] | None:
    """The tools that may be used while these skills are active; None: all."""
    declared = [skill.allowed_tools for skill in skills if skill.allowed_tools is not None]
    if not declared:
        return None
    named = frozenset(tool for tools in declared for tool in tools)
    return named | ALWAYS_ALLOWED | {other for tool in named for other in GOES_WITH.get(tool, ())}
