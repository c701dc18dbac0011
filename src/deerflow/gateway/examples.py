"""What the description of the API shows as examples. Each of them works: a test sends them all."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic.types import JsonValue

THREAD, AGENT, MODEL, SKILL = "example", "helper", "demo", "tidy-up"
NEW_SKILL, PACK = "note-taking", "/mnt/user-data/outputs/packed.skill"
SKILL_TEXT = "---\nname: {name}\ndescription: Puts things in order.\n---\n# How\n\nBegin with what is small.\n"
RUN = "1f0a3c5e-7d42-4b1a-8000-0c0ffee0beef"
CHECKPOINT = "1f0a3c5e-7d42-6b1a-8001-5ca1ab1e0000"
FEEDBACK = "1f0a3c5e-7d42-4b1a-8002-0c0ffee0cafe"
SHARE = "1f0a3c5e-7d42-4b1a-8003-0c0ffee0f00d"
FACT = "fact_1f0a3c5e7d424b1a80040c0ffee0feed"
CHANGE = "1f0a3c5e-7d42-4b1a-8005-0c0ffee0dead"
TOKEN = "Zk3mP0wq7uX2bVd9sYt5rLhC8nJf1aEg4iKoQvT6yBM"
PIN_HASH = "c0ffee" + "0" * 58
"""The server makes these; whoever tries the examples puts in its own."""
MCP_SERVER, MCP_TOOL = "notes", "add_note"
MCP_ENTRY: dict[str, JsonValue] = {
    "type": "http",
    "url": "http://127.0.0.1:9/mcp",
    "description": "Keeps notes.",
    "oauth": {
        "grant_type": "authorization_code",
        "client_id": "deerflow",
        "authorization_url": "https://login.example.com/authorize",
        "token_url": "https://login.example.com/token",
    },
}

PATH_EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "thread_id": THREAD,
        "run_id": RUN,
        "checkpoint_id": CHECKPOINT,
        "feedback_id": FEEDBACK,
        "share_id": SHARE,
        "fact_id": FACT,
        "token": TOKEN,
        "path": "mnt/user-data/outputs/report.md",
        "PUT /api/threads/{thread_id}/artifacts/{path}": "mnt/user-data/outputs/plan.md",
        "/api/threads/{thread_id}/previews/{path}": "mnt/user-data/outputs/page.html",
        "/api/shared/{token}/previews/{path}": "mnt/user-data/outputs/page.html",
        "/api/threads/{thread_id}/thumbnails/{path}": "mnt/user-data/outputs/chart.png",
        "assistant_id": AGENT,
        "server": MCP_SERVER,
        "/api/agents/{name}": AGENT,
        "/api/models/{name}": MODEL,
        "/api/skills/{name}": SKILL,
        "/api/skills/custom/{name}": SKILL,
        "/api/skills/custom/{name}/files/{path}": "references/guide.md",
    }
)
"""A value for each part of a path, by its name, or by the whole path, or a method and it, where that does not tell."""


def shown_as(*bodies: JsonValue) -> dict[str, JsonValue]:
    """The `json_schema_extra` of a body that may look like these."""
    return {"examples": list(bodies)}
