"""What the server loads before anybody has asked anything."""

import subprocess
import sys

LATE = (
    "yaml",
    "h11",
    "alembic",
    "mcp",
    "openai",
    "aiohttp",
    "httpx",
    "rich",
    "langchain.agents",
    "langgraph.graph",
    "langgraph.pregel",
    "langgraph.types",
    "langgraph_sdk",
    "langsmith",
    "deerflow.agent_support.thread_state",
    "deerflow.agents.factory",
    "deerflow.agents.lead_agent.agent",
    "deerflow.harness.run_context",
    "deerflow.mcp.catalog",
    "deerflow.mcp.servers",
    "deerflow.runtime.runs.tool_ledger",
    "deerflow.runtime.runs.worker",
    "deerflow.services.artifacts",
    "deerflow.services.export",
    "deerflow.services.prompt_assistance",
    "deerflow.skills.scanner",
    "deerflow.skills.authoring.custom_skills",
    "deerflow.subagents.executor",
    "deerflow.tools.assembly",
)


def test_what_most_servers_never_need_is_not_loaded_at_their_start() -> None:
    listing = "import sys, deerflow.cli.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True)

    assert not set(LATE) & set(done.stdout.split())
