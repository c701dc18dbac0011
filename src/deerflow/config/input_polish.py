"""`input_polish:` — better words for what somebody is about to ask."""

from pydantic import Field

from deerflow.config.section import Section


class InputPolishConfig(Section):
    """Whether requests can be rewritten before they are sent, and by whom."""

    enabled: bool = Field(default=True, description="Whether that is offered.")
    max_chars: int = Field(default=4000, ge=1, le=100_000, description="How long a request may be.")
    model_name: str | None = Field(default=None, description="Who rewrites it; the model of the thread when absent.")
    timeout_seconds: float = Field(default=20, gt=0, le=120, strict=False, description="How long that may take.")
