"""The built-in demo model."""

from collections.abc import Sequence

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from deerflow.models.demo import DemoChatModel, starters
from deerflow.models.demo.scripts import FALLBACK, SCRIPTS, Call, Script, next_step, read_text

MODEL = DemoChatModel(delay_ms=0)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.id)
async def test_every_starter_is_recognised_and_answered(script: Script) -> None:
    first = next_step(script.prompt, 0, script.tools)
    assert first == script.steps[0]
    answer = await MODEL.ainvoke(script.prompt)
    assert answer.text and "do not know" not in answer.text


async def test_anything_else_is_answered_with_what_it_is_and_the_way_to_a_real_model() -> None:
    answer = await MODEL.ainvoke("Prove the Riemann hypothesis")
    assert answer.text == read_text(FALLBACK.text, "en")
    assert "a script, not a language model" in answer.text


async def test_chinese_is_answered_in_chinese() -> None:
    answer = await MODEL.ainvoke("怎样接入真正的模型？")
    assert "环境变量" in answer.text
    assert "演示模型" in (await MODEL.ainvoke("写一首诗")).text


async def test_it_reasons_first_and_speaks_in_pieces() -> None:
    pieces = [piece async for piece in MODEL.astream("What is DeerFlow?")]
    thoughts = [bool(piece.additional_kwargs.get("reasoning_content")) for piece in pieces]
    words = [bool(piece.text) for piece in pieces]
    assert len(pieces) > 30
    assert thoughts.index(True) < words.index(True)
    assert not any(a and b for a, b in zip(thoughts, words, strict=True))
    assert "".join(piece.text for piece in pieces) == read_text("tour", "en")


async def test_streamed_or_whole_the_answer_is_the_same() -> None:
    streamed = "".join([piece.text async for piece in MODEL.astream("What is DeerFlow?")])
    assert streamed == (await MODEL.ainvoke("What is DeerFlow?")).text == MODEL.invoke("What is DeerFlow?").text


def test_only_what_the_tools_allow_is_offered() -> None:
    def ids(tools: Sequence[str]) -> set[str]:
        return {starter.id for starter in starters(tools)}

    needed = {tool for script in SCRIPTS for tool in script.tools}
    assert ids([]) == {script.id for script in SCRIPTS if not script.tools}
    assert ids(sorted(needed)) == {script.id for script in SCRIPTS}


def test_a_script_goes_on_where_its_last_step_ended() -> None:
    messages = [HumanMessage("x"), AIMessage("", tool_calls=[]), ToolMessage("done", tool_call_id="1")]
    from deerflow.models.demo.model import latest_request

    assert latest_request(messages) == ("x", 1)
    assert latest_request([]) == ("", 0)


async def test_it_works_inside_an_agent() -> None:
    agent = create_agent(MODEL)
    state = await agent.ainvoke({"messages": [HumanMessage("What is DeerFlow?")]})
    assert state["messages"][-1].text == read_text("tour", "en")


def test_every_text_exists_in_both_languages() -> None:
    says = [step for script in SCRIPTS for step in script.steps if not isinstance(step, Call)]
    for say in [*says, FALLBACK]:
        assert read_text(say.text, "en") and read_text(say.text, "zh") and say.thought.keys() == {"en", "zh"}
