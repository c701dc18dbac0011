"""Tools that the configuration puts forward, and for which words of people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from deerflow.domain.tool_marks import PREFERRED


@dataclass(frozen=True, slots=True)
class Preference:
    """That tools are put forward: whose, how much, and for which words; without words, always."""

    subject: str
    """A tool, or all tools of a server, as the model is told."""
    priority: int = 0
    keywords: tuple[str, ...] = ()

    def is_meant_by(self, text: str) -> bool:
        """Whether one of the words stands in a text, not merely in the middle of another word."""
        return any(stands_in(keyword.casefold(), text.casefold()) for keyword in self.keywords)


def preference_of(tool: BaseTool) -> Preference | None:
    """How a tool is put forward, if it is."""
    told = (tool.metadata or {}).get(PREFERRED)
    return Preference(told["subject"], told["priority"], tuple(told["keywords"])) if told else None


def preferences_of(tools: Iterable[BaseTool]) -> Sequence[Preference]:
    """What is put forward, the most important first, each once."""
    found = {preference.subject: preference for tool in tools if (preference := preference_of(tool))}
    return sorted(found.values(), key=lambda each: (-each.priority, each.subject))


def stands_in(word: str, text: str) -> bool:
    """Whether a word stands in a text; where letters are not parted by spaces, anywhere."""
    at = text.find(word) if word else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (goes_on(before, word[0]) or goes_on(word[-1], after)):
            return True
        at = text.find(word, at + 1)
    return False


def goes_on(left: str, right: str) -> bool:
    """Whether two characters belong to one word, in scripts that part words by spaces."""
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()
