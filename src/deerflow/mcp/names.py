"""What the tools of MCP servers are called for the model."""

import re
from hashlib import sha256

MAX_CHARS = 64
UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str, *, prefixed: bool = True) -> str:
    """A name that every vendor takes; different names stay different where they have to be cut."""
    wanted = f"{server}_{tool}" if prefixed else tool
    name = UNFIT.sub("_", wanted)
    if len(name) <= MAX_CHARS:
        return name
    return f"{name[: MAX_CHARS - 9]}_{sha256(wanted.encode()).hexdigest()[:8]}"
