"""Runner of skill tests: a scripted model, a harness with a temporary home, and the real sandbox."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from deerflow.client.runs import RunEventReader
from deerflow.config.load import HOME_NAME, LoadedConfig
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import DeerFlowError, RunFailed, SandboxError
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest
from deerflow.domain.threads import ThreadRecord
from deerflow.harness import Harness, open_harness
from deerflow.runtime.journal.serialization import extract_text
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobs, describe_missing_packages, find_missing_packages
from deerflow.skills.contract import read_contract
from deerflow.skills.folders import custom_root, read_skill_file
from deerflow.skills.format import Category, parse_skill
from deerflow.skills.testing import (
    FileExpectation,
    FileOutcome,
    SkillTest,
    SkillTestOutcome,
    SkillTestStep,
    ToolOutcome,
    find_failures,
    format_last_outputs,
)
from deerflow.testing import Answer, ScriptedModel, ToolRequest

FILE_CHECK = SandboxJob(
    (Path(__file__).parent.parent / "skills" / "check_file.py").read_text(encoding="utf-8"),
    packages=("pptx", "docx", "openpyxl", "pypdf", "PIL", "defusedxml", "bs4"),
)
INHERITED_VARIABLES = ("PATH", "HOME", "XDG_CACHE_HOME")
"""Environment variables passed on, to find programs and the toolbox."""
OFFLINE_TOOLS = tuple(
    {"name": name, "group": "web", "use": f"deerflow.cli.skill_test_runner:{name}"}
    for name in ("web_search", "web_fetch", "image_search")
)
EXIT_CODE_PREFIX = "[exit code "
SETUP_LIMIT_S = 120.0
"""Time limit for uploads and file checks, in addition to the limit of the test."""


@dataclass(frozen=True, slots=True)
class SkillTestResult:
    """Result of a skill test."""

    trial: str
    complaints: Sequence[str]
    outputs: Sequence[str]
    """Last tool outputs; empty if the test passed."""
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.complaints


@dataclass(frozen=True, slots=True)
class SkillUnderTest:
    """Skill to be tested."""

    name: str
    folder: Path
    category: Category = "public"
    packages: tuple[str, ...] = ()
    """Packages required by its contract."""

    @classmethod
    def read(cls, folder: Path, category: Category = "public") -> Self:
        """Read the skill in a folder of any name.

        Raises:
            SkillInvalid: the skill is invalid.
        """
        header, contract = parse_skill(read_skill_file(folder), folder=folder.name), read_contract(folder)
        return cls(header.name, folder, category, contract.needs.packages if contract else ())


@dataclass(frozen=True, slots=True)
class SkillTestRunner:
    """Runner of skill tests on this machine."""

    machine: LoadedConfig
    """Configuration of the machine; only its toolbox is used."""

    async def run(self, skill: SkillUnderTest, test: SkillTest) -> SkillTestResult:
        """Run one test of a skill and return its result."""
        began = time.monotonic()
        with temporary_folder() as folder:
            try:
                outcome = await self._execute(folder, skill, test)
            except (DeerFlowError, TimeoutError, OSError) as problem:
                outcome = SkillTestOutcome(problem=str(problem) or "timed out")
        complaints = find_failures(test, outcome)
        outputs = format_last_outputs(outcome) if complaints else ()
        return SkillTestResult(test.name, complaints, outputs, time.monotonic() - began)

    async def _execute(self, folder: Path, skill: SkillUnderTest, test: SkillTest) -> SkillTestOutcome:
        shipped, custom = folder / "skills", custom_root(folder / HOME_NAME, LOCAL_USER.user_id)
        root = shipped / "public" if skill.category == "public" else custom
        await asyncio.to_thread(shutil.copytree, skill.folder, root / skill.name, symlinks=True)
        model = ScriptedModel.saying(*map(build_answer, test.script.steps))
        async with open_harness(self._source(folder, shipped, test), model) as harness:
            await (
                harness.core.sandboxes.prepare()
            )  # the first time on a machine this builds the toolbox, which takes minutes
            if not harness.core.sandbox_report.runs_commands:
                raise SandboxError(harness.core.sandbox_report.problem or harness.core.sandbox_report.detail)
            async with asyncio.timeout(test.script.limits.seconds + SETUP_LIMIT_S):
                return await run_test(harness, model, skill, test)

    def _source(self, folder: Path, skills: Path, test: SkillTest) -> ConfigSource:
        """Return a configuration of defaults, without network access."""
        inherited = self.machine.environment
        environment = {name: inherited[name] for name in INHERITED_VARIABLES if name in inherited}
        overrides: dict[str, object] = {
            "sandbox": {
                "network": "none",
                "environment": dict(test.script.environment),
                "toolbox": self.machine.config.sandbox.toolbox.model_dump(mode="json"),
            },
            "tools": list(OFFLINE_TOOLS),
            "skills": {"path": str(skills)},
            "suggestions": {"enabled": False},
            "guardrails": {"enabled": False},  # no user can approve calls
            "memory": {"enabled": False},
            "log_level": "error",
        }
        return open_source(directory=folder, environment=environment, overrides=overrides)


async def run_test(harness: Harness, model: ScriptedModel, skill: SkillUnderTest, test: SkillTest) -> SkillTestOutcome:
    """Run a test in an open harness and return its outcome."""
    thread = await harness.threads.create(LOCAL_USER, None, {}, may_exist=False)
    await check_packages(harness, thread, skill)
    await upload_files(harness, thread, test.uploads)
    scripted_run = ScriptedRun(harness, thread.thread_id)
    problem = await scripted_run.execute(test)
    return SkillTestOutcome(
        answer=scripted_run.answer,
        calls=scripted_run.calls,
        files=await check_files(harness, thread, collect_expected_files(test)),
        problem=problem,
        unused_steps=max(0, len(test.script.steps) - len(model.requests)),
    )


@dataclass(slots=True)
class ScriptedRun:
    """Run of a test, with its answer and messages."""

    harness: Harness
    thread_id: str
    answer: str = ""
    messages: Sequence[Mapping[str, Any]] = ()

    async def execute(self, test: SkillTest) -> str | None:
        """Send the prompt and wait for the end of the run; return the reason of a failure."""
        agent = AgentSpec(is_plan_mode=True, subagent_enabled=True)
        request = RunRequest(self.thread_id, [{"type": "human", "content": test.script.prompt}], agent)
        runs, reader, seconds = self.harness.runs, RunEventReader(), test.script.limits.seconds
        run = await runs.create_or_reject(request, LOCAL_USER)
        reader.begin(await runs.state_before(run, after=0))
        try:
            async with asyncio.timeout(seconds), aclosing(runs.listen(run)) as groups:
                async for group in groups:
                    self._collect(event.data for event in filter(None, map(reader.read, group)))
        except RunFailed as failed:
            return str(failed)
        except TimeoutError:
            await runs.stop(run.run_id)
            return f"timed out after {seconds:g} s (limits.seconds)"
        finally:
            self.answer = reader.answer
        return None

    def _collect(self, events: Iterator[Mapping[str, Any]]) -> None:
        for data in events:
            self.messages = data.get("messages", self.messages)

    @property
    def calls(self) -> list[ToolOutcome]:
        """Return the outcomes of the tool calls, in order."""
        results = (message for message in self.messages if message["type"] == "tool")
        return [tool_outcome(message) for message in results]


def tool_outcome(message: Mapping[str, Any]) -> ToolOutcome:
    """Return the outcome of a tool call; a command with a non-zero exit code has failed."""
    output = extract_text(message["content"])
    has_code = message["name"] == "bash" and output.rpartition("\n")[2].startswith(EXIT_CODE_PREFIX)
    return ToolOutcome(message["name"] or "", output, message.get("status") == "error" or has_code)


def build_answer(step: SkillTestStep) -> Answer:
    """Return the answer of the scripted model for a step."""
    return Answer(
        step.say, calls=tuple(ToolRequest(call.tool, orjson.dumps(call.args).decode()) for call in step.calls)
    )


async def check_packages(harness: Harness, thread: ThreadRecord, skill: SkillUnderTest) -> None:
    """Check that the packages required by the skill are installed in the sandbox.

    Raises:
        SandboxError: a package is missing.
    """
    if not skill.packages:
        return
    sandbox_id = await harness.core.sandboxes.acquire(thread.thread_id, thread.owner)
    sandbox = await harness.core.sandboxes.get(sandbox_id)
    lacking = await find_missing_packages(sandbox, skill.packages) if sandbox is not None else ()
    await harness.core.sandboxes.release(sandbox_id)
    if lacking:
        raise SandboxError(describe_missing_packages(skill.name, lacking))


async def upload_files(harness: Harness, thread: ThreadRecord, uploads: Mapping[str, bytes]) -> None:
    """Upload files to a thread."""
    if not uploads:
        return
    async with harness.core.uploads.receive(thread) as reception:
        for name, content in uploads.items():
            await reception.begin(name)
            await reception.write(content)
            await reception.end()
        await harness.core.uploads.complete(thread, reception)


def collect_expected_files(test: SkillTest) -> dict[str, FileExpectation]:
    """Return the files to check, including those that must not exist."""
    expected = test.script.expect
    return {**{path: FileExpectation() for path in expected.absent}, **expected.files}


async def check_files(
    harness: Harness, thread: ThreadRecord, wanted: Mapping[str, FileExpectation]
) -> dict[str, FileOutcome]:
    """Check files in the sandbox and return their outcomes."""
    jobs = SandboxJobs(harness.core.sandboxes, harness.core.sandbox_report)

    async def check(path: str, expected: FileExpectation) -> FileOutcome:
        arguments = [path, expected.kind or "", json.dumps(expected.contains)]
        return parse_file_check((await jobs.run(thread.thread_id, thread.owner, FILE_CHECK, arguments)).output)

    return dict(zip(wanted, await asyncio.gather(*(check(*each) for each in wanted.items())), strict=True))


def parse_file_check(output: str) -> FileOutcome:
    """Parse the output of a file check."""
    with suppress(ValueError):
        found = json.loads(output)
        problem, missing = found.get("problem"), tuple(found.get("missing", ()))
        return FileOutcome(found["exists"], problem, missing, found.get("beginning", ""))
    return FileOutcome(exists=True, problem=f"it cannot be read as that: {output.strip() or 'nothing was said'}")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a temporary folder and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="deerflow-skill-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


OFFLINE = "there is no network in a test; give the agent what it needs as files"


async def web_search(query: str) -> str:
    """Search the web.

    Args:
        query: What to look for.
    """
    raise ConnectionError(OFFLINE)


async def web_fetch(url: str, offset: int = 0) -> str:
    """Open a web page.

    Args:
        url: Its address.
        offset: Where to go on.
    """
    raise ConnectionError(OFFLINE)


async def image_search(query: str) -> str:
    """Search the web for images.

    Args:
        query: What to look for.
    """
    raise ConnectionError(OFFLINE)
