"""/features: what is on in this server"""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.sandbox.sandbox_provider import Tier

router = APIRouter(tags=["features"])


class SandboxFeature(BaseModel):
    """What an agent can do with its computer."""

    tier: Tier
    runs_commands: bool
    network: str
    allow_host_bash: bool


class ModelsFeature(BaseModel):
    """What at least one of the models can do."""

    count: int
    thinking: bool
    vision: bool
    scripted_only: bool


class Features(BaseModel):
    """What is on in this server: parts it has and that are not switched off, its sandbox and its models."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "version": "0.1.0",
                "enabled": {"search": True, "suggestions": True, "memory": False},
                "sandbox": {
                    "tier": "isolated",
                    "runs_commands": True,
                    "network": "none",
                    "allow_host_bash": False,
                },
                "models": {"count": 2, "thinking": True, "vision": False, "scripted_only": False},
            }
        }
    )

    version: str
    enabled: dict[str, bool]
    sandbox: SandboxFeature
    models: ModelsFeature


@router.get("/features", summary="What is on in this server")
async def get_features(harness: TheHarness, who: Who) -> Features:
    """What this server offers, so that a page or a program need not try."""
    return Features.model_validate(harness.features(), from_attributes=True)
