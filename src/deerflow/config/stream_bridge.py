"""`stream_bridge:` — how the readers of a run learn that there is more to read."""

from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from deerflow.config.section import Section, objection, refusal

SCHEMES = ("redis://", "rediss://", "unix://")


class StreamBridgeConfig(Section):
    """Within one process, or through Redis among several on one database."""

    needs_restart: ClassVar[bool] = True

    type: Literal["memory", "redis"] = Field(
        default="memory", description="`redis` when several processes share one database."
    )
    redis_url: str | None = Field(default=None, description="Where Redis is: `redis://…`, `rediss://…` or `unix://…`.")

    @field_validator("redis_url")
    @classmethod
    def _leads_to_redis(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(SCHEMES):
            raise objection("must begin with 'redis://', 'rediss://' or 'unix://'")
        return url

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.type == "redis" and self.redis_url is None:
            raise refusal(
                type(self).__name__,
                {("redis_url",): "is needed for type: redis, for instance 'redis://127.0.0.1:6379/0'"},
            )
        return self
