"""Model calls: added context and steering, retries and other models after failures, and empty answers."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage

from deerflow.agent_support.model_failures import ModelFailure, classify_failure
from deerflow.agent_support.replies import (
    TRUNCATED,
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    append_hidden_message,
    emit_retry_event,
    end_with_sentence,
    find_ai_message,
    get_finish_reason,
    make_hidden_message,
    replace_message,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.config.sections.runs import LlmCallConfig
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import ModelError

DAY, PROFILE, INSTRUCTIONS = "told_day", "told_profile", "told_instructions"
"""Metadata keys of a reply: day, user profile and project instructions that were added before it."""
NO_INSTRUCTIONS = "The instructions of the project do not apply any longer."
NO_PROFILE = "The person has taken back what they said about themselves: do not go by it any longer."

ContextNotes = Mapping[str, str]
"""Context that is added before a reply, by metadata key of the reply."""


def local_time() -> datetime:
    """Return the local time."""
    return datetime.now(UTC).astimezone()


class DynamicContextMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds date, profile and project instructions once per thread, and again when they change or were compacted."""

    state_schema = ThreadState

    def __init__(self, clock: Callable[[], datetime] = local_time) -> None:
        super().__init__()
        self._clock = clock
        self._date_words = _words("dynamic_context.md")
        self._profile_words = _words("user_profile.md")
        self._project_words = _words("project_instructions.md")

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        new_context = self._find_new_context(request)
        return _noting(new_context, handler(self._add_context(request, new_context)))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        new_context = self._find_new_context(request)
        return _noting(new_context, await handler(self._add_context(request, new_context)))

    def _find_new_context(self, request: Request) -> ContextNotes:
        """Return the values that the model does not know yet."""
        run = find_run_context(request.runtime.context)
        now = {DAY: self._clock().date().isoformat(), PROFILE: "", INSTRUCTIONS: ""}
        if run:
            now |= {PROFILE: run.profile, INSTRUCTIONS: run.instructions}
        return {key: value for key, value in now.items() if value != _last_value(request.messages, key)}

    def _add_context(self, request: Request, new_context: ContextNotes) -> Request:
        messages = list(self._with_update(request.messages))
        messages.extend(self._words_for(new_context))
        return request.override(messages=messages)

    def _with_update(self, messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
        for message in messages:
            yield from self._words_for(message.additional_kwargs)
            yield message

    def _words_for(self, notes: Mapping[str, Any]) -> Iterator[AnyMessage]:
        if day := notes.get(DAY):
            weekday = datetime.fromisoformat(day).strftime("%A")
            yield make_hidden_message(self._date_words.substitute(date=day, weekday=weekday))
        if (profile := notes.get(PROFILE)) is not None:
            yield make_hidden_message(self._profile_words.substitute(profile=profile) if profile else NO_PROFILE)
        if (text := notes.get(INSTRUCTIONS)) is not None:
            words = self._project_words.substitute(instructions=text) if text else NO_INSTRUCTIONS
            yield make_hidden_message(words)


def _words(name: str) -> Template:
    return Template(Path(__file__).with_name(name).read_text(encoding="utf-8").strip())


def _last_value(messages: Sequence[AnyMessage], key: str) -> str:
    noted = (message.additional_kwargs.get(key) for message in reversed(messages))
    return next((notes for notes in noted if notes is not None), "")


def _noting(notes: ContextNotes, reply: Reply) -> Reply:
    message = find_ai_message(reply)
    if not notes or message is None:
        return reply
    noted = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, **notes}})
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


THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
REFUSING = frozenset(
    {"content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii", "sensitive"}
)
REFUSED = (
    "The model's provider stopped this answer because of its content rules. "
    "Put the request in other words, or choose another model."
)
CUT_SHORT = (
    "The model reached its length limit before it came to an answer. "
    "Ask for less at once, or give the model a higher `max_tokens` in the configuration."
)
SILENT = "The model gave no answer, even when asked again. Put the request in other words, or choose another model."


class EmptyAnswerMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Retries an empty answer once, and explains if there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._nudge = Path(__file__).with_name("empty_answer.md").read_text(encoding="utf-8").strip()

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        reply = handler(request)
        if is_empty(reply):
            reply = handler(self._nudged(request))
        return add_explanation(reply)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        reply = await handler(request)
        if is_empty(reply):
            reply = await handler(self._nudged(request))
        return add_explanation(reply)

    def _nudged(self, request: Request) -> Request:
        message = "The answer was empty. Asking again."
        emit_retry_event(request, attempt=2, max_attempts=2, wait_s=0, reason="empty_answer", message=message)
        return append_hidden_message(request, self._nudge)


def is_empty(reply: Reply) -> bool:
    """Return whether the reply has no content and can be retried."""
    message = find_ai_message(reply)
    return message is not None and not has_content(message) and not was_refused(message)


def add_explanation(reply: Reply) -> Reply:
    """Return `reply` with an explanation where the model's text is missing or was withheld."""
    message = find_ai_message(reply)
    if message is None:
        return reply
    if was_refused(message):
        # Its calls may be what the provider objected to, or only half of what was meant.
        why = str(message.additional_kwargs.get("refusal") or REFUSED)
        return replace_message(reply, end_with_sentence(message, why, {"stop_reason": "refused"}))
    if has_content(message):
        return reply
    why = CUT_SHORT if get_finish_reason(message) in TRUNCATED else SILENT
    return replace_message(reply, end_with_sentence(message, why, {"stop_reason": "empty_answer"}))


def has_content(message: AIMessage) -> bool:
    """Return whether a message has text or calls, besides reasoning."""
    if message.tool_calls or message.invalid_tool_calls:
        return True
    return bool(THINKING.sub("", message.text).strip()) or has_media(message)


def has_media(message: AIMessage) -> bool:
    """Return whether a message without text has an image or other media."""
    blocks = message.content if isinstance(message.content, list) else ()
    return any(
        isinstance(block, dict) and block.get("type") in ("image", "image_url", "audio", "file") for block in blocks
    )


def was_refused(message: AIMessage) -> bool:
    """Return whether the provider or model refused to answer."""
    return get_finish_reason(message) in REFUSING or bool(message.additional_kwargs.get("refusal"))


logger = logging.getLogger(__name__)

MAX_WAIT_S = 60.0
"""An endpoint that asks for more patience than this counts as failed."""


@dataclass(frozen=True, slots=True)
class RetryClock:
    """Sleep and jitter; tests replace them."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    sleep_sync: Callable[[float], None] = time.sleep
    between: Callable[[float, float], float] = random.uniform


class ModelRecoveryMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Retries with growing pauses, then falls back to other models, then raises what went wrong.

    LangChain's ModelRetryMiddleware and ModelFallbackMiddleware cannot honour Retry-After, tell the reader, or skip the
    wait where it is of no use, so this does the work of both.
    """

    def __init__(
        self, settings: LlmCallConfig, fallbacks: Sequence[BaseChatModel] = (), clock: RetryClock = RetryClock()
    ) -> None:
        super().__init__()
        self._settings = settings
        self._fallbacks = tuple(fallbacks)
        self._clock = clock

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        attempts = RetryState(request, self._settings, iter(self._fallbacks), self._clock.between)
        while True:
            try:
                return handler(attempts.request)
            except Exception as error:
                failure = attempts.recognise(error)
                if failure is None:
                    raise
                wait_s = attempts.wait_after(failure, error)
            self._clock.sleep_sync(wait_s)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        attempts = RetryState(request, self._settings, iter(self._fallbacks), self._clock.between)
        while True:
            try:
                return await handler(attempts.request)
            except Exception as error:
                failure = attempts.recognise(error)
                if failure is None:
                    raise
                wait_s = attempts.wait_after(failure, error)
            await self._clock.sleep(wait_s)


@dataclass(slots=True)
class RetryState:
    """State of the attempts at one model call."""

    request: Request
    settings: LlmCallConfig
    fallbacks: Iterator[BaseChatModel]
    between: Callable[[float, float], float]
    number: int = 1
    last_wait_s: float = 0.0

    def recognise(self, error: Exception) -> ModelFailure | None:
        """Return the failure with a redacted text: vendors quote the keys they reject."""
        run = find_run_context(self.request.runtime.context)
        hide = run.redact if run is not None else str
        failure, text = classify_failure(error), hide(str(error))
        if failure is not None:
            return replace(failure, text=hide(failure.text))
        return ModelFailure("rejected", text) if text != str(error) else None

    def wait_after(self, failure: ModelFailure, error: Exception) -> float:
        """Return the seconds to wait before `request`, which may have a new model, is tried again.

        Raises:
            ModelError: The failure, when there is nothing left to try.
        """
        wait_s = self._pause(failure)
        if wait_s is not None:
            self.number += 1
            self.last_wait_s = wait_s
            self._announce(failure, wait_s, f"Trying again in {wait_s:.0f} s." if wait_s >= 1 else "Trying again.")
            return wait_s
        fallback = next(self.fallbacks, None)
        if fallback is None:
            raise error if is_public_error(error, failure) else failure.to_error() from error
        self.request = self.request.override(model=fallback)
        self.number, self.last_wait_s = 1, 0.0
        self._announce(failure, 0.0, "Trying another model.")
        return 0.0

    def _pause(self, failure: ModelFailure) -> float | None:
        """Return the delay before a retry with the same model, or None if a retry is useless."""
        if not failure.is_transient or self.number >= self.settings.retry_max_attempts:
            return None
        if failure.retry_after_s is not None:
            return failure.retry_after_s if failure.retry_after_s <= MAX_WAIT_S else None
        # Decorrelated jitter: each pause is drawn from a range that grows with the one before.
        base_s, cap_s = self.settings.retry_base_delay_ms / 1000, self.settings.retry_cap_delay_ms / 1000
        return min(cap_s, self.between(base_s, max(base_s, self.last_wait_s * 3)))

    def _announce(self, failure: ModelFailure, wait_s: float, what_next: str) -> None:
        logger.warning("model call failed (%s): %s; %s", failure.reason, failure.text, what_next.lower())
        emit_retry_event(
            self.request,
            attempt=self.number,
            max_attempts=self.settings.retry_max_attempts,
            wait_s=wait_s,
            reason=failure.reason,
            message=f"{EXPLANATIONS[failure.reason]} {what_next}",
        )


def is_public_error(error: Exception, failure: ModelFailure) -> bool:
    """Return whether an error is one of ours and has no secrets."""
    return isinstance(error, ModelError) and str(error) == failure.text


EXPLANATIONS = {
    "rate_limited": "The model asks to slow down.",
    "unavailable": "The model could not be reached.",
    "timeout": "The model stayed silent.",
    "stream_cut": "The answer broke off.",
    "quota": "The account of this model is used up.",
    "auth": "The model did not accept the credentials.",
    "unknown_model": "The provider does not have this model.",
    "too_long": "The request is too long for this model.",
    "rejected": "The model refused the request.",
}
