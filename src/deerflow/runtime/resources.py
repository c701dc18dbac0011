"""What people and programs use beside threads and runs."""

from dataclasses import dataclass

from deerflow.mcp.servers import McpServers
from deerflow.memory.memories import Memories
from deerflow.runtime.export import Exporter
from deerflow.runtime.feedback import Feedbacks
from deerflow.runtime.input_polish import InputPolish
from deerflow.runtime.profiles import Profiles
from deerflow.runtime.search import Search
from deerflow.runtime.sharing import Sharing
from deerflow.runtime.suggestions import Suggestions
from deerflow.runtime.usage import Usage
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
    workshop: SkillWorkshop
    sharing: Sharing
    memory: Memories
    mcp_servers: McpServers
