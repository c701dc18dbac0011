"""`server:` — where the web page and the API are served."""

from typing import ClassVar

from pydantic import Field

from deerflow.config.section import Section


class ServerConfig(Section):
    """The address to listen on."""

    needs_restart: ClassVar[bool] = True

    host: str = Field(default="127.0.0.1", min_length=1, description="The address; by default this machine alone.")
    port: int = Field(default=2026, ge=0, le=65535, description="The port to listen on; 0 takes any free one.")
