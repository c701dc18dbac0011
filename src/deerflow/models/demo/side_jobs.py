"""What the demo model does beside conversations: it offers what it can play, and tidies a request."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from langchain_core.messages import BaseMessage, SystemMessage

from deerflow.models.demo.scripts import Language, language_of

SUGGESTING = "You suggest what a person may want to ask next."
POLISHING = "You improve the wording of a request to an assistant."
"""How the words for such a job begin."""
OFFERS: Mapping[Language, Sequence[str]] = MappingProxyType(
    {
        "en": (
            "What is DeerFlow, and what can it do?",
            "How do I connect a real model?",
            "Plan a team offsite, step by step",
            "Draw a chart of something",
            "Write a short report",
        ),
        "zh": (
            "DeerFlow 是什么，能做什么？",
            "怎样接入真正的模型？",
            "一步一步地计划一次团建",
            "画一张图表",
            "写一份简短的报告",
        ),
    }
)


def side_job(messages: Sequence[BaseMessage]) -> str | None:
    """The reply, if the model is asked for something beside a conversation."""
    if len(messages) < 2 or not isinstance(messages[0], SystemMessage):
        return None
    jobs: dict[str, Callable[[str], str]] = {SUGGESTING: suggest, POLISHING: polish}
    for beginning, job in jobs.items():
        if messages[0].text.startswith(beginning):
            return job(messages[-1].text)
    return None


def suggest(conversation: str) -> str:
    """Requests that the demo can play, in the language of the conversation."""
    return json.dumps(OFFERS[language_of(conversation)], ensure_ascii=False)


def polish(request: str) -> str:
    """A request as one would write it: one blank between words, a capital first, a mark at the end."""
    tidy = re.sub(r"[^\S\n]+", " ", request).strip()
    tidy = tidy[:1].upper() + tidy[1:]
    if tidy[-1:].isalnum():
        tidy += "。" if language_of(tidy) == "zh" else "."
    return tidy
