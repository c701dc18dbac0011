"""Model recovery: retries failed model calls, then falls back to other models."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agent_support.model_failures import ModelFailure, classify_failure
from deerflow.agent_support.replies import AsyncModelHandler, ModelHandler, Reply, Request, emit_retry_event
from deerflow.agent_support.thread_state import ThreadState
from deerflow.config.sections.runs import LlmCallConfig
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import ModelError

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
