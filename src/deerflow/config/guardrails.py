"""`guardrails:` — who is asked before a tool is called."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from deerflow.config.section import Section


class GuardrailProviderConfig(Section):
    """The class that decides."""

    use: str = Field(description='The provider class, as "module:Class".')
    config: Mapping[str, Any] = Field(default_factory=dict, description="What the class is made with.")


class GuardrailsConfig(Section):
    """Whether tool calls are checked, and what happens when they cannot be."""

    enabled: bool = Field(default=True, description="Whether every tool call is checked before it is made.")
    fail_closed: bool = Field(default=True, description="Whether a call is refused when the check itself fails.")
    policy: str | None = Field(
        default=None,
        min_length=1,
        description="The file with the rules; policy.yaml beside config.yaml, if it is there.",
    )
    provider: GuardrailProviderConfig | None = Field(
        default=None, description="What checks the calls besides the policy."
    )
