"""Skill tests: format of `tests/*.yaml` and comparison of a run with its expectations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from deerflow.config.loader.files import parse_yaml, read_text
from deerflow.config.loader.validation import validate
from deerflow.config.sections.base import Section, make_error
from deerflow.config.sections.sandbox import VARIABLE
from deerflow.domain.errors import ConfigError
from deerflow.skills.contract import TESTS_FOLDER

MAX_BYTES = 1024 * 1024
MAX_SHOWN_OUTPUTS = 2
MAX_SHOWN_CHARS = 1500

FileType = Literal["pptx", "xlsx", "docx", "pdf", "html", "svg", "png", "jpg", "json", "csv", "md", "txt"]


class SkillTestUpload(Section):
    """A file that is uploaded before the run: copied from the tests folder, or given as text."""

    source: str | None = Field(default=None, alias="from", description="Path relative to the tests folder.")
    text: str | None = Field(default=None, description="Content.")

    @model_validator(mode="after")
    def _has_one_content(self) -> "SkillTestUpload":
        if (self.source is None) == (self.text is None):
            raise make_error("must have either 'from' or 'text'")
        return self


class SkillTestCall(Section):
    """A tool call of the scripted model."""

    tool: str = Field(min_length=1, description="The name of the tool.")
    args: dict[str, Any] = Field(default_factory=dict, description="Arguments of the call.")


class SkillTestStep(Section):
    """One reply of the scripted model."""

    calls: tuple[SkillTestCall, ...] = Field(default=(), strict=False, description="Tool calls.")
    say: str = Field(default="", description="Text of the reply.")

    @model_validator(mode="after")
    def _does_something(self) -> "SkillTestStep":
        if not self.calls and not self.say:
            raise make_error("must have 'calls', 'say' or both")
        return self


class ToolExpectation(Section):
    """Expected result of the next call of a tool."""

    tool: str = Field(min_length=1, description="The name of the tool.")
    contains: tuple[str, ...] = Field(default=(), strict=False, description="Texts that the result must contain.")
    fails: bool | None = Field(default=None, description="Expected failure status; null accepts both.")


class FileExpectation(Section):
    """Expected state of a file after the run."""

    kind: FileType | None = Field(default=None, description="Expected file type, regardless of the name.")
    contains: tuple[str, ...] = Field(default=(), strict=False, description="Texts that the file must contain.")


class SkillTestExpectation(Section):
    """Expected results of a run."""

    answer: tuple[str, ...] = Field(default=(), strict=False, description="Texts that the final answer must contain.")
    tools: tuple[ToolExpectation, ...] = Field(default=(), strict=False, description="Tool results, in order of calls.")
    files: dict[str, FileExpectation] = Field(default_factory=dict, description="Files by path.")
    absent: tuple[str, ...] = Field(default=(), strict=False, description="Paths that must not exist.")

    @field_validator("files", "absent")
    @classmethod
    def _are_absolute(cls, paths: Any) -> Any:
        if any(not path.startswith("/mnt/") or ".." in path.split("/") for path in paths):
            raise make_error("must be paths in the sandbox, for instance /mnt/user-data/outputs/report.md")
        return paths


class SkillTestLimits(Section):
    """Limits of a test."""

    seconds: float = Field(default=120.0, gt=0, le=1800, description="Time limit in seconds.")


class SkillTestScript(Section):
    """Content of a `tests/*.yaml`."""

    description: str = Field(min_length=1, description="Purpose of the test, in one sentence.")
    prompt: str = Field(min_length=1, description="User message.")
    uploads: dict[str, SkillTestUpload] = Field(default_factory=dict, description="Uploaded files by name.")
    environment: dict[str, str] = Field(default_factory=dict, description="Environment variables of the sandbox.")
    steps: tuple[SkillTestStep, ...] = Field(min_length=1, strict=False, description="Replies of the model, in order.")
    expect: SkillTestExpectation = Field(default=SkillTestExpectation(), description="Expected results.")
    limits: SkillTestLimits = Field(default=SkillTestLimits(), description="Limits of the test.")

    @field_validator("uploads")
    @classmethod
    def _are_names(cls, uploads: dict[str, SkillTestUpload]) -> dict[str, SkillTestUpload]:
        if any("/" in name or name in ("", ".", "..") for name in uploads):
            raise make_error("must have plain file names, without folders")
        return uploads

    @field_validator("environment")
    @classmethod
    def _are_variables(cls, variables: dict[str, str]) -> dict[str, str]:
        if any(not VARIABLE.fullmatch(name) for name in variables):
            raise make_error("must have names of letters, digits and '_' that do not begin with a digit")
        return variables


@dataclass(frozen=True, slots=True)
class SkillTest:
    """One test of a skill."""

    file: Path
    script: SkillTestScript
    uploads: Mapping[str, bytes]

    @property
    def name(self) -> str:
        return self.file.stem


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Result of a tool call."""

    tool: str
    output: str
    failed: bool


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result of checking a file."""

    exists: bool
    problem: str | None = None
    """Reason why it is not of the expected type."""
    missing: tuple[str, ...] = ()
    """Expected texts that it does not contain."""
    beginning: str = ""


@dataclass(frozen=True, slots=True)
class SkillTestOutcome:
    """Results of a run."""

    answer: str = ""
    calls: Sequence[ToolOutcome] = ()
    files: Mapping[str, FileOutcome] = field(default_factory=dict)
    problem: str | None = None
    """Reason why the run did not complete."""
    unused_steps: int = 0


def read_test(file: Path) -> SkillTest:
    """Read a test with its uploads.

    Raises:
        ConfigError: The test is invalid; the message names the file, line and key.
    """
    name = f"{TESTS_FOLDER}/{file.name}"
    if file.stat().st_size > MAX_BYTES:
        raise ConfigError(f"{name}: is larger than {MAX_BYTES // 1024} KB")
    script = validate(SkillTestScript, parse_yaml(read_text(file, name), name))
    uploads = {each: read_upload(file.parent, name, each, upload) for each, upload in script.uploads.items()}
    return SkillTest(file, script, uploads)


def read_upload(folder: Path, test: str, name: str, upload: SkillTestUpload) -> bytes:
    """Return the content of an upload."""
    if upload.source is None:
        return (upload.text or "").encode()
    path = (folder / upload.source).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ConfigError(f"{test}: uploads.{name}.from: must be inside the tests folder, not {upload.source!r}")
    if not path.is_file():
        raise ConfigError(f"{test}: uploads.{name}.from: file not found in the tests folder: {upload.source!r}")
    return path.read_bytes()


def find_failures(test: SkillTest, outcome: SkillTestOutcome) -> list[str]:
    """Return all failed expectations of a run."""
    failures = [] if outcome.problem is None else [f"the run did not complete: {outcome.problem}"]
    if outcome.unused_steps and outcome.problem is None:
        failures.append(f"the last {outcome.unused_steps} of {len(test.script.steps)} steps were not used")
    expected = test.script.expect
    failures += [
        f"answer: expected {text!r}, got {clip_start(outcome.answer)!r}"
        for text in expected.answer
        if collapse_whitespace(text) not in collapse_whitespace(outcome.answer)
    ]
    failures += check_tools(expected.tools, outcome.calls)
    failures += [
        line for path in expected.files for line in check_output_file(path, expected.files[path], outcome.files)
    ]
    failures += [f"{path}: expected no file, but it exists" for path in expected.absent if file_exists(path, outcome)]
    return failures


def check_tools(expected: Sequence[ToolExpectation], calls: Sequence[ToolOutcome]) -> Iterator[str]:
    """Yield failed tool expectations. Each one applies to the next call of its tool after the previous match."""
    rest = list(enumerate(calls, 1))
    for number, each in enumerate(expected, 1):
        position = next((index for index, (_, call) in enumerate(rest) if call.tool == each.tool), None)
        if position is None:
            actual = ", ".join(call.tool for call in calls) or "none"
            yield f"tools[{number}]: expected a call of {each.tool}, calls were: {actual}"
            return
        (count, call), rest = rest[position], rest[position + 1 :]
        subject = f"tools[{number}] ({each.tool}, call {count})"
        for text in each.contains:
            if collapse_whitespace(text) not in collapse_whitespace(call.output):
                yield f"{subject}: expected {text!r}, got {clip_start(call.output)!r}"
        if each.fails is not None and each.fails != call.failed:
            expected_status, actual = ("fail", "succeeded") if each.fails else ("succeed", "failed")
            yield f"{subject}: expected to {expected_status}, it {actual}: {clip_start(call.output)!r}"


def check_output_file(path: str, expected: FileExpectation, files: Mapping[str, FileOutcome]) -> Iterator[str]:
    """Yield failed expectations of one file."""
    outcome = files.get(path, FileOutcome(exists=False))
    if not outcome.exists:
        yield f"{path}: expected a file, but it does not exist"
        return
    if outcome.problem is not None:
        yield f"{path}: expected {expected.kind or 'a text'}, but {outcome.problem}"
    for text in outcome.missing:
        yield f"{path}: expected {text!r} in it, it begins {outcome.beginning!r}"


def format_last_outputs(outcome: SkillTestOutcome) -> list[str]:
    """Return the outputs of the last tool calls, for debugging."""
    return [f"{call.tool}: {clip_start(call.output)}" for call in outcome.calls[-MAX_SHOWN_OUTPUTS:]]


def file_exists(path: str, outcome: SkillTestOutcome) -> bool:
    """Return True if a file exists after the run."""
    return outcome.files.get(path, FileOutcome(exists=False)).exists


def collapse_whitespace(text: str) -> str:
    """Return a text with all whitespace collapsed to single blanks."""
    return " ".join(text.split())


def clip_start(text: str) -> str:
    """Return the end of a text, where errors usually are."""
    text = text.strip()
    return text if len(text) <= MAX_SHOWN_CHARS else f"… {text[-MAX_SHOWN_CHARS:]}"
