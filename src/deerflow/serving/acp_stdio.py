"""`deerflow acp`: the lead agent for an editor, on standard input and output."""

from functools import partial
from pathlib import Path
from typing import cast

from acp import Agent, run_agent

from deerflow.config.source import open_source
from deerflow.serving.acp_agent import EditorAgent
from deerflow.serving.acp_projects import Projects
from deerflow.serving.standard_streams import claim_output, open_streams


async def serve_acp(config: Path | None, read_only: bool) -> None:
    """Serve the local person until the editor closes the pipe."""
    reader, writer = await open_streams(claim_output())
    async with Projects(partial(open_source, config), read_only=read_only) as projects:
        agent = EditorAgent(projects)
        try:
            await run_agent(cast(Agent, agent), writer, reader)
        finally:
            await agent.aclose()
