"""What the demo model knows: a handful of requests, each with the steps that serve it."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deerflow.domain.files import OUTPUTS, WORKSPACE

Language = Literal["en", "zh"]
TEXTS = Path(__file__).parent / "texts"
PRESENTED = (f"{OUTPUTS}/chart.png", f"{OUTPUTS}/report.md")
SLIDES = "slide-creation"
DECK = f"{OUTPUTS}/drinks.pptx"
MAKE_DECK = (
    f"S=/mnt/skills/public/{SLIDES}/scripts && python $S/make_deck.py outline.yaml --out {DECK} && "
    f"python $S/check_deck.py {DECK}"
)


@dataclass(frozen=True, slots=True)
class Say:
    """An answer: the name of a text, and what the model says it thought before."""

    text: str
    thought: Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class Text:
    """Stands in a call's arguments for what a file in `texts` holds."""

    name: str

    def read(self) -> str:
        return (TEXTS / self.name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, with its arguments in each language."""

    tool: str
    args: Mapping[Language, Mapping[str, object]]

    def arguments(self, language: Language) -> str:
        """The arguments as models write them."""
        return json.dumps(self.args[language], ensure_ascii=False, default=Text.read)


@dataclass(frozen=True, slots=True)
class Script:
    """A request the model recognises. Step n is taken when n replies have been given since the request."""

    id: str
    title: str
    prompt: str
    words: re.Pattern[str]
    steps: tuple[Say | Call, ...]
    needs_plan_mode: bool = False
    skill: str | None = None
    """What it cannot be played without, besides tools."""

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


def write(path: str, text: str, en: str, zh: str) -> Call:
    """Write a text to a file; where its name asks for one, the text is in the reader's language."""
    described: Mapping[Language, str] = {"en": en, "zh": zh}
    return Call(
        "write_file",
        {
            language: {"description": why, "path": path, "content": Text(text.format(language=language))}
            for language, why in described.items()
        },
    )


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
        id="chart",
        title="Analyse data and draw a chart",
        prompt="Analyse some sales data and draw a chart.",
        words=re.compile(r"analy[sz]e.*data|draw.*chart|分析.*数据|画.*图", re.IGNORECASE),
        steps=(
            write(f"{WORKSPACE}/sales.csv", "sales.csv", "Half a year of sales to work with", "准备半年的销售数据"),
            write(f"{WORKSPACE}/analyse.py", "analyse.py.txt", "Add it up and draw it", "编写汇总和画图的脚本"),
            Call(
                "bash",
                {
                    "en": {"description": "Run the analysis", "command": "python3 analyse.py"},
                    "zh": {"description": "运行分析", "command": "python3 analyse.py"},
                },
            ),
            write(f"{OUTPUTS}/report.md", "chart-report.{language}.md", "Say what came out", "写下结果"),
            Call("present_files", {"en": {"filepaths": PRESENTED}, "zh": {"filepaths": PRESENTED}}),
            Say(
                "chart",
                {
                    "en": "The script ran and the files are presented. I will repeat the figures it printed.",
                    "zh": "脚本运行完毕，文件已经呈上。我来复述它打印的数字。",
                },
            ),
        ),
    ),
    Script(
        id="slides",
        title="Make slides with a skill",
        prompt=f"/{SLIDES} Make three slides about hot drinks.",
        words=re.compile(rf"^/{SLIDES}\b|make .*slides|幻灯片|演示文稿", re.IGNORECASE),
        steps=(
            write(f"{WORKSPACE}/outline.yaml", "slides.{language}.yaml", "Say what each slide shows", "写下每张的内容"),
            Call(
                "bash",
                {
                    "en": {"description": "Make the deck and check it", "command": MAKE_DECK},
                    "zh": {"description": "生成并检查演示文稿", "command": MAKE_DECK},
                },
            ),
            Call("present_files", {"en": {"filepaths": [DECK]}, "zh": {"filepaths": [DECK]}}),
            Say(
                "slides",
                {
                    "en": "The check found nothing wrong with the deck. I will say which skill made it, and how.",
                    "zh": "检查没有发现问题。我来说明用了哪个技能、怎样做的。",
                },
            ),
        ),
        skill=SLIDES,
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

TOOL_FAILED = Say(
    "tool-failed",
    {
        "en": "The tool failed. I am scripted and know no other way, so I should say so.",
        "zh": "工具失败了。我是脚本，不会别的办法，应当如实说明。",
    },
)

FALLBACK = Say(
    "fallback",
    {
        "en": "I am scripted and do not know this request, so I should say so and show the way to a real model.",
        "zh": "我是脚本，不认识这个请求，应当如实说明，并告诉对方怎样接入真正的模型。",
    },
)


def starters(tools: Collection[str], skills: Collection[str]) -> list[Starter]:
    """The requests that can be served with `tools` and `skills`."""
    playable = [script for script in SCRIPTS if script.tools <= set(tools) and script.skill in (None, *skills)]
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
    return Text(f"{name}.{language}.md").read().strip()
