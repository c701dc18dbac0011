"""To-do list: maintained by the model and shown to the user."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain.agents.middleware.todo import Todo
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage

from deerflow.agent_support.replies import (
    HIDDEN,
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    append_hidden_message,
    find_ai_message,
    iter_current_turn,
)
from deerflow.agent_support.thread_state import read_value

WRITE_TODOS = "write_todos"
REMINDER = "todo_reminder"
"""Marks the messages that remind of open entries."""
MOST = 2
"""So many reminders per turn."""
SIGNS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


class TodoMiddleware(TodoListMiddleware[Any, Any]):
    """Adds `write_todos`, shows the list again after compaction, and reminds the model of open items."""

    # Two lists at once need no refusal: the state takes the later one. So no node of the graph is needed for it.
    after_model = AgentMiddleware.after_model
    aafter_model = AgentMiddleware.aafter_model

    def __init__(self) -> None:
        super().__init__(system_prompt=_words("middleware"), tool_description=_words("tool"))
        self._reminder = Template(_words("reminder"))
        self._list = Template(_words("list"))

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        asked = self._with_list(request)
        reply = handler(asked)
        said = reply.result
        while (reminder := self._reminder_after(asked, reply)) is not None:
            asked = _going_on(asked, reply, reminder)
            reply = handler(asked)
            said = [*said, reminder, *reply.result]
        return replace(reply, result=said)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        asked = self._with_list(request)
        reply = await handler(asked)
        said = reply.result
        while (reminder := self._reminder_after(asked, reply)) is not None:
            asked = _going_on(asked, reply, reminder)
            reply = await handler(asked)
            said = [*said, reminder, *reply.result]
        return replace(reply, result=said)

    def _with_list(self, request: Request) -> Request:
        """Return `request` with the prompt, and with the list if it is no longer in the context."""
        system = request.system_message.text if request.system_message else ""
        changed = request.override(system_message=SystemMessage(f"{system}\n\n{self.system_prompt}".lstrip()))
        todos = _todos(request)
        if not _open(todos) or any(map(_writes_todos, request.messages)):
            return changed
        return append_hidden_message(changed, self._list.substitute(todos=_shown(todos)))

    def _reminder_after(self, asked: Request, reply: Reply) -> HumanMessage | None:
        """Return a reminder for a model that ends with open items; None lets it end."""
        message = find_ai_message(reply)
        todos = _open(_todos(asked))
        if message is None or message.tool_calls or not message.text.strip() or not todos:
            return None
        if sum(REMINDER in earlier.additional_kwargs for earlier in iter_current_turn(asked.messages)) >= MOST:
            return None
        marks = {HIDDEN: True, REMINDER: True}
        return HumanMessage(self._reminder.substitute(todos=_shown(todos)), additional_kwargs=marks)


def _going_on(asked: Request, reply: Reply, reminder: HumanMessage) -> Request:
    """Return the messages to send after `reply`."""
    return asked.override(messages=[*asked.messages, *cast(list[AnyMessage], reply.result), reminder])


def _todos(request: Request) -> Sequence[Todo]:
    return cast(Sequence[Todo] | None, read_value(cast(Mapping[str, Any], request.state), "todos")) or ()


def _open(todos: Sequence[Todo]) -> list[Todo]:
    return [todo for todo in todos if todo["status"] != "completed"]


def _writes_todos(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and any(call["name"] == WRITE_TODOS for call in message.tool_calls)


def _shown(todos: Sequence[Todo]) -> str:
    return "\n".join(f"{SIGNS[todo['status']]} {todo['content']}" for todo in todos)


def _words(name: str) -> str:
    return (Path(__file__).parent / f"todo_{name}.md").read_text(encoding="utf-8").strip()
