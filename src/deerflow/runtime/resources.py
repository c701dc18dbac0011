"""What people and programs use beside threads and runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deerflow.mcp.lazy_servers import LazyServers
from deerflow.memory.memories import Memories
from deerflow.runtime.late import Late
from deerflow.runtime.profiles import Profiles
from deerflow.runtime.search import Search
from deerflow.runtime.usage import Usage

if TYPE_CHECKING:
    from deerflow.mcp.servers import McpServers
    from deerflow.runtime.export import Exporter
    from deerflow.runtime.feedback import Feedbacks
    from deerflow.runtime.input_polish import InputPolish
    from deerflow.runtime.pages import WebPages
    from deerflow.runtime.sharing import Sharing
    from deerflow.runtime.suggestions import Suggestions
    from deerflow.skills.workshop import SkillWorkshop


@dataclass(frozen=True)
class Resources:
    """One part for each resource; the late ones are loaded when they are first asked for."""

    usage: Usage
    search: Search
    profiles: Profiles
    memory: Memories
    mcp: LazyServers
    feedback: Late["Feedbacks"] = Late()
    """What people think of answers."""
    exporter: Late["Exporter"] = Late()
    """Writes conversations down."""
    suggestions: Late["Suggestions"] = Late()
    """Thinks of what could be asked next."""
    input_polish: Late["InputPolish"] = Late()
    """Says better what somebody is about to ask."""
    sharing: Late["Sharing"] = Late()
    """Shows conversations to others."""
    web_pages: Late["WebPages"] = Late()
    """The pages that threads have read."""
    workshop: Late["SkillWorkshop"] = Late()
    """Where custom skills are made and changed."""

    @property
    def mcp_servers(self) -> "McpServers":
        """What people do with MCP servers."""
        return self.mcp.loaded
