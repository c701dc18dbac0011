"""Sections `memory`, `projects` and `knowledge`."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from deerflow.config.sections.base import Section, check_object_path, make_error


class ProjectsConfig(Section):
    """Limits of projects."""

    max_files: int = Field(default=5000, ge=1, le=100_000, description="Maximum files of a project.")
    max_mb: int = Field(default=4096, ge=1, description="Maximum megabytes of the files of a project.")


EmbeddingProvider = Literal["openai", "minilm", "wordllama"]
MINILM = "minilm"
WORDLLAMA = "wordllama"
LOCAL_PROVIDERS = (MINILM, WORDLLAMA)
"""Models on this machine."""


class EmbeddingConfig(Section):
    """Embedding model, for search by meaning."""

    provider: EmbeddingProvider = Field(
        default="openai",
        description="openai: an OpenAI-compatible API; minilm: a sentence model on this machine; wordllama: vectors of "
        "words on this machine. The guide about projects says how to install them.",
    )
    base_url: str | None = Field(
        default=None, description="Base URL of the API, for example `http://127.0.0.1:11434/v1`."
    )
    model: str | None = Field(
        default=None, min_length=1, max_length=255, description="Name of the model at the provider of the API."
    )
    api_key: str | None = Field(default=None, description="API key; usually `$NAME` of an environment variable.")
    batch_size: int = Field(default=32, ge=1, le=512, description="Passages per request.")
    timeout_seconds: float = Field(default=30.0, gt=0, description="Maximum seconds per request.")

    @model_validator(mode="after")
    def _check_api(self) -> Self:
        given = {"base_url": self.base_url, "model": self.model, "api_key": self.api_key}
        if self.provider == "openai" and (missing := [key for key in ("base_url", "model") if given[key] is None]):
            raise make_error(f"{' and '.join(missing)} missing; or write provider: {MINILM}")
        if self.provider in LOCAL_PROVIDERS and any(given.values()):
            raise make_error(f"provider: {self.provider} takes no base_url, model or api_key")
        return self


class KnowledgeConfig(Section):
    """Search in project files."""

    enabled: bool = Field(default=True, description="Index the files of projects.")
    seconds: float = Field(default=120.0, gt=0, description="Maximum seconds to read a batch of files.")
    memory_mb: int = Field(default=1024, ge=64, description="Maximum megabytes of memory to read a batch of files.")
    batch_files: int = Field(default=64, ge=1, le=256, description="Files that are read by one process.")
    embedding: EmbeddingConfig | None = Field(
        default=None, description="Embedding model; null: passages are found by their words only."
    )


LEDGER_STORAGE = "deerflow.memory.service:LedgerStorage"


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
