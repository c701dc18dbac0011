"""`memory:` — what agents remember of the people they work for."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from deerflow.config.section import Section, object_path, objection

LEDGER_STORAGE = "deerflow.memory.storage:LedgerStorage"


class MemoryConfig(Section):
    """Whether agents remember, what they learn and how much of it they are told."""

    enabled: bool = Field(default=True, description="Whether anything is remembered, and told to agents.")
    mode: Literal["automatic", "tool"] = Field(
        default="automatic",
        description="Who decides what is remembered: a model that reads along, or the agent itself by its tools.",
    )
    debounce_seconds: float = Field(
        default=30,
        ge=0,
        le=3600,
        strict=False,
        description="How long a thread must be quiet before it is learned from.",
    )
    model_name: str | None = Field(default=None, description="Who reads along; the default model when absent.")
    timeout_seconds: float = Field(default=120, gt=0, le=600, strict=False, description="How long that may take.")
    max_facts: int = Field(default=100, ge=10, le=100_000, description="How many facts are kept at most.")
    fact_confidence_threshold: float = Field(
        default=0.7, ge=0, le=1, strict=False, description="How sure the model must be of a fact that is kept."
    )
    injection_enabled: bool = Field(default=True, description="Whether threads begin with what is remembered.")
    max_injection_tokens: int = Field(default=2000, ge=100, le=32_000, description="How much of it they are told.")
    correction_tokens: int = Field(
        default=500, ge=0, le=8000, description="How much of that is set aside for corrections."
    )
    storage_class: str = Field(default=LEDGER_STORAGE, description='Where memory is kept, as "module:Class".')
    forget_with_thread: bool = Field(
        default=False, description="Whether what was learned from a thread goes when the thread is deleted."
    )

    @field_validator("storage_class")
    @classmethod
    def _is_a_path(cls, path: str) -> str:
        return object_path(path, "module:Class", LEDGER_STORAGE)

    @model_validator(mode="after")
    def _corrections_fit(self) -> "MemoryConfig":
        if self.correction_tokens > self.max_injection_tokens:
            raise objection("correction_tokens must not be more than max_injection_tokens")
        return self

    @property
    def learns(self) -> bool:
        """Whether conversations are read by a model that remembers."""
        return self.enabled and self.mode == "automatic"
