"""`sharing:` — whether threads can be read by others."""

from pydantic import Field

from deerflow.config.section import Section


class SharingConfig(Section):
    """Whether people may make links under which anybody reads a thread, without any rights of theirs."""

    enabled: bool = Field(default=False, description="Whether links can be made, and whether those there are work.")
    max_days: int | None = Field(
        default=None, ge=1, le=3650, description="How many days a link works at most; null = until it is taken back."
    )
