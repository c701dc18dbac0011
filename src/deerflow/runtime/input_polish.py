"""Better words for what somebody is about to ask."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.config.input_polish import InputPolishConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.principal import Principal
from deerflow.domain.usage import INPUT_POLISH
from deerflow.persistence.threads import find_thread
from deerflow.runtime.side_calls import SideCalls, SideQuestion

FENCES = ("```", '"""')
GROWTH = 4
"""A rewritten request is at most so many times as long, and a little: what is longer is an answer."""


@dataclass(frozen=True, slots=True)
class Polished:
    """A request in better words; as it was when `changed` is false, and perhaps why."""

    text: str
    changed: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InputPolish:
    """Rewrites requests."""

    calls: SideCalls
    settings: Callable[[], InputPolishConfig]

    async def polish(
        self, text: str, who: Principal, locale: str | None = None, thread_id: str | None = None
    ) -> Polished:
        """`text` in better words. A model that fails leaves it as it is.

        Raises:
            InvalidRequest: it is too long, or empty.
            NotFound: there is no such thread.
        """
        settings = self.settings()
        if not text.strip():
            raise InvalidRequest("text is empty: there is nothing to polish")
        if len(text) > settings.max_chars:
            raise InvalidRequest(f"text has {len(text)} characters; at most {settings.max_chars} can be polished")
        if thread_id is not None:
            await self.calls.database.read(partial(find_thread, thread_id=thread_id, owner=who.user_id))
        if not settings.enabled:
            return Polished(text, False, "input polish is switched off")
        name = settings.model_name or (await self.calls.model_of(thread_id, who) if thread_id else None)
        messages = [SystemMessage(words_for(locale)), HumanMessage(text)]
        question = SideQuestion(INPUT_POLISH, messages, name, settings.timeout_seconds, who, thread_id)
        answer = await self.calls.ask(question)
        better = unwrapped(answer.text)
        if answer.reason or not better or len(better) > GROWTH * len(text) + 200:
            return Polished(text, False, answer.reason or "the model did not rewrite the text")
        return Polished(better, better != text)


def words_for(locale: str | None) -> str:
    """What the model is told."""
    words = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8"))
    return words.substitute(locale=f" (the person's locale is {locale})" if locale else "")


def unwrapped(text: str) -> str:
    """A rewritten text without the fence or the quotation marks some models put around it."""
    for fence in FENCES:
        if text.startswith(fence) and text.endswith(fence) and "\n" in text:
            return text[len(fence) : -len(fence)].partition("\n")[2].strip()
    if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        return text[1:-1].strip()
    return text
