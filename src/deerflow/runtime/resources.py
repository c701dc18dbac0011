"""What people and programs use beside threads and runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deerflow.mcp.servers import McpServers
from deerflow.memory.memories import Memories
from deerflow.runtime.profiles import Profiles
from deerflow.runtime.search import Search
from deerflow.runtime.usage import Usage

if TYPE_CHECKING:
    from deerflow.runtime.export import Exporter
    from deerflow.runtime.feedback import Feedbacks
    from deerflow.runtime.input_polish import InputPolish
    from deerflow.runtime.pages import WebPages
    from deerflow.runtime.sharing import Sharing
    from deerflow.runtime.suggestions import Suggestions
    from deerflow.skills.workshop import SkillWorkshop


@dataclass(frozen=True, slots=True)
class Resources:
    """One part for each resource; those with an `open_…` are loaded when they are first asked for."""

    usage: Usage
    search: Search
    profiles: Profiles
    memory: Memories
    mcp_servers: McpServers
    open_feedback: Callable[[], "Feedbacks"]
    open_exporter: Callable[[], "Exporter"]
    open_suggestions: Callable[[], "Suggestions"]
    open_input_polish: Callable[[], "InputPolish"]
    open_sharing: Callable[[], "Sharing"]
    open_web_pages: Callable[[], "WebPages"]
    open_workshop: Callable[[], "SkillWorkshop"]

    @property
    def feedback(self) -> "Feedbacks":
        """What people think of answers."""
        return self.open_feedback()

    @property
    def exporter(self) -> "Exporter":
        """Writes conversations down."""
        return self.open_exporter()

    @property
    def suggestions(self) -> "Suggestions":
        """Thinks of what could be asked next."""
        return self.open_suggestions()

    @property
    def input_polish(self) -> "InputPolish":
        """Says better what somebody is about to ask."""
        return self.open_input_polish()

    @property
    def sharing(self) -> "Sharing":
        """Shows conversations to others."""
        return self.open_sharing()

    @property
    def web_pages(self) -> "WebPages":
        """The pages that threads have read."""
        return self.open_web_pages()

    @property
    def workshop(self) -> "SkillWorkshop":
        """Where custom skills are made and changed."""
        return self.open_workshop()
