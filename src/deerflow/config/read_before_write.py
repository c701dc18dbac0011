"""`read_before_write:` — whether an agent must have seen a file before it changes it."""

from pydantic import Field

from deerflow.config.section import Section


class ReadBeforeWriteConfig(Section):
    """Guards existing files against being changed unseen."""

    enabled: bool = Field(default=True, description="Whether a file must be read before it is changed.")
