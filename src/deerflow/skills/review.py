"""A model's opinion of a skill that strangers or agents have written, asked for after the fixed rules."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, Field, ValidationError

from deerflow.domain.budget import Budget
from deerflow.domain.errors import SkillRefused
from deerflow.skills.history import Verdict
from deerflow.skills.scanner.package import SkillFile
from deerflow.skills.scanner.rules import Finding
from deerflow.skills.store import Author

INSTRUCTIONS = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
MAX_CHARACTERS = 200_000
MAX_FINDINGS = 40
FENCED = re.compile(r"\A```(?:json)?\s*(\{.*\})\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model said, or why it said nothing."""

    text: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewQuestion:
    """What a model is asked, and in whose name."""

    instructions: str
    skill: str
    owner: str
    thread_id: str | None = None
    budget: Budget | None = None
    """What pays for it; None: nobody minds."""


class Ask(Protocol):
    """Puts a question to the model that reviews skills; a failure is part of the answer."""

    async def __call__(self, question: ReviewQuestion) -> Opinion: ...


class Answer(BaseModel):
    """What the model has to answer with."""

    decision: Literal["allow", "warn", "block"]
    reason: str = Field(min_length=1, max_length=2000)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is reviewed: some files of a skill, and what the rules said of them."""

    name: str
    files: Sequence[SkillFile]
    findings: Sequence[Finding]
    is_executable: bool


@dataclass(frozen=True, slots=True)
class SkillReviewer:
    """Asks a model, and knows what its answer leads to."""

    ask: Ask

    async def review(self, subject: Subject, owner: str, author: Author, *, fail_closed: bool) -> Verdict:
        """What is noted of a change that is accepted.

        Raises:
            SkillRefused: The model blocks it; or there is no proper answer and the change has scripts, or
                `fail_closed` wants one in any case.
        """
        shown = show(subject)
        if shown is None:
            return self._without_answer("there is more of it than a model can read", subject, fail_closed=fail_closed)
        opinion = await self.ask(ReviewQuestion(INSTRUCTIONS, shown, owner, author.thread_id, author.budget))
        answer = read_answer(opinion.text) if opinion.reason is None else None
        if answer is None:
            why = opinion.reason or "the model did not answer in the form it was asked for"
            return self._without_answer(why, subject, fail_closed=fail_closed)
        if answer.decision == "block" or (answer.decision == "warn" and subject.is_executable):
            raise SkillRefused(f"refused by the review: {answer.reason}")
        return Verdict(decision=answer.decision, reason=answer.reason, findings=list(subject.findings))

    def _without_answer(self, why: str, subject: Subject, *, fail_closed: bool) -> Verdict:
        if subject.is_executable or fail_closed:
            remedy = "choose another model by skill_evolution.moderation_model_name"
            if not subject.is_executable:
                remedy += ", or set skill_evolution.security_fail_closed to false for skills without scripts"
            raise SkillRefused(f"refused because there was no review: {why}; {remedy}")
        return Verdict(decision="warn", reason=f"not reviewed: {why}", findings=list(subject.findings))


def show(subject: Subject) -> str | None:
    """What the model is to judge, as JSON, in which a text cannot pretend to be more; None: it is too much."""
    findings = [str(finding) for finding in subject.findings[:MAX_FINDINGS]]
    files = {file.path: file.content.decode("utf-8", errors="replace") for file in subject.files if file.is_text}
    text = json.dumps({"skill": subject.name, "files": files, "rules say": findings}, ensure_ascii=False, indent=1)
    return text if len(text) <= MAX_CHARACTERS else None


def read_answer(text: str) -> Answer | None:
    """The answer of a model, if it is one; models like to put a fence around JSON."""
    bare = text.strip()
    fenced = FENCED.match(bare)
    try:
        return Answer.model_validate_json(fenced[1] if fenced else bare)
    except ValidationError:
        return None
