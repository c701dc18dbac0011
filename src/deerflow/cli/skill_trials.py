"""Runs the tests of a skill: the scripted model, the real harness in a temporary home, the real sandbox."""

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

from deerflow.client.events import Reader, text_of
from deerflow.config.load import Loaded
from deerflow.config.lookup import HOME_NAME
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import DeerFlowError, RunFailed, SandboxError
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest
from deerflow.domain.threads import ThreadRecord
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.chores import Chore, Chores
from deerflow.sandbox.packages import find_lacking, lacking_sentence
from deerflow.skills.contract import read_contract
from deerflow.skills.folders import read_skill_file
from deerflow.skills.format import parse_skill
from deerflow.skills.roots import custom_root
from deerflow.skills.skill import Category
from deerflow.skills.trials import (
    FileExpectation,
    FileOutcome,
    ToolOutcome,
    Trial,
    TrialOutcome,
    TrialStep,
    judge,
    last_outputs,
)
from deerflow.testing import Answer, ScriptedModel, ToolRequest

LOOK = Chore(
    (Path(__file__).parent.parent / "skills" / "look_at_file.py").read_text(encoding="utf-8"),
    packages=("pptx", "docx", "openpyxl", "pypdf", "PIL", "defusedxml", "bs4"),
)
PASSED_ON = ("PATH", "HOME", "XDG_CACHE_HOME")
"""Of the server's variables, those by which programs and the toolbox are found."""
OFFLINE_TOOLS = tuple(
    {"name": name, "group": "web", "use": f"deerflow.testing.offline:{name}"}
    for name in ("web_search", "web_fetch", "image_search")
)
FAILED_COMMAND = "[exit code "
AROUND_S = 120.0
"""So long may it take to give the uploads and to look at the files."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a test went."""

    trial: str
    complaints: Sequence[str]
    outputs: Sequence[str]
    """What the last tools said; empty when all is well."""
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.complaints


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that is to be tried."""

    name: str
    folder: Path
    category: Category = "public"
    packages: tuple[str, ...] = ()
    """What its contract says it needs."""

    @classmethod
    def read(cls, folder: Path, category: Category = "public") -> Self:
        """The skill in a folder, whatever that is called.

        Raises:
            SkillInvalid: It is none that an agent could use.
        """
        header, contract = parse_skill(read_skill_file(folder)), read_contract(folder)
        return cls(header.name, folder, category, contract.needs.packages if contract else ())


@dataclass(frozen=True, slots=True)
class TrialGround:
    """Where tests are run: what this machine lends to them."""

    machine: Loaded
    """Its toolbox is used, and nothing else of what is configured."""

    async def run(self, skill: Candidate, trial: Trial) -> Verdict:
        """Run one test of a skill."""
        began = time.monotonic()
        with temporary_folder() as folder:
            try:
                outcome = await self._carry_out(folder, skill, trial)
            except (DeerFlowError, TimeoutError, OSError) as problem:
                outcome = TrialOutcome(problem=str(problem) or "it took too long")
        complaints = judge(trial, outcome)
        return Verdict(trial.name, complaints, last_outputs(outcome) if complaints else (), time.monotonic() - began)

    async def _carry_out(self, folder: Path, skill: Candidate, trial: Trial) -> TrialOutcome:
        shipped, custom = folder / "skills", custom_root(folder / HOME_NAME, LOCAL_USER.user_id)
        root = shipped / "public" if skill.category == "public" else custom
        await asyncio.to_thread(shutil.copytree, skill.folder, root / skill.name, symlinks=True)
        model = ScriptedModel.saying(*map(answer_of, trial.script.steps))
        async with open_harness(self._source(folder, shipped, trial), model) as harness:
            await (
                harness.sandboxes.prepare()
            )  # the first time on a machine this builds the toolbox, which takes minutes
            if not harness.sandbox_report.runs_commands:
                raise SandboxError(harness.sandbox_report.problem or harness.sandbox_report.detail)
            async with asyncio.timeout(trial.script.limits.seconds + AROUND_S):
                return await follow(harness, model, skill, trial)

    def _source(self, folder: Path, skills: Path, trial: Trial) -> ConfigSource:
        """A configuration of nobody's: defaults, without a network."""
        theirs = self.machine.environment
        environment = {name: theirs[name] for name in PASSED_ON if name in theirs}
        overrides: dict[str, object] = {
            "sandbox": {
                "network": "none",
                "environment": dict(trial.script.environment),
                "toolbox": self.machine.config.sandbox.toolbox.model_dump(mode="json"),
            },
            "tools": list(OFFLINE_TOOLS),
            "skills": {"path": str(skills)},
            "suggestions": {"enabled": False},
            "guardrails": {"enabled": False},  # nobody is there to be asked
            "memory": {"enabled": False},
            "log_level": "error",
        }
        return open_source(directory=folder, environment=environment, overrides=overrides)


async def follow(harness: Harness, model: ScriptedModel, skill: Candidate, trial: Trial) -> TrialOutcome:
    """Run a test in a harness that is open for it."""
    thread = await harness.threads.create(LOCAL_USER, None, {}, may_exist=False)
    await check_packages(harness, thread, skill)
    await give_uploads(harness, thread, trial.uploads)
    talk = Talk(harness, thread.thread_id)
    problem = await talk.hold(trial)
    return TrialOutcome(
        answer=talk.answer,
        calls=talk.calls,
        files=await look_at_files(harness, thread, expected_files(trial)),
        problem=problem,
        unused_steps=max(0, len(trial.script.steps) - len(model.requests)),
    )


@dataclass(slots=True)
class Talk:
    """One run, as it is followed."""

    harness: Harness
    thread_id: str
    answer: str = ""
    messages: Sequence[Mapping[str, Any]] = ()

    async def hold(self, trial: Trial) -> str | None:
        """Say the prompt and listen to the end; why it did not come to one."""
        agent = AgentSpec(is_plan_mode=True, subagent_enabled=True)
        request = RunRequest(self.thread_id, [{"type": "human", "content": trial.script.prompt}], agent)
        runs, reader, seconds = self.harness.runs, Reader(), trial.script.limits.seconds
        run = await runs.create_or_reject(request, LOCAL_USER)
        reader.begin(await runs.state_before(run, after=0))
        try:
            async with asyncio.timeout(seconds), aclosing(runs.listen(run)) as groups:
                async for group in groups:
                    self._take_in(event.data for event in filter(None, map(reader.read, group)))
        except RunFailed as failed:
            return str(failed)
        except TimeoutError:
            await runs.stop(run.run_id)
            return f"it took longer than {seconds:g} s (limits.seconds)"
        finally:
            self.answer = reader.answer
        return None

    def _take_in(self, heard: Iterator[Mapping[str, Any]]) -> None:
        for data in heard:
            self.messages = data.get("messages", self.messages)

    @property
    def calls(self) -> list[ToolOutcome]:
        """What the calls of tools came to, in order."""
        results = (message for message in self.messages if message["type"] == "tool")
        return [tool_outcome(message) for message in results]


def tool_outcome(message: Mapping[str, Any]) -> ToolOutcome:
    """What one call came to; a command that ends with another code than 0 has failed."""
    output = text_of(message["content"])
    has_code = message["name"] == "bash" and output.rpartition("\n")[2].startswith(FAILED_COMMAND)
    return ToolOutcome(message["name"] or "", output, message.get("status") == "error" or has_code)


def answer_of(step: TrialStep) -> Answer:
    """What the scripted model says in a step."""
    return Answer(
        step.say, calls=tuple(ToolRequest(call.tool, orjson.dumps(call.args).decode()) for call in step.calls)
    )


async def check_packages(harness: Harness, thread: ThreadRecord, skill: Candidate) -> None:
    """See that commands find what the skill needs.

    Raises:
        SandboxError: Something is missing.
    """
    if not skill.packages:
        return
    sandbox_id = await harness.sandboxes.acquire(thread.thread_id, thread.owner)
    sandbox = await harness.sandboxes.get(sandbox_id)
    lacking = await find_lacking(sandbox, skill.packages) if sandbox is not None else ()
    await harness.sandboxes.release(sandbox_id)
    if lacking:
        raise SandboxError(lacking_sentence(skill.name, lacking))


async def give_uploads(harness: Harness, thread: ThreadRecord, uploads: Mapping[str, bytes]) -> None:
    """Give files to a thread, as a person would."""
    if not uploads:
        return
    async with harness.uploads.receiving(thread) as reception:
        for name, content in uploads.items():
            await reception.begin(name)
            await reception.write(content)
            await reception.end()
        await harness.uploads.keep(thread, reception)


def expected_files(trial: Trial) -> dict[str, FileExpectation]:
    """The files somebody has to look at, those that must not be there too."""
    expected = trial.script.expect
    return {**{path: FileExpectation() for path in expected.absent}, **expected.files}


async def look_at_files(
    harness: Harness, thread: ThreadRecord, wanted: Mapping[str, FileExpectation]
) -> dict[str, FileOutcome]:
    """What has become of files, looked at in the sandbox."""
    chores = Chores(harness.sandboxes, harness.sandbox_report)

    async def look(path: str, expected: FileExpectation) -> FileOutcome:
        arguments = [path, expected.kind or "", json.dumps(expected.contains)]
        return read_look((await chores.run(thread.thread_id, thread.owner, LOOK, arguments)).output)

    return dict(zip(wanted, await asyncio.gather(*(look(*each) for each in wanted.items())), strict=True))


def read_look(output: str) -> FileOutcome:
    """What the look at a file has printed."""
    with suppress(ValueError):
        found = json.loads(output)
        problem, missing = found.get("problem"), tuple(found.get("missing", ()))
        return FileOutcome(found["exists"], problem, missing, found.get("beginning", ""))
    return FileOutcome(exists=True, problem=f"it cannot be read as that: {output.strip() or 'nothing was said'}")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="deerflow-skill-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
