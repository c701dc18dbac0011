"""`tool_output:` — how much of a tool's result the model gets to see at once."""

from pydantic import Field

from deerflow.config.section import Section


class ToolOutputConfig(Section):
    """Results above the limit go to a file; the model sees both ends and can read the rest."""

    enabled: bool = Field(default=True, description="Whether large results are put into files.")
    externalize_min_chars: int = Field(default=12_000, ge=500, description="Longer results go to a file.")
    preview_head_chars: int = Field(default=2000, ge=0, description="How much of the beginning is shown.")
    preview_tail_chars: int = Field(default=1000, ge=0, description="How much of the end is shown.")
    fallback_max_chars: int = Field(default=30_000, ge=500, description="Longer results are cut if no file can be had.")
    fallback_head_chars: int = Field(default=8000, ge=0, description="How much of the beginning is then left.")
    fallback_tail_chars: int = Field(default=3000, ge=0, description="How much of the end is then left.")
    exempt_tools: tuple[str, ...] = Field(
        default=("read_file",), strict=False, description="Tools whose results are never touched."
    )
    tool_overrides: dict[str, int] = Field(
        default_factory=dict, description="Another `externalize_min_chars` for single tools, by name."
    )
