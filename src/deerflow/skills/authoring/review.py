"""Model review of skills and changes that were not written by the user."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, Field, ValidationError

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, SkillInvalid, SkillRefused, TooLarge
from deerflow.domain.usage import ModelBudget
from deerflow.skills.authoring.history import AuthorKind, Verdict
from deerflow.skills.authoring.lock import READ_FLAGS, walk_files
from deerflow.skills.authoring.store import Author, decode_text
from deerflow.skills.format import SKILL_FILE, parse_skill
from deerflow.skills.scanner.rules import HEAD_BYTES, MAX_ALL_TEXT, MAX_TEXT, SCRIPT_SUFFIXES, Finding, ScannedFile

INSTRUCTIONS = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
MAX_CHARACTERS = 200_000
MAX_FINDINGS = 40
CODE_FENCE = re.compile(r"\A```(?:json)?\s*(\{.*\})\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReviewReply:
    """Reply of the reviewing model, or the reason why there is none."""

    text: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A review request, with the user and budget that it is charged to."""

    instructions: str
    skill: str
    owner: str
    thread_id: str | None = None
    budget: ModelBudget | None = None
    """Budget that is charged, if any."""


class AskReviewer(Protocol):
    """Function that sends a request to the reviewing model. Failures are part of the reply."""

    async def __call__(self, question: ReviewRequest) -> ReviewReply: ...


class ReviewDecision(BaseModel):
    """Decision in the JSON reply of the model."""

    decision: Literal["allow", "warn", "block"]
    reason: str = Field(min_length=1, max_length=2000)


@dataclass(frozen=True, slots=True)
class ReviewSubject:
    """Files under review, with the findings of the scanner."""

    name: str
    files: Sequence[ScannedFile]
    findings: Sequence[Finding]
    is_executable: bool


@dataclass(frozen=True, slots=True)
class SkillReviewer:
    """Reviewer that asks a model and applies its decision."""

    ask: AskReviewer

    async def review(self, subject: ReviewSubject, owner: str, author: Author, *, fail_closed: bool) -> Verdict:
        """Return the verdict on an accepted change.

        Raises:
            SkillRefused: The model blocks the change. Also raised without a valid reply if the change has scripts or
                `fail_closed` is set.
        """
        rendered = render_subject(subject)
        if rendered is None:
            return self._handle_missing_review("it is too large for a review", subject, fail_closed=fail_closed)
        reply = await self.ask(ReviewRequest(INSTRUCTIONS, rendered, owner, author.thread_id, author.budget))
        decision = parse_decision(reply.text) if reply.reason is None else None
        if decision is None:
            reason = reply.reason or "the model did not reply in the requested format"
            return self._handle_missing_review(reason, subject, fail_closed=fail_closed)
        if decision.decision == "block" or (decision.decision == "warn" and subject.is_executable):
            raise SkillRefused(f"refused by the review: {decision.reason}")
        return Verdict(decision=decision.decision, reason=decision.reason, findings=list(subject.findings))

    def _handle_missing_review(self, reason: str, subject: ReviewSubject, *, fail_closed: bool) -> Verdict:
        if subject.is_executable or fail_closed:
            remedy = "choose another model by skill_evolution.moderation_model_name"
            if not subject.is_executable:
                remedy += ", or set skill_evolution.security_fail_closed to false for skills without scripts"
            raise SkillRefused(f"refused because there was no review: {reason}; {remedy}")
        return Verdict(decision="warn", reason=f"not reviewed: {reason}", findings=list(subject.findings))


def render_subject(subject: ReviewSubject) -> str | None:
    """Return the subject as JSON, which content cannot escape from; None if it is too large."""
    findings = [str(finding) for finding in subject.findings[:MAX_FINDINGS]]
    files = {file.path: file.content.decode("utf-8", errors="replace") for file in subject.files if file.is_text}
    text = json.dumps({"skill": subject.name, "files": files, "rules say": findings}, ensure_ascii=False, indent=1)
    return text if len(text) <= MAX_CHARACTERS else None


def parse_decision(text: str) -> ReviewDecision | None:
    """Parse the reply of a model, with or without a code fence. Return None if it is invalid."""
    bare = text.strip()
    fenced = CODE_FENCE.match(bare)
    try:
        return ReviewDecision.model_validate_json(fenced[1] if fenced else bare)
    except ValidationError:
        return None


SUPPORT_FOLDERS = ("references", "templates", "scripts", "assets")
TESTS_FOLDER, CONTRACT_FILE = "tests", "skill.toml"
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 2000
SUPPORT_PATH = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}(?:/[A-Za-z0-9_][\w.-]{0,99}){1,6}")


def check_support_path(path: str, author: AuthorKind) -> str:
    """Return `path` if it is valid for a support file.

    Agents may write neither the contract nor the tests of a skill, because their changes are checked against these.

    Raises:
        InvalidRequest: The path is not allowed.
    """
    folders = SUPPORT_FOLDERS if author == "agent" else (*SUPPORT_FOLDERS, TESTS_FOLDER)
    if author != "agent" and path == CONTRACT_FILE:
        return path
    if not SUPPORT_PATH.fullmatch(path) or path.split("/")[0] not in folders or has_long_name(path):
        allowed = ", ".join(f"{folder}/" for folder in folders)
        raise InvalidRequest(f"{path[:200]!r}: files of a skill must be in one of {allowed} and have plain names")
    return path


def check_path(path: str) -> str:
    """Return `path` if it stays inside the skill, else raise `NotFound`."""
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path or has_long_name(path):
        raise NotFound(f"file not found: {path[:200]!r}")
    return path


def has_long_name(path: str) -> bool:
    """Return whether a path or a name in it is longer than file systems take."""
    encoded = path.encode(errors="replace")
    return len(encoded) > MAX_PATH_BYTES or any(len(name) > MAX_NAME_BYTES for name in encoded.split(b"/"))


def check_header(name: str, content: bytes | None) -> None:
    """Refuse an invalid SKILL.md, or one with another name."""
    text = decode_text(content)
    if text is None:
        raise SkillInvalid(f"{SKILL_FILE}: is missing or not text")
    header = parse_skill(text)
    if header.name != name:
        raise InvalidRequest(f"skill {name!r} cannot be renamed to {header.name!r}; create a new one")


def check_hash(name: str, content: bytes | None, expected: str | None) -> None:
    """Refuse a change of content that does not match the expected hash."""
    if expected is None:
        return
    actual = None if content is None else hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise Conflict(f"skill {name!r} was changed in the meantime (its hash is {actual}); load it again")


def encode(content: str) -> bytes:
    """Return a text as UTF-8 bytes."""
    try:
        encoded = content.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("content: lone surrogates are not valid text") from None
    if len(encoded) > MAX_TEXT:
        raise TooLarge(f"content: a file of a skill has at most {MAX_TEXT // 1024**2} MB, not {len(encoded)} bytes")
    return encoded


def encode_optional(text: str | None) -> bytes | None:
    """Return a text of the history as bytes, or None."""
    return None if text is None else text.encode()


def select_reviewed_files(files: Sequence[ScannedFile]) -> Sequence[ScannedFile]:
    """Return the files that a model reviews: instructions and scripts."""
    return [file for file in files if file.is_script or file.path.endswith((".md", *SCRIPT_SUFFIXES, ".toml", ".yaml"))]


def read_files(folder: Path, changes: Mapping[str, bytes | None] | None = None) -> list[ScannedFile]:
    """Read the files below `folder` for the scanner, with `changes` applied (None removes a file). Blocks."""
    changes = changes or {}
    remaining = MAX_ALL_TEXT
    actual = []
    for path, status in walk_files(folder):
        if path in changes:
            continue
        content = b"" if stat.S_ISLNK(status.st_mode) else read_head(folder / path, remaining)
        remaining -= len(content)
        actual.append(ScannedFile(path, status.st_size, content, is_link=not stat.S_ISREG(status.st_mode)))
    actual += [
        ScannedFile(path, len(content), content[:MAX_TEXT]) for path, content in changes.items() if content is not None
    ]
    return sorted(actual, key=lambda file: file.path)


def read_head(file: Path, remaining: int) -> bytes:
    """Return the content of a text file up to the limit, and only the first bytes of a binary file."""
    with os.fdopen(os.open(file, READ_FLAGS), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return b""
        head = opened.read(HEAD_BYTES)
        # One byte beyond the remaining size is enough to exceed the limit.
        return (
            head if b"\0" in head else head + opened.read(min(MAX_TEXT, remaining + 1) - min(len(head), remaining + 1))
        )
