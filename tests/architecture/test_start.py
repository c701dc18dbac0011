"""What the server loads before anybody has asked anything."""

import subprocess
import sys

LATE = (
    "yaml",
    "h11",
    "alembic",
    "mcp",
    "openai",
    "deerflow.agents.lead_agent.agent",
    "deerflow.harness.run_context",
    "deerflow.mcp.catalog",
    "deerflow.mcp.servers",
    "deerflow.services.artifacts",
    "deerflow.services.export",
    "deerflow.skills.scanner",
    "deerflow.skills.authoring.custom_skills",
    "deerflow.tools.assembly",
)


def test_what_most_servers_never_need_is_not_loaded_at_their_start() -> None:
    listing = "import sys, deerflow.cli.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True)

    assert not set(LATE) & set(done.stdout.split())
