"""`logging:` — how the log is written."""

from typing import ClassVar, Literal

from pydantic import Field

from deerflow.config.section import Section

LogFormat = Literal["text", "json"]


class LoggingConfig(Section):
    """How the log is written; how much of it, `log_level` says."""

    needs_restart: ClassVar[bool] = True

    format: LogFormat = Field(default="text", description="text for people, or one JSON object per line for programs.")
