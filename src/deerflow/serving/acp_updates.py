"""What happens in a run, in the words of ACP."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from acp import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.helpers import SessionUpdate, ToolCallContentVariant
from acp.schema import PlanEntryStatus, SessionInfoUpdate, ToolCallLocation, ToolCallUpdate, ToolKind

from deerflow.client.events import QUESTION
from deerflow.serving.acp_projects import Project
from deerflow.serving.happenings import Called, Happening, Named, Planned, Progressed, Returned, Said

KINDS: Mapping[str, ToolKind] = MappingProxyType(
    {
        "read_file": "read",
        "ls": "read",
        "view_image": "read",
        "list_uploaded_files": "read",
        "write_file": "edit",
        "str_replace": "edit",
        "glob": "search",
        "grep": "search",
        "web_search": "search",
        "image_search": "search",
        "search_history": "search",
        "bash": "execute",
        "web_fetch": "fetch",
        "task": "think",
    }
)
SHOWN_OTHERWISE = frozenset({QUESTION, "write_todos"})
"""Questions are said, and lists of what is to be done are plans."""
STATUSES: Mapping[str, PlanEntryStatus] = MappingProxyType({"in_progress": "in_progress", "completed": "completed"})
SUBJECTS = ("description", "path", "command", "query", "url", "agent")
MOST_CHARS = 20_000
MOST_PROGRESS = 8_000
LONGEST_TITLE = 120


@dataclass(slots=True)
class Narrator:
    """Tells an editor what happens in a session."""

    project: Project
    open_calls: dict[str, Called] = field(default_factory=dict)
    """The calls that have no result yet."""
    _progress: dict[str, str] = field(default_factory=dict)

    def tell(self, happening: Happening) -> Iterator[SessionUpdate]:
        """The updates that say it."""
        match happening:
            case Said(text=text, is_thought=is_thought):
                yield update_agent_thought_text(text) if is_thought else update_agent_message_text(text)
            case Called():
                yield from self._call(happening)
            case Progressed():
                yield from self._tell_progress(happening)
            case Returned():
                yield from self._result(happening)
            case Planned(todos=todos):
                entries = [(each["content"], STATUSES.get(each["status"], "pending")) for each in todos]
                yield update_plan([plan_entry(content, status=status) for content, status in entries])
            case Named(title=title):
                yield SessionInfoUpdate(session_update="session_info_update", title=title)

    def close(self) -> Iterator[SessionUpdate]:
        """Say that nothing more comes of the calls that have no result."""
        for call_id in self.open_calls:
            yield update_tool_call(call_id, status="failed")
        self.open_calls.clear()

    def call_like(self, name: str, arguments: Mapping[str, Any]) -> ToolCallUpdate:
        """The call that a paused run waits with."""
        wanted = Called(f"waits-{name}", name, arguments)
        same = (call for call in self.open_calls.values() if (call.tool, call.arguments) == (name, arguments))
        call = next(same, wanted)
        return ToolCallUpdate(
            tool_call_id=call.call_id,
            title=title_of(call),
            kind=KINDS.get(name, "other"),
            status="pending",
            content=self._changes(call) or None,
            locations=self._places(call),
            raw_input=dict(arguments),
        )

    def _call(self, call: Called) -> Iterator[SessionUpdate]:
        if call.tool in SHOWN_OTHERWISE:
            return
        self.open_calls[call.call_id] = call
        yield start_tool_call(
            call.call_id,
            title_of(call),
            kind=KINDS.get(call.tool, "other"),
            status="in_progress",
            content=self._changes(call) or None,
            locations=self._places(call),
            raw_input=dict(call.arguments),
        )

    def _tell_progress(self, progress: Progressed) -> Iterator[SessionUpdate]:
        if progress.call_id not in self.open_calls:
            return
        text = (self._progress.get(progress.call_id, "") + progress.text)[-MOST_PROGRESS:]
        self._progress[progress.call_id] = text
        yield update_tool_call(progress.call_id, status="in_progress", content=[tool_content(text_block(text))])

    def _result(self, result: Returned) -> Iterator[SessionUpdate]:
        call = self.open_calls.pop(result.call_id, None)
        self._progress.pop(result.call_id, None)
        if call is None:
            return
        said = tool_content(text_block(result.text[:MOST_CHARS]))
        content = [said] if result.has_failed else [*self._changes(call), said]
        yield update_tool_call(
            result.call_id, status="failed" if result.has_failed else "completed", content=content or None
        )

    def _changes(self, call: Called) -> list[ToolCallContentVariant]:
        """What a call changes in a file."""
        given = call.arguments
        path = self.project.outside(str(given.get("path", "")))
        if call.tool == "str_replace" and "old_str" in given:
            return [tool_diff_content(path, str(given.get("new_str", "")), str(given["old_str"]))]
        if call.tool == "write_file" and "content" in given and not given.get("append"):
            return [tool_diff_content(path, str(given["content"]))]
        return []

    def _places(self, call: Called) -> list[ToolCallLocation] | None:
        path = call.arguments.get("path") or call.arguments.get("image_path")
        return [ToolCallLocation(path=self.project.outside(path))] if isinstance(path, str) else None


def title_of(call: Called) -> str:
    """A call in a few words."""
    subject = next((str(call.arguments[key]) for key in SUBJECTS if call.arguments.get(key)), "")
    return f"{call.tool}: {subject}"[:LONGEST_TITLE] if subject else call.tool
