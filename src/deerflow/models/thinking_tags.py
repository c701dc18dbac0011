"""Reasoning that a server leaves inside the answer, between `<think>` tags."""

from typing import Literal

OPENING = "<think>"
CLOSING = "</think>"


class ThinkingTags:
    """Takes the text of an answer in pieces and tells reasoning from answer; only a leading tag counts."""

    __slots__ = ("_held", "_place")

    def __init__(self) -> None:
        self._place: Literal["before", "inside", "between", "after"] = "before"
        self._held = ""  # the end of what arrived, as long as it may be the beginning of a tag

    @property
    def is_settled(self) -> bool:
        """Whether all text from now on belongs to the answer."""
        return self._place == "after"

    def split(self, text: str) -> tuple[str, str]:
        """The reasoning and the answer in `text`, with what was held back before."""
        text, self._held = self._held + text, ""
        reasoning = ""
        if self._place == "before":
            text = self._look_for_opening(text)
        if self._place == "inside":
            reasoning, text = self._look_for_closing(text)
        if self._place == "between":
            text = text.lstrip()  # blank lines between the reasoning and the answer belong to neither
            if text:
                self._place = "after"
        return reasoning, text

    def close(self) -> tuple[str, str]:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, ""
        return (held, "") if self._place == "inside" else ("", held)

    def _look_for_opening(self, text: str) -> str:
        start = text.lstrip()
        if start.startswith(OPENING):
            self._place = "inside"
            return start.removeprefix(OPENING)
        if OPENING.startswith(start):
            self._held = text
            return ""
        self._place = "after"
        return text

    def _look_for_closing(self, text: str) -> tuple[str, str]:
        reasoning, tag, answer = text.partition(CLOSING)
        if tag:
            self._place = "between"
            return reasoning, answer
        # Longest end of the text that may be the beginning of the closing tag.
        size = next((size for size in range(len(CLOSING) - 1, 0, -1) if text.endswith(CLOSING[:size])), 0)
        self._held = text[len(text) - size :]
        return text[: len(text) - size], ""
