"""`memory:` — long-term memory."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from deerflow.config.sections.base import Section, check_object_path, make_error

LEDGER_STORAGE = "deerflow.memory.storage:LedgerStorage"


class MemoryConfig(Section):
    """Extraction, storage and injection of facts about users."""

    enabled: bool = Field(default=True, description="Enable memory.")
    mode: Literal["automatic", "tool"] = Field(
        default="automatic",
        description="automatic: facts are extracted from conversations; tool: only the agent's memory tools add facts.",
    )
    debounce_seconds: float = Field(
        default=30,
        ge=0,
        le=3600,
        strict=False,
        description="Seconds without activity before facts are extracted from a thread.",
    )
    model_name: str | None = Field(default=None, description="Model that extracts facts; null: the default model.")
    timeout_seconds: float = Field(default=120, gt=0, le=600, strict=False, description="Timeout in seconds.")
    max_facts: int = Field(default=100, ge=10, le=100_000, description="Maximum number of facts.")
    fact_confidence_threshold: float = Field(
        default=0.7, ge=0, le=1, strict=False, description="Minimum confidence of an extracted fact."
    )
    injection_enabled: bool = Field(default=True, description="Inject memory at the start of threads.")
    max_injection_tokens: int = Field(default=2000, ge=100, le=32_000, description="Maximum tokens injected.")
    correction_tokens: int = Field(
        default=500, ge=0, le=8000, description="Part of these tokens that is reserved for corrections."
    )
    storage_class: str = Field(default=LEDGER_STORAGE, description='Storage class, as "module:Class".')
    storage_path: str | None = Field(
        default=None,
        min_length=1,
        description="JSON file with the memory, which may be edited; relative to the state directory. null: no file.",
    )
    forget_with_thread: bool = Field(
        default=False, description="Delete facts together with the thread they were extracted from."
    )

    @field_validator("storage_class")
    @classmethod
    def _check_storage_class(cls, path: str) -> str:
        return check_object_path(path, "module:Class", LEDGER_STORAGE)

    @model_validator(mode="after")
    def _check_correction_tokens(self) -> "MemoryConfig":
        if self.correction_tokens > self.max_injection_tokens:
            raise make_error("correction_tokens must not be more than max_injection_tokens")
        return self

    @model_validator(mode="after")
    def _check_storage(self) -> "MemoryConfig":
        if self.storage_path is not None and self.storage_class != LEDGER_STORAGE:
            raise make_error("storage_path and storage_class exclude each other; remove one of them")
        return self

    @property
    def is_extraction_enabled(self) -> bool:
        """Return True if facts are extracted from conversations."""
        return self.enabled and self.mode == "automatic"
