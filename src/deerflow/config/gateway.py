"""`gateway:` — what requests may look like, and who may send them."""

from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from deerflow.config.section import Section, objection


class GatewayConfig(Section):
    """The limits of requests, and the web sites that may make them."""

    needs_restart: ClassVar[bool] = True

    public_url: str | None = Field(
        default=None,
        description="The address people open it at, as https://host; where logins elsewhere send them back to.",
    )
    cors_origins: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Other web sites whose pages may use this server, as https://host; none by default.",
    )
    max_body_mb: float = Field(
        default=20.0, gt=0, le=1024, description="The largest body of a request; uploads have limits of their own."
    )
    body_idle_seconds: float = Field(
        default=15.0, gt=0, description="After so many seconds without a byte of its body a request is given up."
    )
    body_total_seconds: float = Field(
        default=120.0, gt=0, description="So long may a body take altogether; for uploads only pauses count."
    )
    min_free_disk_mb: float = Field(
        default=200.0, ge=0, description="With less room on the disk, /ready says that the server is not."
    )

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, url: str | None) -> str | None:
        return None if url is None else checked_origin(url)

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(checked_origin, origins))


def checked_origin(text: str) -> str:
    """The address of a web site as browsers write it, if it is one."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or text != f"{parts.scheme}://{parts.netloc}":
        raise objection(f"{text!r} is not an origin; write https://host or https://host:port, without a path")
    return text
