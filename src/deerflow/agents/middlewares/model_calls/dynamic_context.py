"""Messages added to a request: date and user profile, so that the prompt prefix stays stable, and steering messages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse
from langchain_core.messages import AnyMessage

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    find_ai_message,
    make_hidden_message,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext, find_run_context

DAY, PROFILE = "told_day", "told_profile"
"""Where a reply notes the day, and what the user says about themselves, that were told before it."""
NO_PROFILE = "The person has taken back what they said about themselves: do not go by it any longer."

Told = Mapping[str, str]
"""What the model is told before a reply, by where the reply notes it."""


def local_time() -> datetime:
    """Return the local time."""
    return datetime.now(UTC).astimezone()


class DynamicContextMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds the date and the user's profile once per thread, and again when they change or were compacted away."""

    state_schema = ThreadState

    def __init__(self, clock: Callable[[], datetime] = local_time) -> None:
        super().__init__()
        self._clock = clock
        self._date_words = _words("dynamic_context.md")
        self._profile_words = _words("user_profile.md")

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        untold = self._untold(request)
        return _noting(untold, handler(self._add_context(request, untold)))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        untold = self._untold(request)
        return _noting(untold, await handler(self._add_context(request, untold)))

    def _untold(self, request: Request) -> Told:
        """Return the values that the model does not know yet."""
        run = find_run_context(request.runtime.context)
        now = {DAY: self._clock().date().isoformat(), PROFILE: run.profile if run else ""}
        return {key: value for key, value in now.items() if value != _last_value(request.messages, key)}

    def _add_context(self, request: Request, untold: Told) -> Request:
        messages = list(self._with_update(request.messages))
        messages.extend(self._words_for(untold))
        return request.override(messages=messages)

    def _with_update(self, messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
        for message in messages:
            yield from self._words_for(message.additional_kwargs)
            yield message

    def _words_for(self, told: Mapping[str, Any]) -> Iterator[AnyMessage]:
        if day := told.get(DAY):
            weekday = datetime.fromisoformat(day).strftime("%A")
            yield make_hidden_message(self._date_words.substitute(date=day, weekday=weekday))
        if (profile := told.get(PROFILE)) is not None:
            yield make_hidden_message(self._profile_words.substitute(profile=profile) if profile else NO_PROFILE)


def _words(name: str) -> Template:
    return Template(Path(__file__).with_name(name).read_text(encoding="utf-8").strip())


def _last_value(messages: Sequence[AnyMessage], key: str) -> str:
    noted = (message.additional_kwargs.get(key) for message in reversed(messages))
    return next((told for told in noted if told is not None), "")


def _noting(told: Told, reply: Reply) -> Reply:
    message = find_ai_message(reply)
    if not told or message is None:
        return reply
    noted = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, **told}})
    return replace(reply, result=[noted if each is message else each for each in reply.result])


class SteeringMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds steering messages to the next request, and to the thread before the reply."""

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        # Messages come only where one can wait for them.
        return handler(request)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        run = find_run_context(request.runtime.context)
        said = list(await run.inbox.take()) if run is not None and run.inbox is not None else []
        if not said:
            return await handler(request)
        reply = await handler(request.override(messages=[*request.messages, *said]))
        if not isinstance(reply, ModelResponse):
            return ModelResponse(result=[*said, reply])
        return ModelResponse(result=[*said, *reply.result], structured_response=reply.structured_response)
