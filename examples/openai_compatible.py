"""Models: connect an OpenAI-compatible endpoint. A scripted server stands in for the provider."""

import asyncio

from deerflow.client import DeerFlowClient
from deerflow.testing import RateLimited, ScriptedServer


async def main() -> None:
    """Ask a question; the first request is rate limited and repeated."""
    async with ScriptedServer([RateLimited(retry_after=0), "Four."]) as server:
        model = {
            "name": "local",
            "use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel",
            "model": "scripted",
            "base_url": server.base_url,
        }
        # The shape of config.yaml; no file is needed.
        async with DeerFlowClient({"models": [model]}) as client:
            print("Answer:", await client.achat("2 + 2?"))
        print("Requests:", len(server.requests))


asyncio.run(main())
