"""`loop_detection:` — when a model that repeats itself is warned, and when it is stopped."""

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from deerflow.config.reading.problems import KeyPath
from deerflow.config.section import Section, refusal


class ToolFrequency(Section):
    """How often one tool may be called in a turn."""

    warn: int = Field(ge=1, description="From how many calls on the model is warned.")
    hard_limit: int = Field(ge=2, description="From how many calls on the turn is ended.")

    @model_validator(mode="after")
    def _warns_before_it_stops(self) -> Self:
        if self.hard_limit <= self.warn:
            raise refusal(type(self).__name__, {("hard_limit",): f"must be greater than warn ({self.warn})"})
        return self


class LoopDetectionConfig(Section):
    """What counts as going round in circles."""

    enabled: bool = Field(default=True, description="Whether loops are looked for.")
    warn_threshold: int = Field(default=3, ge=1, description="From how many equal replies on the model is warned.")
    hard_limit: int = Field(default=5, ge=2, description="From how many equal replies on the turn is ended.")
    window_size: int = Field(default=20, ge=2, description="Among how many of the latest replies equals are counted.")
    tool_freq_warn: int = Field(default=30, ge=1, description="From how many calls of one tool on the model is warned.")
    tool_freq_hard_limit: int = Field(
        default=50, ge=2, description="From how many calls of one tool on the turn is ended."
    )
    tool_freq_overrides: Mapping[str, ToolFrequency] = Field(
        default_factory=dict, description="Other numbers for single tools, by their names."
    )

    def frequency_of(self, tool: str) -> ToolFrequency:
        """How often `tool` may be called in a turn."""
        common = ToolFrequency(warn=self.tool_freq_warn, hard_limit=self.tool_freq_hard_limit)
        return self.tool_freq_overrides.get(tool, common)

    @model_validator(mode="after")
    def _warns_before_it_stops(self) -> Self:
        sentences: dict[KeyPath, str] = {
            (limit,): f"must be greater than {warn} ({getattr(self, warn)})"
            for warn, limit in (("warn_threshold", "hard_limit"), ("tool_freq_warn", "tool_freq_hard_limit"))
            if getattr(self, limit) <= getattr(self, warn)
        }
        if self.window_size < self.hard_limit:
            sentences[("window_size",)] = f"must be at least hard_limit ({self.hard_limit})"
        if sentences:
            raise refusal(type(self).__name__, sentences)
        return self
