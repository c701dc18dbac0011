"""`title:` — how a thread gets its name."""

from pydantic import Field

from deerflow.config.section import Section


class TitleConfig(Section):
    """Whether threads are named by themselves, and how long the name may be."""

    enabled: bool = Field(default=True, description="Whether a thread is named after its first exchange.")
    max_chars: int = Field(default=60, ge=10, le=200, description="How long the name may be.")
    max_words: int = Field(default=6, ge=1, le=20, description="How many words a model may take for it.")
    model_name: str | None = Field(
        default=None, description="The model that thinks of a name; without it, the first message is cut short."
    )
