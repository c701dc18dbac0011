"""What the demo model knows: a handful of requests, each with the steps that serve it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Language = Literal["en", "zh"]
TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True, slots=True)
class Say:
    """An answer: the name of a text, and what the model says it thought before."""

    text: str
    thought: Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, with its arguments in each language."""

    tool: str
    args: Mapping[Language, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Script:
    """A request the model recognises. Step n is taken when n replies have been given since the request."""

    id: str
    title: str
    prompt: str
    words: re.Pattern[str]
    steps: tuple[Say | Call, ...]
    needs_plan_mode: bool = False

    @property
    def tools(self) -> frozenset[str]:
        """Without these the script cannot be played."""
        return frozenset(step.tool for step in self.steps if isinstance(step, Call))


@dataclass(frozen=True, slots=True)
class Starter:
    """A request offered to somebody who does not know what to ask."""

    id: str
    title: str
    prompt: str
    is_plan_mode: bool


def plan(*done_of_three: Literal["pending", "in_progress", "completed"]) -> Mapping[Language, Mapping[str, object]]:
    """The demo's list of three things, as far as it has got."""
    things: Mapping[Language, tuple[str, str, str]] = {
        "en": ("Choose the dates", "Invite the team", "Book a room"),
        "zh": ("选定日期", "邀请团队", "预订会议室"),
    }
    return {
        language: {"todos": [{"content": c, "status": s} for c, s in zip(contents, done_of_three, strict=True)]}
        for language, contents in things.items()
    }


SCRIPTS = (
    Script(
        id="tour",
        title="What is DeerFlow?",
        prompt="What is DeerFlow, and what can it do?",
        words=re.compile(r"what (is|can) (deerflow|you|it)|deerflow 是什么|你能做什么|介绍一下", re.IGNORECASE),
        steps=(
            Say(
                "tour",
                {
                    "en": "They want an overview: what DeerFlow is, then how one message travels through it.",
                    "zh": "对方想了解概况。我先说明 DeerFlow 是什么，再说一条消息怎样走过整个系统。",
                },
            ),
        ),
    ),
    Script(
        id="formatting",
        title="Show me what an answer can look like",
        prompt="Show me what an answer can look like: headings, a table, code and a list.",
        words=re.compile(r"answer can look like|markdown|formatting|回答.*(样子|格式)|排版", re.IGNORECASE),
        steps=(
            Say(
                "formatting",
                {
                    "en": "A table, a code block and a list cover most answers. I will use all three.",
                    "zh": "表格、代码块和列表覆盖了大多数回答的形式，我三种都用上。",
                },
            ),
        ),
    ),
    Script(
        id="plan",
        title="Plan something with a to-do list",
        prompt="Plan a small team offsite and keep a to-do list.",
        words=re.compile(r"to-?do list|plan a|计划|待办", re.IGNORECASE),
        steps=(
            Call("write_todos", plan("in_progress", "pending", "pending")),
            Call("write_todos", plan("completed", "in_progress", "pending")),
            Call("write_todos", plan("completed", "completed", "completed")),
            Say(
                "plan",
                {
                    "en": "All three are done. I will sum up what the list showed.",
                    "zh": "三件事都完成了，我来总结一下清单。",
                },
            ),
        ),
        needs_plan_mode=True,
    ),
    Script(
        id="ask-first",
        title="Ask me something first",
        prompt="Write me a status report, but ask me something first.",
        words=re.compile(r"ask me (something )?first|先问我", re.IGNORECASE),
        steps=(
            Call(
                "ask_clarification",
                {
                    "en": {
                        "question": "Who is the report for?",
                        "clarification_type": "approach_choice",
                        "context": "Its length and tone depend on who reads it.",
                        "options": ["My team", "My manager", "A customer"],
                    },
                    "zh": {
                        "question": "这份报告给谁看？",
                        "clarification_type": "approach_choice",
                        "context": "篇幅和语气取决于读者。",
                        "options": ["我的团队", "我的经理", "客户"],
                    },
                },
            ),
        ),
    ),
    Script(
        id="real-model",
        title="How do I connect a real model?",
        prompt="How do I connect a real model?",
        words=re.compile(
            r"real model|(connect|set|use|configure).*(model|api key)|(接入|配置|使用).*模型", re.IGNORECASE
        ),
        steps=(
            Say(
                "real-model",
                {
                    "en": "Three ways exist: a key in the environment, a local server, or the configuration file.",
                    "zh": "有三种办法：环境变量里的密钥、本地服务，或配置文件。",
                },
            ),
        ),
    ),
)

ANSWERED = Say(
    "answered",
    {
        "en": "They have chosen. Now I can answer in the form they want.",
        "zh": "对方已经选好了，现在可以按这个方式回答。",
    },
)

FALLBACK = Say(
    "fallback",
    {
        "en": "I am scripted and do not know this request, so I should say so and show the way to a real model.",
        "zh": "我是脚本，不认识这个请求，应当如实说明，并告诉对方怎样接入真正的模型。",
    },
)


def starters(tools: Collection[str]) -> list[Starter]:
    """The requests that can be served with `tools`."""
    playable = [script for script in SCRIPTS if script.tools <= set(tools)]
    return [Starter(script.id, script.title, script.prompt, script.needs_plan_mode) for script in playable]


def next_step(request: str, replies: int, tools: Collection[str]) -> Say | Call:
    """What to do now, `replies` replies after `request`."""
    for script in SCRIPTS:
        if script.tools <= set(tools) and script.words.search(request):
            return script.steps[min(replies, len(script.steps) - 1)]
    return FALLBACK


def language_of(request: str) -> Language:
    """The language to answer in."""
    return "zh" if re.search(r"[\u4e00-\u9fff]", request) else "en"


def read_text(name: str, language: Language) -> str:
    """One of the model's texts."""
    return (TEXTS / f"{name}.{language}.md").read_text(encoding="utf-8").strip()
