"""A run to carry out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from deerflow.domain.budget import SpendingLimit
from deerflow.domain.runs import (
    AgentSpec,
    CancelAction,
    Command,
    DisconnectMode,
    MultitaskStrategy,
    Resume,
    RunRecord,
    RunRequest,
)
from deerflow.persistence.runs import ClaimedRun
from deerflow.runtime.changes import DerivedState
from deerflow.runtime.runs.ledger import Earlier
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.runs.records import Records
from deerflow.runtime.runs.schemas import messages_of

HANDED_OVER = b'{"type":"handed_over"}'
"""A custom event: the server is put away in good order, and the run goes on in another process."""


@dataclass(frozen=True, slots=True)
class Past:
    """What the log tells of a run whose process died."""

    last_seq: int
    known: DerivedState
    """The thread as readers know it."""
    answer: PartialAnswer
    """The message it was in the middle of."""
    calls: Earlier
    steered: Sequence[BaseMessage] = ()
    """What people had said to it."""
    deaths: int = 0
    """How often a process died of it, or at least with it."""
    failure: Mapping[str, str] | None = None
    """What readers were told of how it failed; there is nothing left but to end it."""


@dataclass(slots=True)
class Signals:
    """What a run under way is told: that somebody writes to it, and how it is to be stopped before its task is."""

    action: CancelAction = CancelAction.INTERRUPT
    leaves_unfinished: bool = False
    """Whether it is to go on in another process."""
    has_mail: bool = False
    """Whether somebody wants to say something to it."""
    heard: list[BaseMessage] = field(default_factory=list)
    """What was said to it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run with what it was asked for; `past` when an earlier attempt has begun it."""

    run: RunRecord
    request: RunRequest
    messages: Sequence[BaseMessage] = ()
    past: Past | None = None
    stop: CancelAction | None = None
    """How it was to be stopped by those who had it before: it is not gone on with."""
    signals: Signals = field(default_factory=Signals)
    records: Records = field(default_factory=Records)


def stored_job(claimed: ClaimedRun, past: Past | None = None, records: Records | None = None) -> Job:
    """A run as the database has it."""
    request = read_request(claimed.request)
    return Job(claimed.record, request, messages_of(request), past, claimed.stop, records=records or Records())


def read_request(stored: Mapping[str, Any]) -> RunRequest:
    """The request that `to_stored` wrote."""
    resume, command = stored["resume"], stored.get("command")
    words = {
        "agent": AgentSpec.of(stored["agent"]),
        "on_disconnect": DisconnectMode(stored["on_disconnect"]),
        "multitask_strategy": MultitaskStrategy(stored.get("multitask_strategy", MultitaskStrategy.REJECT)),
        "resume": Resume(resume["answer"]) if resume else None,
        "command": Command(**command) if command else None,
        "budget": SpendingLimit.of(stored["budget"]) if stored.get("budget") else None,
    }
    return RunRequest(**{**stored, **words})
