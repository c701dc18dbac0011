"""`suggestions:` — follow-up questions that are offered after an answer."""

from pydantic import Field

from deerflow.config.section import Section


class SuggestionsConfig(Section):
    """Whether follow-up questions are thought of, and by whom."""

    enabled: bool = Field(default=True, description="Whether there are any.")
    max_suggestions: int = Field(default=3, ge=1, le=5, description="How many there are at most.")
    model_name: str | None = Field(default=None, description="Who thinks of them; the model of the thread when absent.")
    timeout_seconds: float = Field(default=20, gt=0, le=120, strict=False, description="How long that may take.")
