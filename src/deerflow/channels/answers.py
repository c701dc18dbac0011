"""Answer of a run as a chat shows it: the text while it is written, and the messages at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from deerflow.channels.texts import translate
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunEvent, RunRecord, RunStatus
from deerflow.harness import Harness
from deerflow.runtime.journal.serialization import CLARIFICATION_TOOL
from deerflow.serving.turns import PlanUpdated, TextDelta, ToolCallStarted, ToolFinished, TurnEventReader

PRESENT_TOOL = "present_files"
MAX_QUESTION_CHARS = 3000
"""Length of a question. Longer calls cannot be allowed in the chat: nobody may allow what is not shown."""
MAX_LABEL_CHARS = 60


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """Question with buttons: a call that needs approval, or one of the agent with options."""

    asks: Literal["approval", "answer"]
    text: str
    choices: Sequence[str]
    labels: Sequence[str]
    interrupts: Mapping[str, int] = field(default_factory=dict)
    """Number of calls of each interrupt."""

    def to_details(self) -> dict[str, Any]:
        """Return what is stored with the message."""
        return {
            "asks": self.asks,
            "choices": list(self.choices),
            "labels": list(self.labels),
            "interrupts": dict(self.interrupts),
        }


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """Messages at the end of a run."""

    text: str
    files: Sequence[str] = ()
    question: ChatQuestion | None = None


@dataclass(slots=True)
class AnswerView:
    """Text of an answer while its run goes on. Text before a call of a tool gives way to the text after it."""

    reader: TurnEventReader = field(default_factory=TurnEventReader)
    text: str = ""
    status: str = ""
    has_begun: bool = False
    last_seq: int = 0
    options: Sequence[str] = ()
    _presented: dict[str, Sequence[str]] = field(default_factory=dict)
    _files: dict[str, None] = field(default_factory=dict)

    def read(self, event: RunEvent) -> None:
        """Apply an event of the run."""
        self.last_seq = event.seq
        self.has_begun |= event.event in ("messages", "changes", "custom")
        for each in self.reader.read(event):
            match each:
                case TextDelta(text, is_thought=False):
                    self.text += text
                    self.status = ""
                case ToolCallStarted():
                    self._begin_call(each)
                case ToolFinished(call_id, has_failed=False):
                    self._files.update(dict.fromkeys(self._presented.pop(call_id, ())))
                case PlanUpdated(todos):
                    done = sum(todo.get("status") == "completed" for todo in todos)
                    self.status = f"☑ {done}/{len(todos)}"
                case _:
                    pass

    def _begin_call(self, call: ToolCallStarted) -> None:
        self.text, self.status = "", f"🔧 {call.tool}"
        if call.tool == PRESENT_TOOL:
            self._presented[call.call_id] = [str(path) for path in as_list(call.arguments.get("filepaths"))]
        elif call.tool == CLARIFICATION_TOOL:
            self.options = [str(option) for option in as_list(call.arguments.get("options"))]

    @property
    def files(self) -> Sequence[str]:
        """Paths of the files that the agent has presented."""
        return tuple(self._files)


def as_list(value: object) -> Sequence[object]:
    """Return a list as it is, and anything else as an empty one: models may give any argument."""
    return value if isinstance(value, list) else ()


async def conclude(harness: Harness, who: Principal, run: RunRecord, view: AnswerView, language: str) -> FinalAnswer:
    """Return the messages at the end of a run."""
    if view.reader.failure is not None or run.status in (RunStatus.ERROR, RunStatus.TIMEOUT):
        reason = view.reader.failure or run.error or run.status.value
        answer = view.reader.answer
        failed = translate(language, "failed", reason=reason)
        return FinalAnswer(f"{answer}\n\n{failed}" if answer else failed, view.files)
    thread = await harness.threads.get(run.thread_id, who)
    if run.status is RunStatus.INTERRUPTED and thread.waits_for is None:
        stopped = translate(language, "stopped")
        return FinalAnswer(f"{view.text}\n\n{stopped}" if view.text else stopped, view.files)
    question = None
    if thread.waits_for == "approval":
        state = await harness.threads.state(run.thread_id, who)
        question = build_approval(orjson.loads(state.interrupts), language)
    elif thread.waits_for == "answer" and view.options:
        labels = [option[:MAX_LABEL_CHARS] for option in view.options]
        asked, text = view.reader.answer, ""
        if len(asked) > MAX_QUESTION_CHARS:  # in as many messages as it takes; the buttons follow
            asked, text = translate(language, "choose"), asked
        return FinalAnswer(text, view.files, ChatQuestion("answer", asked, view.options, labels))
    return FinalAnswer(view.reader.answer, view.files, question)


def build_approval(interrupts: Sequence[Mapping[str, Any]], language: str) -> ChatQuestion | None:
    """Return the question for the calls of interrupts; None if one of them asks for something else."""
    values = [each["value"] for each in interrupts]
    if not values or not all(isinstance(value, Mapping) and "action_requests" in value for value in values):
        return None
    calls = [call for value in values for call in value["action_requests"]]
    shown = "\n\n".join(describe_call(call) for call in calls)
    counts = {each["id"]: len(each["value"]["action_requests"]) for each in interrupts}
    text, choices = f"{translate(language, 'approval')}\n\n{shown}", ["approve", "reject"]
    if len(text) > MAX_QUESTION_CHARS:
        names = ", ".join(dict.fromkeys(str(call["name"]) for call in calls))
        text, choices = translate(language, "approve_on_page", names=names[:MAX_LABEL_CHARS]), ["reject"]
    return ChatQuestion("approval", text, choices, [translate(language, each) for each in choices], counts)


def describe_call(call: Mapping[str, Any]) -> str:
    """Return a call of a tool as Markdown."""
    arguments = orjson.dumps(call.get("args") or {}, option=orjson.OPT_INDENT_2).decode().replace("```", "'''")
    return f"**{call['name']}**\n```\n{arguments}\n```"
