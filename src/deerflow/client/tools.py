"""What agents can use, and what is asked before."""

import asyncio
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER


async def list_tools(session: Session) -> list[dict[str, Any]]:
    """The tools of the lead agent: built in, configured, and of the MCP servers that are ready."""
    cards = await asyncio.to_thread(session.harness.agents.tool_cards, LOCAL_USER.user_id)
    return [asdict(card) for card in cards]


async def get_policy(session: Session) -> dict[str, Any]:
    """The rules about calls of tools, in the order in which they are looked at."""
    card = await asyncio.to_thread(session.harness.agents.policy_card)
    shown: dict[str, Any] = to_jsonable_python(asdict(card))
    return shown
