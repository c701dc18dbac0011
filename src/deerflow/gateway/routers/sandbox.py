"""/sandbox"""

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.sandbox.sandbox_provider import Tier

router = APIRouter(tags=["sandbox"])


class SandboxInfo(BaseModel):
    """How far commands are kept from the rest of the machine."""

    tier: Tier
    detail: str
    problem: str | None
    remedy: str | None


@router.get("/sandbox")
async def get_sandbox(harness: TheHarness, who: Who) -> SandboxInfo:
    """How far commands are isolated here."""
    return SandboxInfo.model_validate(harness.sandbox_report, from_attributes=True)
