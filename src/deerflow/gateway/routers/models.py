"""/models and /starters"""

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.agents.pool import ModelCard
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.models.keys import KeyStatus

router = APIRouter(tags=["models"])


class Model(BaseModel):
    """A model, as the API shows it: nothing of its address, and of its key only whether there is one."""

    name: str
    model: str
    display_name: str
    description: str | None
    supports_thinking: bool
    supports_reasoning_effort: bool
    supports_vision: bool
    scripted: bool
    key: KeyStatus

    @classmethod
    def of(cls, card: ModelCard) -> "Model":
        return cls.model_validate(card, from_attributes=True)


class TokenUsage(BaseModel):
    """Whether tokens are counted."""

    enabled: bool = True


class Models(BaseModel):
    """The models there are, and the one that answers unless another is named."""

    models: list[Model]
    default: str
    token_usage: TokenUsage = TokenUsage()


class Starter(BaseModel):
    """A request to begin with."""

    id: str
    title: str
    prompt: str
    is_plan_mode: bool


class Starters(BaseModel):
    """Requests to begin with."""

    starters: list[Starter]


@router.get("/models")
async def list_models(harness: TheHarness, who: Who) -> Models:
    """The models there are."""
    cards = harness.agents.model_cards()
    return Models(models=[Model.of(card) for card in cards], default=cards[0].name)


@router.get("/models/{name}")
async def get_model(name: str, harness: TheHarness, who: Who) -> Model:
    """One model."""
    return Model.of(harness.agents.model_card(name))


@router.get("/starters")
async def list_starters(harness: TheHarness, who: Who) -> Starters:
    """Requests that show what can be done."""
    skills = await harness.skills.list(who.user_id)
    found = await asyncio.to_thread(harness.agents.starters, [skill.name for skill in skills.enabled])
    return Starters(starters=[Starter.model_validate(starter, from_attributes=True) for starter in found])
