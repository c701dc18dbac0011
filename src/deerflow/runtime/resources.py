"""What people and programs use beside threads and runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deerflow.mcp.servers import McpServers
from deerflow.memory.memories import Memories
from deerflow.runtime.export import Exporter
from deerflow.runtime.feedback import Feedbacks
from deerflow.runtime.input_polish import InputPolish
from deerflow.runtime.pages import WebPages
from deerflow.runtime.profiles import Profiles
from deerflow.runtime.search import Search
from deerflow.runtime.sharing import Sharing
from deerflow.runtime.suggestions import Suggestions
from deerflow.runtime.usage import Usage

if TYPE_CHECKING:
    from deerflow.skills.workshop import SkillWorkshop


@dataclass(frozen=True, slots=True)
class Resources:
    """One part for each resource."""

    usage: Usage
    search: Search
    feedback: Feedbacks
    exporter: Exporter
    suggestions: Suggestions
    input_polish: InputPolish
    profiles: Profiles
    sharing: Sharing
    memory: Memories
    mcp_servers: McpServers
    web_pages: WebPages
    open_workshop: Callable[[], "SkillWorkshop"]

    @property
    def workshop(self) -> "SkillWorkshop":
        """Where custom skills are made and changed; it is loaded when somebody comes in."""
        return self.open_workshop()
