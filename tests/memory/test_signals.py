"""Phrases by which people correct and approve."""

import pytest

from deerflow.domain.memory import ConversationMessage, FeedbackSignals
from deerflow.memory.signals import RECENT_MESSAGES, detect_feedback, is_approval, is_correction

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
def test_detects_corrections(text: str) -> None:
    assert is_correction(text)


@pytest.mark.parametrize("text", NO_CORRECTIONS)
def test_ignores_similar_phrases_that_do_not_correct(text: str) -> None:
    assert not is_correction(text)


@pytest.mark.parametrize("text", PRAISE)
def test_detects_approval(text: str) -> None:
    assert is_approval(text)


@pytest.mark.parametrize("text", NO_PRAISE)
def test_ignores_similar_phrases_that_do_not_approve(text: str) -> None:
    assert not is_approval(text)


def test_checks_only_the_latest_user_messages() -> None:
    wrong, other = ConversationMessage("1", "human", "that's wrong"), ConversationMessage("2", "human", "and now?")
    assert detect_feedback([wrong, ConversationMessage("3", "ai", "Exactly.")]) == FeedbackSignals(correction=True)
    assert detect_feedback([wrong, *[other] * RECENT_MESSAGES]) == FeedbackSignals()
    assert FeedbackSignals(correction=True) | FeedbackSignals(reinforcement=True) == FeedbackSignals(
        correction=True, reinforcement=True
    )
