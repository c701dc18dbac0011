"""The models there are."""

from dataclasses import asdict
from typing import Any

from deerflow.client.faces import Session


async def list_models(session: Session) -> dict[str, Any]:
    """The models there are, and the default."""
    cards = session.harness.agents.model_cards()
    counted = {"enabled": True}
    return {"models": [asdict(card) for card in cards], "default": cards[0].name, "token_usage": counted}


async def get_model(session: Session, name: str) -> dict[str, Any]:
    """One model.

    Raises:
        NotFound: there is no such model.
    """
    return asdict(session.harness.agents.model_card(name))
