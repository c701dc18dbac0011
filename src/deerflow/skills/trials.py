"""The tests of a skill: `tests/*.yaml`, what they expect, and how far what came falls short of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from deerflow.config.files import read_text
from deerflow.config.reading.text import parse_yaml
from deerflow.config.reading.validation import validate
from deerflow.config.sandbox import VARIABLE
from deerflow.config.section import Section, objection
from deerflow.domain.errors import ConfigError
from deerflow.skills.trial_files import FOLDER

MAX_BYTES = 1024 * 1024
SHOWN_OUTPUTS = 2
SHOWN_CHARS = 1500

Kind = Literal["pptx", "xlsx", "docx", "pdf", "html", "svg", "png", "jpg", "json", "csv", "md", "txt"]


class TrialUpload(Section):
    """A file that is there before the run: one beside the test, or a text."""

    source: str | None = Field(default=None, alias="from", description="Its path, seen from the folder of the test.")
    text: str | None = Field(default=None, description="What is in it.")

    @model_validator(mode="after")
    def _has_one_content(self) -> "TrialUpload":
        if (self.source is None) == (self.text is None):
            raise objection("must have either 'from' or 'text'")
        return self


class TrialCall(Section):
    """A call of a tool by the scripted model."""

    tool: str = Field(min_length=1, description="The name of the tool.")
    args: dict[str, Any] = Field(default_factory=dict, description="What it is called with.")


class TrialStep(Section):
    """What the scripted model answers when it is asked once."""

    calls: tuple[TrialCall, ...] = Field(default=(), strict=False, description="The tools it calls.")
    say: str = Field(default="", description="What it says.")

    @model_validator(mode="after")
    def _does_something(self) -> "TrialStep":
        if not self.calls and not self.say:
            raise objection("must have 'calls', 'say' or both")
        return self


class ToolExpectation(Section):
    """What the next call of a tool must have come to."""

    tool: str = Field(min_length=1, description="The name of the tool.")
    contains: tuple[str, ...] = Field(default=(), strict=False, description="Texts in its result.")
    fails: bool | None = Field(default=None, description="Whether it must fail; null: either way.")


class FileExpectation(Section):
    """What a file must be in the end."""

    kind: Kind | None = Field(default=None, description="What its content must be, whatever its name.")
    contains: tuple[str, ...] = Field(default=(), strict=False, description="Texts in it.")


class TrialExpectation(Section):
    """What must have come of a run."""

    answer: tuple[str, ...] = Field(default=(), strict=False, description="Texts in the last answer.")
    tools: tuple[ToolExpectation, ...] = Field(default=(), strict=False, description="Results, in order of calls.")
    files: dict[str, FileExpectation] = Field(default_factory=dict, description="Files, by their paths.")
    absent: tuple[str, ...] = Field(default=(), strict=False, description="Files that must not be there.")

    @field_validator("files", "absent")
    @classmethod
    def _are_absolute(cls, paths: Any) -> Any:
        if any(not path.startswith("/mnt/") or ".." in path.split("/") for path in paths):
            raise objection("must be paths as the agent sees them, for instance /mnt/user-data/outputs/report.md")
        return paths


class TrialLimits(Section):
    """How far a test may go."""

    seconds: float = Field(default=120.0, gt=0, le=1800, description="After so many seconds it has failed.")


class TrialScript(Section):
    """The whole of a `tests/*.yaml`."""

    description: str = Field(min_length=1, description="What it shows, in a sentence.")
    prompt: str = Field(min_length=1, description="What the user says.")
    uploads: dict[str, TrialUpload] = Field(default_factory=dict, description="Files given with it, by name.")
    environment: dict[str, str] = Field(default_factory=dict, description="Variables, as an operator would set them.")
    steps: tuple[TrialStep, ...] = Field(min_length=1, strict=False, description="What the model answers, in order.")
    expect: TrialExpectation = Field(default=TrialExpectation(), description="What must come of it.")
    limits: TrialLimits = Field(default=TrialLimits(), description="How far it may go.")

    @field_validator("uploads")
    @classmethod
    def _are_names(cls, uploads: dict[str, TrialUpload]) -> dict[str, TrialUpload]:
        if any("/" in name or name in ("", ".", "..") for name in uploads):
            raise objection("must have plain file names, without folders")
        return uploads

    @field_validator("environment")
    @classmethod
    def _are_variables(cls, variables: dict[str, str]) -> dict[str, str]:
        if any(not VARIABLE.fullmatch(name) for name in variables):
            raise objection("must have names of letters, digits and '_' that begin with no digit")
        return variables


@dataclass(frozen=True, slots=True)
class Trial:
    """One test of a skill."""

    file: Path
    script: TrialScript
    uploads: Mapping[str, bytes]

    @property
    def name(self) -> str:
        return self.file.stem


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call of a tool came to."""

    tool: str
    output: str
    failed: bool


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What was found at a path: nothing, or a file with what is wrong about it."""

    exists: bool
    problem: str | None = None
    """Why it is not of the kind that was expected."""
    missing: tuple[str, ...] = ()
    """The texts that are not in it."""
    beginning: str = ""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What came of a run."""

    answer: str = ""
    calls: Sequence[ToolOutcome] = ()
    files: Mapping[str, FileOutcome] = field(default_factory=dict)
    problem: str | None = None
    """Why the run did not come to its end."""
    unused_steps: int = 0


def read_trial(file: Path) -> Trial:
    """A test, with the files it gives to the agent.

    Raises:
        ConfigError: Something in it is wrong; the text names the file, the line and the key.
    """
    name = f"{FOLDER}/{file.name}"
    if file.stat().st_size > MAX_BYTES:
        raise ConfigError(f"{name}: is larger than {MAX_BYTES // 1024} KB")
    script = validate(TrialScript, parse_yaml(read_text(file, name), name))
    uploads = {each: read_upload(file.parent, name, each, upload) for each, upload in script.uploads.items()}
    return Trial(file, script, uploads)


def read_upload(folder: Path, test: str, name: str, upload: TrialUpload) -> bytes:
    """The content of a file that a test gives to the agent."""
    if upload.source is None:
        return (upload.text or "").encode()
    path = (folder / upload.source).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ConfigError(f"{test}: uploads.{name}.from: must stay below the folder of the tests: {upload.source!r}")
    if not path.is_file():
        raise ConfigError(f"{test}: uploads.{name}.from: there is no file {upload.source!r} beside the test")
    return path.read_bytes()


def judge(trial: Trial, outcome: TrialOutcome) -> list[str]:
    """Everything in which a run fell short of what its test expects."""
    complaints = [] if outcome.problem is None else [f"the run did not come to its end: {outcome.problem}"]
    if outcome.unused_steps and outcome.problem is None:
        complaints.append(f"the last {outcome.unused_steps} of {len(trial.script.steps)} steps were never asked for")
    expected = trial.script.expect
    complaints += [
        f"answer: expected {text!r}, came {clipped(outcome.answer)!r}"
        for text in expected.answer
        if plain(text) not in plain(outcome.answer)
    ]
    complaints += judge_tools(expected.tools, outcome.calls)
    complaints += [line for path in expected.files for line in judge_file(path, expected.files[path], outcome.files)]
    complaints += [f"{path}: expected none, but it is there" for path in expected.absent if is_there(path, outcome)]
    return complaints


def judge_tools(expected: Sequence[ToolExpectation], calls: Sequence[ToolOutcome]) -> Iterator[str]:
    """Each expectation is about the next call of its tool, after the one the expectation before it was about."""
    rest = list(enumerate(calls, 1))
    for number, each in enumerate(expected, 1):
        found = next((place for place, (_, call) in enumerate(rest) if call.tool == each.tool), None)
        if found is None:
            came = ", ".join(call.tool for call in calls) or "none"
            yield f"tools[{number}]: expected a call of {each.tool}, calls were: {came}"
            return
        (count, call), rest = rest[found], rest[found + 1 :]
        subject = f"tools[{number}] ({each.tool}, call {count})"
        for text in each.contains:
            if plain(text) not in plain(call.output):
                yield f"{subject}: expected {text!r}, came {clipped(call.output)!r}"
        if each.fails is not None and each.fails != call.failed:
            wanted, came = ("fail", "succeeded") if each.fails else ("succeed", "failed")
            yield f"{subject}: expected to {wanted}, it {came}: {clipped(call.output)!r}"


def judge_file(path: str, expected: FileExpectation, files: Mapping[str, FileOutcome]) -> Iterator[str]:
    """What is wrong with one file."""
    found = files.get(path, FileOutcome(exists=False))
    if not found.exists:
        yield f"{path}: expected a file, there is none"
        return
    if found.problem is not None:
        yield f"{path}: expected {expected.kind or 'a text'}, but {found.problem}"
    for text in found.missing:
        yield f"{path}: expected {text!r} in it, it begins {found.beginning!r}"


def last_outputs(outcome: TrialOutcome) -> list[str]:
    """What the last tools said, for whoever wonders why."""
    return [f"{call.tool}: {clipped(call.output)}" for call in outcome.calls[-SHOWN_OUTPUTS:]]


def is_there(path: str, outcome: TrialOutcome) -> bool:
    """Whether a path leads to a file."""
    return outcome.files.get(path, FileOutcome(exists=False)).exists


def plain(text: str) -> str:
    """A text without regard to where its lines break."""
    return " ".join(text.split())


def clipped(text: str) -> str:
    """The end of a text, where errors are."""
    text = text.strip()
    return text if len(text) <= SHOWN_CHARS else f"… {text[-SHOWN_CHARS:]}"
