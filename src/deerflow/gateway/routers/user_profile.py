"""/user-profile: what people say about themselves"""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(tags=["user profile"])


class UserProfile(BaseModel):
    """What somebody says about themselves; every agent of theirs is told."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"content": "I teach physics in Berlin. Metric units, please."}}
    )

    content: Annotated[str, Field(max_length=100_000)]


@router.get("/user-profile", summary="What you say about yourself")
async def get_profile(harness: TheHarness, who: Who) -> UserProfile:
    """What you say about yourself; empty when you have said nothing."""
    return UserProfile(content=await harness.resources.profiles.get(who))


@router.put("/user-profile", summary="Say something about yourself")
async def put_profile(body: UserProfile, harness: TheHarness, who: Who) -> UserProfile:
    """Say something about yourself, which your agents are told from their next answer on; an empty text removes it."""
    return UserProfile(content=await harness.resources.profiles.put(who, body.content))
