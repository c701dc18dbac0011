"""Tells the model what day it is, without ever changing what it was told before.

The day is noted on the reply before which it was told, so the same words stand at the same place in every request.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AnyMessage

from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    hidden_message,
    said_by_the_model,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext

DAY = "told_day"
"""Where a reply notes the day that was told before it."""


def local_time() -> datetime:
    """The time where this machine stands."""
    return datetime.now(UTC).astimezone()


class DynamicContextMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Tells the date once per thread, again after midnight, and again when it has left the model's view."""

    state_schema = ThreadState

    def __init__(self, clock: Callable[[], datetime] = local_time) -> None:
        super().__init__()
        self._clock = clock
        self._words = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        today = self._untold_day(request)
        return _noting(today, handler(self._telling(request, today)))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        today = self._untold_day(request)
        return _noting(today, await handler(self._telling(request, today)))

    def _untold_day(self, request: Request) -> str | None:
        """Today, if the model does not know it yet."""
        today = self._clock().date().isoformat()
        told = next((day for message in reversed(request.messages) if (day := _day(message))), None)
        return None if told == today else today

    def _telling(self, request: Request, today: str | None) -> Request:
        messages = list(self._with_days(request.messages))
        if today is not None:
            messages.append(self._words_for(today))
        return request.override(messages=messages)

    def _with_days(self, messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
        for message in messages:
            if day := _day(message):
                yield self._words_for(day)
            yield message

    def _words_for(self, day: str) -> AnyMessage:
        weekday = datetime.fromisoformat(day).strftime("%A")
        return hidden_message(self._words.substitute(date=day, weekday=weekday))


def _day(message: AnyMessage) -> str | None:
    return message.additional_kwargs.get(DAY)


def _noting(day: str | None, reply: Reply) -> Reply:
    message = said_by_the_model(reply)
    if day is None or message is None:
        return reply
    noted = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, DAY: day}})
    return replace(reply, result=[noted if each is message else each for each in reply.result])
