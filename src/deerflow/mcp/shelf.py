"""What servers offered when they were last asked, kept on disk so that the next start need not wait for them."""

import json
import logging
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from deerflow.config.files import replace_file
from deerflow.domain.errors import ConfigError
from deerflow.mcp.calls import Address
from deerflow.mcp.status import Listing, PromptCard, ResourceCard, ToolCard

logger = logging.getLogger(__name__)

VERSION = 1
MAX_BYTES = 32 * 1024 * 1024


class ListingShelf:
    """One file per entry of the configuration; whoever changes the entry finds nothing. All methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, address: Address) -> Listing | None:
        """What the server offered; None when that is not known, or cannot be read."""
        file = self._file(address)
        try:
            if file.stat().st_size > MAX_BYTES:
                return None
            return to_listing(json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            logger.warning("what the MCP server %r offered cannot be read: %s", address.server, problem)
            return None

    def put(self, address: Address, listing: Listing) -> None:
        """Remember what it offers."""
        content = json.dumps({"version": VERSION, **asdict(listing)}).encode(errors="backslashreplace")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._file(address), content)
        except (OSError, ConfigError) as problem:
            logger.warning("what the MCP server %r offers cannot be kept: %s", address.server, problem)

    def forget(self, address: Address) -> None:
        """Remember it no longer."""
        self._file(address).unlink(missing_ok=True)

    def _file(self, address: Address) -> Path:
        whose = f"{address.config_key} {address.user_id}"
        return self._folder / f"{sha256(whose.encode()).hexdigest()[:32]}.json"


def to_listing(found: dict[str, Any]) -> Listing:
    """What a file says."""
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']!r} is not known")
    return Listing(
        tuple(ToolCard(**each) for each in found["tools"]),
        tuple(ResourceCard(**each) for each in found["resources"]),
        tuple(PromptCard(**{**each, "arguments": tuple(each["arguments"])}) for each in found["prompts"]),
    )
