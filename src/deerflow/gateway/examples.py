"""Examples in the OpenAPI document. Each of them works: a test sends them all."""

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
PERMISSION = "0c0ffee0f1a2b3c4"
SNAPSHOT = "1f0a3c5e7d424b1a80060c0ffee0babe1f0a3c5e7d424b1a80060c0ffee0babe"
CONNECTION = "1f0a3c5e-7d42-4b1a-8008-0c0ffee0c0de"
SESSION = "1f0a3c5e-7d42-4b1a-8011-0c0ffee05e55"
API_TOKEN_ID = "1f0a3c5e-7d42-4b1a-8012-0c0ffee070ce"
IDENTITY = "1f0a3c5e-7d42-4b1a-8015-0c0ffee01d00"
PASSKEY_ID = "1f0a3c5e-7d42-4b1a-8016-0c0ffee0ca5e"
INVITATION = "1f0a3c5e-7d42-4b1a-8013-0c0ffee01417"
HOOK = "1f0a3c5e-7d42-4b1a-8019-0c0ffee0400c"
USER = "c0ffee7d424b1a80140c0ffee0face00"
PROJECT = "1f0a3c5e-7d42-4b1a-8009-0c0ffee0beac"
TEAM = "1f0a3c5e-7d42-4b1a-8017-0c0ffee07ea0"
GRANT = "1f0a3c5e-7d42-4b1a-8018-0c0ffee06a00"
PROJECT_FILE = "1f0a3c5e-7d42-4b1a-8010-0c0ffee0ace0"
TOKEN = "Zk3mP0wq7uX2bVd9sYt5rLhC8nJf1aEg4iKoQvT6yBM"
REVISION = "1f0a3c5e7d424b1a80070c0ffee0feed1f0a3c5e"
PIN_HASH = "c0ffee" + "0" * 58
"""Ids that the server generates; replace them by your own when you try the examples."""
CONNECTED_MODEL, MODEL_ADDRESS = "local-model", "http://127.0.0.1:9/v1"
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
        "team_id": TEAM,
        "grant_id": GRANT,
        "permission_id": PERMISSION,
        "fact_id": FACT,
        "/api/memory/summaries/{key}": "user.workContext",
        "snapshot_id": SNAPSHOT,
        "token": TOKEN,
        "connection_id": CONNECTION,
        "session_id": SESSION,
        "token_id": API_TOKEN_ID,
        "identity_id": IDENTITY,
        "passkey_id": PASSKEY_ID,
        "provider": "company",
        "invitation_id": INVITATION,
        "user_id": USER,
        "project_id": PROJECT,
        "file_id": PROJECT_FILE,
        "/api/saved-models/{name}": CONNECTED_MODEL,
        "/api/channels/{name}": "telegram",
        "external_id": "123456789",
        "hook_id": HOOK,
        "path": "mnt/user-data/outputs/report.md",
        "PUT /api/threads/{thread_id}/artifacts/{path}": "mnt/user-data/outputs/plan.md",
        "/api/threads/{thread_id}/previews/{path}": "mnt/user-data/outputs/page.html",
        "/api/shared/{token}/previews/{path}": "mnt/user-data/outputs/page.html",
        "/api/threads/{thread_id}/file-previews/{path}": "mnt/user-data/outputs/data.xlsx",
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
"""Example value of each path parameter, by its name, by its path, or by method and path where the name is ambiguous."""


def with_examples(*bodies: JsonValue) -> dict[str, JsonValue]:
    """Return the `json_schema_extra` of a model with example bodies."""
    return {"examples": list(bodies)}
