"""Sections for runs: limits, budget, retention, retries, loop detection, titles and suggestions."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from deerflow.config.loader.document import KeyPath
from deerflow.config.sections.base import Section, make_validation_error
from deerflow.config.sections.models import to_decimal


class RunsConfig(Section):
    """Limits of runs."""

    timeout_seconds: float | None = Field(default=21_600.0, gt=0, description="Run timeout in seconds; null: no limit.")
    recursion_limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of graph steps of a run.")
    drain_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="Seconds to wait for active runs at shutdown; the others are resumed after the restart.",
    )


Amount = Annotated[Decimal, BeforeValidator(to_decimal), Field(gt=0, max_digits=12, decimal_places=6)]


class BudgetConfig(Section):
    """Spending limit of every run; a request can only lower it."""

    max_tokens: int | None = Field(default=None, ge=1000, description="Maximum input and output tokens of a run.")
    max_cost: Amount | None = Field(
        default=None, description="Maximum cost of a run; requires `pricing` for every model."
    )
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3,8}$", description="Currency of `max_cost`.")


class RetentionConfig(Section):
    """Retention of threads."""

    days: float | None = Field(
        default=None, gt=0, description="Days of inactivity before a thread is deleted; null: never."
    )
    temporary_hours: float = Field(
        default=24.0, gt=0, le=720, description="Hours of inactivity before a temporary thread is deleted."
    )


class LlmCallConfig(Section):
    """Retry policy for model calls that fail temporarily."""

    retry_max_attempts: int = Field(default=3, ge=1, le=10, description="Maximum number of attempts per model.")
    retry_base_delay_ms: int = Field(default=1000, ge=0, description="Initial delay in milliseconds.")
    retry_cap_delay_ms: int = Field(default=8000, ge=0, description="Maximum delay in milliseconds.")

    @model_validator(mode="after")
    def _check_delays(self) -> Self:
        if self.retry_cap_delay_ms < self.retry_base_delay_ms:
            message = f"must not be less than retry_base_delay_ms ({self.retry_base_delay_ms})"
            raise make_validation_error(type(self).__name__, {("retry_cap_delay_ms",): message})
        return self


class ToolFrequency(Section):
    """Limits of calls of one tool in a turn."""

    warn: int = Field(ge=1, description="Number of calls at which the model is warned.")
    hard_limit: int = Field(ge=2, description="Number of calls at which the turn is ended.")

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.hard_limit <= self.warn:
            raise make_validation_error(
                type(self).__name__, {("hard_limit",): f"must be greater than warn ({self.warn})"}
            )
        return self


class LoopDetectionConfig(Section):
    """Detection of repeated replies and tool calls."""

    enabled: bool = Field(default=True, description="Enable loop detection.")
    warn_threshold: int = Field(default=3, ge=1, description="Number of equal replies at which the model is warned.")
    hard_limit: int = Field(default=5, ge=2, description="Number of equal replies at which the turn is ended.")
    window_size: int = Field(default=20, ge=2, description="Number of latest replies that are compared.")
    tool_freq_warn: int = Field(
        default=30, ge=1, description="Number of calls of one tool at which the model is warned."
    )
    tool_freq_hard_limit: int = Field(
        default=50, ge=2, description="Number of calls of one tool at which the turn is ended."
    )
    tool_freq_overrides: Mapping[str, ToolFrequency] = Field(
        default_factory=dict, description="Limits for single tools, by name."
    )

    def get_frequency(self, tool: str) -> ToolFrequency:
        """Return the call limits of `tool`."""
        common = ToolFrequency(warn=self.tool_freq_warn, hard_limit=self.tool_freq_hard_limit)
        return self.tool_freq_overrides.get(tool, common)

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        messages: dict[KeyPath, str] = {
            (limit,): f"must be greater than {warn} ({getattr(self, warn)})"
            for warn, limit in (("warn_threshold", "hard_limit"), ("tool_freq_warn", "tool_freq_hard_limit"))
            if getattr(self, limit) <= getattr(self, warn)
        }
        if self.window_size < self.hard_limit:
            messages[("window_size",)] = f"must be at least hard_limit ({self.hard_limit})"
        if messages:
            raise make_validation_error(type(self).__name__, messages)
        return self


class TitleConfig(Section):
    """Generation of thread titles."""

    enabled: bool = Field(default=True, description="Generate a title after the first exchange.")
    max_chars: int = Field(default=60, ge=10, le=200, description="Maximum characters of a title.")
    max_words: int = Field(default=6, ge=1, le=20, description="Maximum words of a generated title.")
    model_name: str | None = Field(default=None, description="Model that writes the title; null: the model of the run.")


class SuggestionsConfig(Section):
    """Suggested follow-up questions."""

    enabled: bool = Field(default=True, description="Enable suggestions.")
    max_suggestions: int = Field(default=3, ge=1, le=5, description="Maximum number of suggestions.")
    model_name: str | None = Field(default=None, description="Model that writes them; null: the model of the thread.")
    timeout_seconds: float = Field(default=20, gt=0, le=120, strict=False, description="Timeout in seconds.")


class InputPolishConfig(Section):
    """Rewriting of the user's prompt before it is sent."""

    enabled: bool = Field(default=True, description="Enable rewriting.")
    max_chars: int = Field(default=4000, ge=1, le=100_000, description="Maximum characters of the prompt.")
    model_name: str | None = Field(default=None, description="Model that rewrites it; null: the model of the thread.")
    timeout_seconds: float = Field(default=20, gt=0, le=120, strict=False, description="Timeout in seconds.")
