"""Scripts of the demo model: recognized requests and the steps of their replies."""

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
class AnswerStep:
    """An answer: the name of its text, and the reasoning shown before it."""

    text: str
    thought: Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class TextFile:
    """A placeholder in tool arguments for the content of a file in `texts`."""

    name: str

    def read(self) -> str:
        return (TEXTS / self.name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A tool call with its arguments in each language."""

    tool: str
    args: Mapping[Language, Mapping[str, object]]

    def arguments(self, language: Language) -> str:
        """Return the arguments as JSON."""
        return json.dumps(self.args[language], ensure_ascii=False, default=TextFile.read)


@dataclass(frozen=True, slots=True)
class DemoScript:
    """A recognized request. Step n is played after n replies to the request."""

    id: str
    title: str
    prompt: str
    words: re.Pattern[str]
    steps: tuple[AnswerStep | ToolStep, ...]
    needs_plan_mode: bool = False
    skill: str | None = None
    """The skill that the script requires."""

    @property
    def tools(self) -> frozenset[str]:
        """Return the tools that the script requires."""
        return frozenset(step.tool for step in self.steps if isinstance(step, ToolStep))


@dataclass(frozen=True, slots=True)
class StarterPrompt:
    """A suggested request for a new thread."""

    id: str
    title: str
    prompt: str
    is_plan_mode: bool


def make_plan(
    *statuses: Literal["pending", "in_progress", "completed"],
) -> Mapping[Language, Mapping[str, object]]:
    """Return the arguments of a to-do list with three items and the given statuses."""
    items: Mapping[Language, tuple[str, str, str]] = {
        "en": ("Choose the dates", "Invite the team", "Book a room"),
        "zh": ("选定日期", "邀请团队", "预订会议室"),
    }
    return {
        language: {"todos": [{"content": c, "status": s} for c, s in zip(contents, statuses, strict=True)]}
        for language, contents in items.items()
    }


def make_write_step(path: str, text: str, en: str, zh: str) -> ToolStep:
    """Return a step that writes a text to a file; `{language}` in its name selects the language."""
    described: Mapping[Language, str] = {"en": en, "zh": zh}
    return ToolStep(
        "write_file",
        {
            language: {"description": why, "path": path, "content": TextFile(text.format(language=language))}
            for language, why in described.items()
        },
    )


SCRIPTS = (
    DemoScript(
        id="tour",
        title="What is DeerFlow?",
        prompt="What is DeerFlow, and what can it do?",
        words=re.compile(r"what (is|can) (deerflow|you|it)|deerflow 是什么|你能做什么|介绍一下", re.IGNORECASE),
        steps=(
            AnswerStep(
                "tour",
                {
                    "en": "They want an overview: what DeerFlow is, then how one message travels through it.",
                    "zh": "对方想了解概况。我先说明 DeerFlow 是什么，再说一条消息怎样走过整个系统。",
                },
            ),
        ),
    ),
    DemoScript(
        id="formatting",
        title="Show me what an answer can look like",
        prompt="Show me what an answer can look like: headings, a table, code and a list.",
        words=re.compile(r"answer can look like|markdown|formatting|回答.*(样子|格式)|排版", re.IGNORECASE),
        steps=(
            AnswerStep(
                "formatting",
                {
                    "en": "A table, a code block and a list cover most answers. I will use all three.",
                    "zh": "表格、代码块和列表覆盖了大多数回答的形式，我三种都用上。",
                },
            ),
        ),
    ),
    DemoScript(
        id="chart",
        title="Analyse data and draw a chart",
        prompt="Analyse some sales data and draw a chart.",
        words=re.compile(r"analy[sz]e.*data|draw.*chart|分析.*数据|画.*图", re.IGNORECASE),
        steps=(
            make_write_step(
                f"{WORKSPACE}/sales.csv", "sales.csv", "Half a year of sales to work with", "准备半年的销售数据"
            ),
            make_write_step(
                f"{WORKSPACE}/analyse.py", "analyse.py.txt", "Add it up and draw it", "编写汇总和画图的脚本"
            ),
            ToolStep(
                "bash",
                {
                    "en": {"description": "Run the analysis", "command": "python3 analyse.py"},
                    "zh": {"description": "运行分析", "command": "python3 analyse.py"},
                },
            ),
            make_write_step(f"{OUTPUTS}/report.md", "chart-report.{language}.md", "Say what came out", "写下结果"),
            ToolStep("present_files", {"en": {"filepaths": PRESENTED}, "zh": {"filepaths": PRESENTED}}),
            AnswerStep(
                "chart",
                {
                    "en": "The script ran and the files are presented. I will repeat the figures it printed.",
                    "zh": "脚本运行完毕，文件已经呈上。我来复述它打印的数字。",
                },
            ),
        ),
    ),
    DemoScript(
        id="slides",
        title="Make slides with a skill",
        prompt=f"/{SLIDES} Make three slides about hot drinks.",
        words=re.compile(rf"^/{SLIDES}\b|make .*slides|幻灯片|演示文稿", re.IGNORECASE),
        steps=(
            make_write_step(
                f"{WORKSPACE}/outline.yaml", "slides.{language}.yaml", "Say what each slide shows", "写下每张的内容"
            ),
            ToolStep(
                "bash",
                {
                    "en": {"description": "Make the deck and check it", "command": MAKE_DECK},
                    "zh": {"description": "生成并检查演示文稿", "command": MAKE_DECK},
                },
            ),
            ToolStep("present_files", {"en": {"filepaths": [DECK]}, "zh": {"filepaths": [DECK]}}),
            AnswerStep(
                "slides",
                {
                    "en": "The check found nothing wrong with the deck. I will say which skill made it, and how.",
                    "zh": "检查没有发现问题。我来说明用了哪个技能、怎样做的。",
                },
            ),
        ),
        skill=SLIDES,
    ),
    DemoScript(
        id="plan",
        title="Plan something with a to-do list",
        prompt="Plan a small team offsite and keep a to-do list.",
        words=re.compile(r"to-?do list|plan a|计划|待办", re.IGNORECASE),
        steps=(
            ToolStep("write_todos", make_plan("in_progress", "pending", "pending")),
            ToolStep("write_todos", make_plan("completed", "in_progress", "pending")),
            ToolStep("write_todos", make_plan("completed", "completed", "completed")),
            AnswerStep(
                "plan",
                {
                    "en": "All three are done. I will sum up what the list showed.",
                    "zh": "三件事都完成了，我来总结一下清单。",
                },
            ),
        ),
        needs_plan_mode=True,
    ),
    DemoScript(
        id="ask-first",
        title="Ask me something first",
        prompt="Write me a status report, but ask me something first.",
        words=re.compile(r"ask me (something )?first|先问我", re.IGNORECASE),
        steps=(
            ToolStep(
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
    DemoScript(
        id="real-model",
        title="How do I connect a real model?",
        prompt="How do I connect a real model?",
        words=re.compile(
            r"real model|(connect|set|use|configure).*(model|api key)|(接入|配置|使用).*模型", re.IGNORECASE
        ),
        steps=(
            AnswerStep(
                "real-model",
                {
                    "en": "Three ways exist: the configuration file, a key in the environment, or a local server.",
                    "zh": "有三种办法：配置文件、环境变量里的密钥，或本地服务。",
                },
            ),
        ),
    ),
)

CLARIFICATION_ANSWERED = AnswerStep(
    "answered",
    {
        "en": "They have chosen. Now I can answer in the form they want.",
        "zh": "对方已经选好了，现在可以按这个方式回答。",
    },
)

TOOL_FAILED = AnswerStep(
    "tool-failed",
    {
        "en": "The tool failed. I am scripted and know no other way, so I should say so.",
        "zh": "工具失败了。我是脚本，不会别的办法，应当如实说明。",
    },
)

FALLBACK = AnswerStep(
    "fallback",
    {
        "en": "I am scripted and do not know this request, so I should say so and show the way to a real model.",
        "zh": "我是脚本，不认识这个请求，应当如实说明，并告诉对方怎样接入真正的模型。",
    },
)


def list_starters(tools: Collection[str], skills: Collection[str]) -> list[StarterPrompt]:
    """Return the requests that can be played with `tools` and `skills`."""
    playable = [script for script in SCRIPTS if script.tools <= set(tools) and script.skill in (None, *skills)]
    return [StarterPrompt(script.id, script.title, script.prompt, script.needs_plan_mode) for script in playable]


def next_step(request: str, replies: int, tools: Collection[str]) -> AnswerStep | ToolStep:
    """Return the step to play `replies` replies after `request`."""
    for script in SCRIPTS:
        if script.tools <= set(tools) and script.words.search(request):
            return script.steps[min(replies, len(script.steps) - 1)]
    return FALLBACK


def detect_language(request: str) -> Language:
    """Return the language to answer in."""
    return "zh" if re.search(r"[\u4e00-\u9fff]", request) else "en"


def read_text(name: str, language: Language) -> str:
    """Return the text with this name in a language."""
    return TextFile(f"{name}.{language}.md").read().strip()
