"""`retention:` — how long threads are kept."""

from pydantic import Field

from deerflow.config.section import Section


class RetentionConfig(Section):
    """How long threads are kept."""

    days: float | None = Field(
        default=None, gt=0, description="After so many days without activity a thread is deleted; null = never."
    )
