"""The built-in demo model."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from deerflow.models.demo import DemoChatModel, list_starters
from deerflow.models.demo.scripts import (
    CLARIFICATION_ANSWERED,
    FALLBACK,
    SCRIPTS,
    TOOL_FAILED,
    DemoScript,
    ToolStep,
    next_step,
    read_text,
)

MODEL = DemoChatModel(delay_ms=0)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.id)
async def test_answers_every_starter(script: DemoScript) -> None:
    first = next_step(script.prompt, 0, script.tools)
    assert first == script.steps[0]
    answer = await MODEL.ainvoke(script.prompt)
    assert answer.text and "do not know" not in answer.text


async def test_explains_itself_for_other_requests() -> None:
    answer = await MODEL.ainvoke("Prove the Riemann hypothesis")
    assert answer.text == read_text(FALLBACK.text, "en")
    assert "a script, not a language model" in answer.text


async def test_answers_chinese_in_chinese() -> None:
    answer = await MODEL.ainvoke("怎样接入真正的模型？")
    assert "环境变量" in answer.text
    assert "演示模型" in (await MODEL.ainvoke("写一首诗")).text


async def test_streams_reasoning_before_the_answer() -> None:
    pieces = [piece async for piece in MODEL.astream("What is DeerFlow?")]
    thoughts = [bool(piece.additional_kwargs.get("reasoning_content")) for piece in pieces]
    words = [bool(piece.text) for piece in pieces]
    assert len(pieces) > 30
    assert thoughts.index(True) < words.index(True)
    assert not any(a and b for a, b in zip(thoughts, words, strict=True))
    assert "".join(piece.text for piece in pieces) == read_text("tour", "en")


async def test_returns_the_same_answer_streamed_or_not() -> None:
    streamed = "".join([piece.text async for piece in MODEL.astream("What is DeerFlow?")])
    assert streamed == (await MODEL.ainvoke("What is DeerFlow?")).text == MODEL.invoke("What is DeerFlow?").text


def test_offers_only_scripts_with_available_tools() -> None:
    def ids(tools: Sequence[str], skills: Sequence[str] = ("slide-creation",)) -> set[str]:
        return {starter.id for starter in list_starters(tools, skills)}

    needed = {tool for script in SCRIPTS for tool in script.tools}
    assert ids([]) == {script.id for script in SCRIPTS if not script.tools}
    assert ids(sorted(needed)) == {script.id for script in SCRIPTS}
    assert ids(sorted(needed), []) == {script.id for script in SCRIPTS if script.skill is None}


def test_continues_a_script_after_its_last_step() -> None:
    messages = [HumanMessage("x"), AIMessage("", tool_calls=[]), ToolMessage("done", tool_call_id="1")]
    from deerflow.models.demo import find_latest_request

    assert find_latest_request(messages) == ("x", 1)
    assert find_latest_request([]) == ("", 0)


async def test_works_in_an_agent() -> None:
    agent = create_agent(MODEL)
    state = await agent.ainvoke({"messages": [HumanMessage("What is DeerFlow?")]})
    assert state["messages"][-1].text == read_text("tour", "en")


def make_sandbox_tools(root: Path, python: str = sys.executable) -> list[Callable[..., str]]:
    """Return the tools of the chart script for files below `root`."""

    def here(text: str) -> str:
        return text.replace("/mnt/user-data", str(root))

    def write_file(description: str, path: str, content: str) -> str:
        """Write a file."""
        file = Path(here(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(here(content), encoding="utf-8")
        return "OK"

    def bash(description: str, command: str) -> str:
        """Run a command."""
        words = [python if word == "python3" else word for word in command.split()]
        done = subprocess.run(words, cwd=root / "workspace", capture_output=True, text=True, check=False, timeout=30)
        return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}\n[exit code {done.returncode}]"

    def present_files(filepaths: list[str]) -> str:
        """Show files."""
        assert all(Path(here(path)).is_file() for path in filepaths)
        return "Presented"

    return [write_file, bash, present_files]


@pytest.mark.parametrize("prompt", ["Analyse some sales data and draw a chart.", "分析一些销售数据，画一张图。"])
async def test_reports_only_figures_that_the_script_printed(tmp_path: Path, prompt: str) -> None:
    state = await create_agent(MODEL, tools=make_sandbox_tools(tmp_path)).ainvoke({"messages": [HumanMessage(prompt)]})
    messages = state["messages"]
    calls = [call["name"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    assert calls == ["write_file", "write_file", "bash", "write_file", "present_files"]
    assert (tmp_path / "outputs/chart.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    (printed,) = (message.text for message in messages if message.name == "bash")
    for said in (messages[-1].text, (tmp_path / "outputs/report.md").read_text(encoding="utf-8")):
        figures = re.findall(r"[\d,]+\.\d+%?", said)
        assert len(figures) > 6
        assert [figure for figure in figures if figure not in printed] == []


async def test_admits_a_failed_command(tmp_path: Path) -> None:
    agent = create_agent(MODEL, tools=make_sandbox_tools(tmp_path, python="false"))
    messages = (await agent.ainvoke({"messages": [HumanMessage("Draw a chart")]}))["messages"]
    assert messages[-2].text.endswith("[exit code 1]")
    assert messages[-1].text == read_text("tool-failed", "en")
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("after", [[], [HumanMessage("mind this", additional_kwargs={"hide_from_ui": True})]])
async def test_admits_a_failed_tool_and_answers_the_next_request(after: Sequence[HumanMessage]) -> None:
    failed = ToolMessage("no such file", tool_call_id="1", status="error")
    said = [HumanMessage("Draw a chart"), AIMessage("", tool_calls=[]), failed, *after]
    assert (await MODEL.ainvoke(said)).text == read_text("tool-failed", "en")
    assert (await MODEL.ainvoke([*said, HumanMessage("What is DeerFlow?")])).text == read_text("tour", "en")


def test_every_text_exists_in_both_languages() -> None:
    says = [step for script in SCRIPTS for step in script.steps if not isinstance(step, ToolStep)]
    for say in [*says, CLARIFICATION_ANSWERED, TOOL_FAILED, FALLBACK]:
        assert read_text(say.text, "en") and read_text(say.text, "zh") and say.thought.keys() == {"en", "zh"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ways_to_connect_a_model_are_those_of_the_readme_in_the_same_order(language: str) -> None:
    root = Path(__file__).parents[2]
    readme = (root / ("README.md" if language == "en" else "README.zh.md")).read_text()
    heading = "## Connect a model" if language == "en" else "## 连接模型"
    readme = readme.partition(heading)[2].partition("\n## ")[0]
    for text in (readme, read_text("real-model", language)):
        ways = ["models add openai", "config init", "OPENAI_API_KEY", "Ollama"]
        assert sorted(ways, key=text.index) == ways
        assert len(re.findall(r"^\**\d\. ?\**", text, re.MULTILINE)) == len(ways)
