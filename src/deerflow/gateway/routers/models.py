"""/models and /starters"""

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.config.models import ModelConfig
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.harness import is_scripted

router = APIRouter(tags=["models"])


class Model(BaseModel):
    """A model, as the API shows it: nothing of its keys or address."""

    name: str
    model: str
    display_name: str
    description: str | None
    supports_thinking: bool
    supports_reasoning_effort: bool
    supports_vision: bool
    scripted: bool

    @classmethod
    def of(cls, config: ModelConfig) -> "Model":
        return cls(
            name=config.name,
            model=config.model,
            display_name=config.display_name or config.name,
            description=config.description,
            supports_thinking=config.supports_thinking,
            supports_reasoning_effort=config.supports_reasoning_effort,
            supports_vision=config.supports_vision,
            scripted=is_scripted(config),
        )


class Models(BaseModel):
    """The models there are, and the one that answers unless another is named."""

    models: list[Model]
    default: str


class Starter(BaseModel):
    """A request to begin with."""

    id: str
    title: str
    prompt: str


class Starters(BaseModel):
    """Requests to begin with."""

    starters: list[Starter]


@router.get("/models")
async def list_models(harness: TheHarness, who: Who) -> Models:
    """The models there are."""
    catalog = harness.agents.catalog
    return Models(models=[Model.of(model) for model in catalog.models], default=catalog.default.name)


@router.get("/models/{name}")
async def get_model(name: str, harness: TheHarness, who: Who) -> Model:
    """One model."""
    return Model.of(harness.agents.catalog.find(name))


@router.get("/starters")
async def list_starters(harness: TheHarness, who: Who) -> Starters:
    """Requests that show what can be done."""
    return Starters(starters=[Starter(id=s.id, title=s.title, prompt=s.prompt) for s in harness.agents.starters()])
