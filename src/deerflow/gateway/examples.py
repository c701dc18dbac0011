"""What the description of the API shows as examples. Each of them works: a test sends them all."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic.types import JsonValue

THREAD, AGENT, MODEL = "example", "helper", "demo"
RUN = "1f0a3c5e-7d42-4b1a-8000-0c0ffee0beef"
CHECKPOINT = "1f0a3c5e-7d42-6b1a-8001-5ca1ab1e0000"
"""The server makes these two; whoever tries the examples puts in its own."""

PATH_EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "thread_id": THREAD,
        "run_id": RUN,
        "checkpoint_id": CHECKPOINT,
        "path": "mnt/user-data/outputs/report.md",
        "assistant_id": AGENT,
        "/api/agents/{name}": AGENT,
        "/api/models/{name}": MODEL,
    }
)
"""A value for each part of a path, by its name, or by the whole path where the name alone does not tell."""


def shown_as(*bodies: JsonValue) -> dict[str, JsonValue]:
    """The `json_schema_extra` of a body that may look like these."""
    return {"examples": list(bodies)}
