"""`summarization:` — when a long conversation is shortened for the model."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from deerflow.config.section import Section, objection


class ContextSize(Section):
    """A size of a conversation: so many tokens, so many messages, or a part of what the model reads at most."""

    type: Literal["tokens", "messages", "fraction"] = Field(description="What is counted.")
    value: float = Field(gt=0, strict=False, description="How many; for `fraction` a part of 1.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.type == "fraction" and self.value > 1:
            raise objection("a fraction is at most 1, for instance 0.8")
        if self.type != "fraction" and self.value != int(self.value):
            raise objection(f"a number of {self.type} is a whole number")
        return self


class SummarizationConfig(Section):
    """When what was said long ago is replaced by a summary, and who writes it."""

    enabled: bool = Field(default=True, description="Whether long conversations are shortened.")
    model_name: str | None = Field(default=None, description="Who writes the summary; the run's model when absent.")
    trigger: tuple[ContextSize, ...] = Field(
        default=(ContextSize(type="fraction", value=0.8), ContextSize(type="messages", value=300)),
        strict=False,
        min_length=1,
        description="A conversation is shortened when it reaches any of these.",
    )
    keep: ContextSize = Field(
        default=ContextSize(type="messages", value=20), description="How much of its end stays as it is."
    )
    trim_tokens_to_summarize: int = Field(
        default=16_000, ge=500, description="How much the writer of the summary gets to read."
    )
    summary_prompt: str | None = Field(default=None, min_length=1, description="What the writer is told.")

    @field_validator("trigger", mode="before")
    @classmethod
    def _may_be_one(cls, trigger: object) -> object:
        return [trigger] if isinstance(trigger, Mapping) else trigger

    @model_validator(mode="after")
    def _keeps_less_than_triggers(self) -> Self:
        if any(size.type == self.keep.type and self.keep.value >= size.value for size in self.trigger):
            raise objection(f"`keep` must be below the trigger of the same type, not {self.keep.value:g}")
        return self
