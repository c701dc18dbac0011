"""`runs:` — how far one run may go, and how long the server waits for it."""

from pydantic import Field

from deerflow.config.section import Section


class RunsConfig(Section):
    """The limits of runs."""

    timeout_seconds: float = Field(default=3600.0, gt=0, description="After how many seconds a run is ended.")
    recursion_limit: int = Field(default=100, ge=1, le=1000, description="How many steps of the graph a run may take.")
    drain_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="So long a server that is to stop lets runs end; the rest go on in the next.",
    )
