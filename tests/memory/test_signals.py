"""Phrases by which people correct and approve."""

import pytest

from deerflow.domain.learning import Heard, Signs
from deerflow.memory.signals import LATEST, approves, corrects, signs_in

CORRECTIONS = [
    *("That's wrong, I live in Bonn.", "No, you misunderstood me", "that is NOT right", "Please try again"),
    *("You’re wrong about this", "that’s not what I meant", "I told you to use tabs", "Correction: it is 1994"),
    *("不对，我住在波恩", "你理解错了", "错了", "我不是这个意思", "请重试", "我的意思是用空格", "别再用英文回答"),
]
NO_CORRECTIONS = [
    *("What went wrong with my car?", "Is it right to say so?", "The trial again begins", "I mean well", "", "wrong"),
    *("你说对不对？", "不对称加密是什么", "没错，就是这样", "这个方案不错", "帮我写一首诗"),
]
PRAISE = [
    *("Perfect, thanks!", "Exactly.", "Yes, that's right", "That works, keep doing it like this", "spot on"),
    *("完全正确", "没错", "很好，谢谢", "太棒了！", "就是这样", "做得好"),
]
NO_PRAISE = [
    *("Not exactly.", "It isn't perfect", "That's wrong", "the perfectionist", "What is the right way?", ""),
    *("不太好", "这样好不好？", "不完美", "不是很好", "不对"),
]


@pytest.mark.parametrize("text", CORRECTIONS)
def test_a_correction_is_noticed(text: str) -> None:
    assert corrects(text)


@pytest.mark.parametrize("text", NO_CORRECTIONS)
def test_what_only_looks_like_a_correction_is_none(text: str) -> None:
    assert not corrects(text)


@pytest.mark.parametrize("text", PRAISE)
def test_approval_is_noticed(text: str) -> None:
    assert approves(text)


@pytest.mark.parametrize("text", NO_PRAISE)
def test_what_only_looks_like_approval_is_none(text: str) -> None:
    assert not approves(text)


def test_only_people_count_and_only_what_they_said_last() -> None:
    wrong, other = Heard("1", "human", "that's wrong"), Heard("2", "human", "and now?")
    assert signs_in([wrong, Heard("3", "ai", "Exactly.")]) == Signs(correction=True)
    assert signs_in([wrong, *[other] * LATEST]) == Signs()
    assert Signs(correction=True) | Signs(reinforcement=True) == Signs(correction=True, reinforcement=True)
