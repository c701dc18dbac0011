"""`llm_call:` — how patiently a model is asked again."""

from typing import Self

from pydantic import Field, model_validator

from deerflow.config.section import Section, refusal


class LlmCallConfig(Section):
    """How often, and with which pauses, a model call that failed for the moment is made again."""

    retry_max_attempts: int = Field(default=3, ge=1, le=10, description="How often one model is asked at most.")
    retry_base_delay_ms: int = Field(default=1000, ge=0, description="The shortest pause, in milliseconds.")
    retry_cap_delay_ms: int = Field(default=8000, ge=0, description="The longest pause, in milliseconds.")

    @model_validator(mode="after")
    def _cap_is_not_below_base(self) -> Self:
        if self.retry_cap_delay_ms < self.retry_base_delay_ms:
            sentence = f"the longest pause is shorter than retry_base_delay_ms ({self.retry_base_delay_ms})"
            raise refusal(type(self).__name__, {("retry_cap_delay_ms",): sentence})
        return self
