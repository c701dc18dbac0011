"""`guardrails:` — who is asked before a tool is called."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from deerflow.config.section import Section, refusal


class GuardrailProviderConfig(Section):
    """The class that decides."""

    use: str = Field(description='The provider class, as "module:Class".')
    config: Mapping[str, Any] = Field(default_factory=dict, description="What the class is made with.")


class GuardrailsConfig(Section):
    """Whether tool calls are checked, and what happens when they cannot be."""

    enabled: bool = Field(default=False, description="Whether every tool call is checked before it is made.")
    fail_closed: bool = Field(default=True, description="Whether a call is refused when the check itself fails.")
    provider: GuardrailProviderConfig | None = Field(default=None, description="What checks the calls.")

    @model_validator(mode="after")
    def _somebody_decides(self) -> Self:
        if self.enabled and self.provider is None:
            raise refusal(type(self).__name__, {("provider",): "guardrails are enabled, so say what checks the calls"})
        return self
