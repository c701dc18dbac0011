"""`runs:` — how far one run may go."""

from pydantic import Field

from deerflow.config.section import Section


class RunsConfig(Section):
    """The limits of a single run."""

    timeout_seconds: float = Field(default=3600.0, gt=0, description="After how many seconds a run is ended.")
    recursion_limit: int = Field(default=100, ge=1, le=1000, description="How many steps of the graph a run may take.")
