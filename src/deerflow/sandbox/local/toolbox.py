"""The Python environment that commands can use without a network: built once, shown to every sandbox read-only."""

import asyncio
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from deerflow.config.sandbox import ToolboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.furnishing import HOME

LOCK = Path(__file__).with_name("toolbox.lock")
STARTUP = Path(__file__).with_name("toolbox_site.py")
LIMIT_S = 20 * 60.0
PROBE_LIMIT_S = 10.0
OLDEST = (3, 11)
"""For which Python the lock is resolved."""

PLACE = "/opt/toolbox"
SYSTEM = tuple(map(Path, ("/usr", "/lib", "/lib64")))
"""What every sandbox sees of this machine anyway."""

VARIABLES: Mapping[str, str] = {
    "MPLBACKEND": "Agg",
    "OPENBLAS_NUM_THREADS": "4",  # one per core would count against the limit of processes
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}

# Run by an interpreter to tell about itself. What is mapped as code shows on which libraries it depends.
PROBE = """
import ctypes, json, ssl, sys, zlib
maps = [line.split(maxsplit=5) for line in open("/proc/self/maps")]
code = {words[5].strip() for words in maps if len(words) == 6 and "x" in words[1] and words[5].startswith("/")}
print(json.dumps([sys.version_info[:2], sys._base_executable or sys.executable, sys.base_prefix, sorted(code)]))
"""

UNREACHABLE = re.compile(r"error sending request|dns error|failed to lookup|connect error|network was disabled", re.I)
PASSED_ON = re.compile(
    r"PATH|HOME|TMPDIR|LANG|NETRC|XDG_.*|UV_.*|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
)
OF_PIP = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "UV_INDEX": "PIP_EXTRA_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}
"""What uv does not read by itself though it means the same."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What a sandbox needs to be given so that commands find the environment."""

    mounts: Mapping[str, Path]
    """Path in the sandbox → file or folder of this machine, all to be shown read-only."""
    variables: Mapping[str, str]
    path: tuple[str, ...]
    """What goes in front of `PATH`; the first is where pip puts the programs it installs."""


@dataclass(frozen=True, slots=True)
class ToolboxState:
    """How far the toolbox is, for whoever runs the server."""

    status: Literal["ready", "building", "failed", "missing", "off"]
    detail: str


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs in a sandbox when it sees `parts` of this machine, each at its own path."""

    program: Path
    version: str
    parts: tuple[Path, ...]


def find_uv(environment: Mapping[str, str]) -> Sequence[str] | None:
    """How uv is started: the one beside our own Python, else on the PATH, else as a module."""
    places = [str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]
    if program := shutil.which("uv", path=os.pathsep.join(places)):
        return [program]
    return [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else None


def likely_interpreters() -> Sequence[Path]:
    """Our own Python, without its virtual environment, then the system's."""
    own = Path(getattr(sys, "_base_executable", sys.executable))
    system = sorted(Path("/usr/bin").glob("python3.[1-9][0-9]"), reverse=True)
    return [own, *system, Path("/usr/bin/python3"), Path("/usr/local/bin/python3")]


@dataclass(frozen=True, slots=True)
class ToolboxBuilder:
    """Builds the toolbox below `cache`, and finds the one that has been built. Several servers may share the cache."""

    config: ToolboxConfig
    cache: Path
    environment: Mapping[str, str]
    """The server's; uv gets what it needs of it to reach a package index."""
    lock: Path = LOCK
    interpreters: Sequence[Path] = field(default_factory=likely_interpreters)
    find_uv: Callable[[Mapping[str, str]], Sequence[str] | None] = find_uv
    limit_s: float = LIMIT_S

    async def find(self) -> Toolbox | None:
        """The toolbox, if it is ready to be used."""
        if not self.config.enabled:
            return None
        with suppress(SandboxError):
            interpreter = await choose(self.interpreters)
            return toolbox_in(self._folder(interpreter), interpreter)
        return None

    async def state(self) -> ToolboxState:
        """How far the toolbox is, built by whichever server."""
        if not self.config.enabled:
            return ToolboxState("off", "switched off by sandbox.toolbox.enabled")
        try:
            interpreter = await choose(self.interpreters)
        except SandboxError as problem:
            return ToolboxState("failed", str(problem))
        folder = self._folder(interpreter)
        if toolbox_in(folder, interpreter):
            return ToolboxState("ready", f"Python {interpreter.version} in {folder}")
        if is_locked(folder):
            return ToolboxState("building", f"being built in {folder}")
        if (failure := folder / "failure").is_file():
            return ToolboxState("failed", failure.read_text(encoding="utf-8"))
        return ToolboxState("missing", "built when the server starts")

    async def build(self) -> Toolbox:
        """The toolbox, built unless it is there. Cancelling ends the build and leaves nothing of it.

        Raises:
            SandboxError: It is switched off or cannot be built; the text says why and what to do.
        """
        if not self.config.enabled:
            raise SandboxError("the toolbox is switched off by sandbox.toolbox.enabled")
        interpreter = await choose(self.interpreters)
        folder = self._folder(interpreter)
        try:
            async with asyncio.timeout(self.limit_s):
                return toolbox_in(folder, interpreter) or await self._build_alone(folder, interpreter)
        except TimeoutError:
            reason = f"it took longer than {self.limit_s / 60:.0f} minutes"
        except OSError as problem:
            reason = f"{problem.filename or folder}: {(problem.strerror or str(problem)).lower()}"
        except SandboxError as problem:
            reason = str(problem)
        text = f"the toolbox cannot be built: {reason}"
        with suppress(OSError):
            (folder / "failure").write_text(text, encoding="utf-8")
        raise SandboxError(text)

    def _folder(self, interpreter: Interpreter) -> Path:
        """Where the toolbox is that has the wanted content."""
        machine = [platform.machine(), interpreter.version, str(interpreter.program)]
        content = [machine, STARTUP.read_text(), self.lock.read_text(), list(self.config.packages)]
        return self.cache / "toolbox" / hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    async def _build_alone(self, folder: Path, interpreter: Interpreter) -> Toolbox:
        """Build, unless somebody else does while we wait for the right to."""
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        async with locked(folder) as lock:
            if built := toolbox_in(folder, interpreter):
                return built
            unfinished = folder / "unfinished"
            try:
                # A server that was killed may have left one.
                await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
                await self._install(unfinished, interpreter, lock)
                arrange(unfinished, interpreter.version)
                unfinished.rename(folder / "environment")
            finally:
                await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
            (folder / "failure").unlink(missing_ok=True)
            return made_of(folder, interpreter)

    async def _install(self, place: Path, interpreter: Interpreter, lock: int) -> None:
        """Make an environment at `place` and fill it. No package's code runs: only wheels are taken."""
        uv = self.find_uv(self.environment)
        if uv is None:
            raise SandboxError("uv was not found; install it, for instance with: pip install uv")
        environment = {name: self.environment[pips] for name, pips in OF_PIP.items() if pips in self.environment}
        environment |= {name: value for name, value in self.environment.items() if PASSED_ON.fullmatch(name)}
        install = ["pip", "install", "-q", "--no-build", "--compile-bytecode", "--python", str(place / "bin/python")]
        steps = [["venv", "-q", "--relocatable", "--no-project", "--python", str(interpreter.program), str(place)]]
        steps += [[*install, "--require-hashes", "-r", str(self.lock)]]
        if self.config.packages:
            steps += [[*install, "--", *self.config.packages]]
        for step in steps:
            # Holding the lock, a uv that outlives its server keeps the next one from building in the same place.
            code, output = await run([*uv, *step], environment, keep=lock)
            if code != 0:
                raise SandboxError(explain(output))


def toolbox_in(folder: Path, interpreter: Interpreter) -> Toolbox | None:
    """The toolbox in `folder`, if it is complete."""
    return made_of(folder, interpreter) if (folder / "environment").is_dir() else None


def made_of(folder: Path, interpreter: Interpreter) -> Toolbox:
    """What a sandbox needs to be given."""
    mounts = {PLACE: folder / "environment", **{str(part): part for part in interpreter.parts}}
    return Toolbox(mounts, VARIABLES, (f"{HOME}/.local/bin", f"{PLACE}/bin"))


def arrange(environment: Path, version: str) -> None:
    """Have packages that users install count in it, which pip then does by itself, for nobody can write here."""
    site = environment / f"lib/python{version}/site-packages"
    for name, text in ((STARTUP.name, STARTUP.read_text()), ("toolbox.pth", f"import {STARTUP.stem}\n")):
        (site / name).write_text(text)
        (site / name).chmod(0o644)
    settings = environment / "pyvenv.cfg"
    closed = "include-system-site-packages = false"
    settings.write_text(settings.read_text().replace(closed, closed.replace("false", "true")))


async def choose(programs: Sequence[Path]) -> Interpreter:
    """The first Python that can be shown to a sandbox.

    Raises:
        SandboxError: There is none.
    """
    problems = []
    for program in programs:
        found = await probe(program)
        if isinstance(found, Interpreter):
            return found
        problems.append(f"{program}: {found}")
    raise SandboxError(f"no Python was found for the toolbox ({'; '.join(problems)}); install python3 of the system")


async def probe(program: Path) -> Interpreter | str:
    """A Python as it tells about itself, or why a sandbox cannot have it."""
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            code, output = await run([str(program), "-I", "-S", "-c", PROBE], {})
    except (OSError, TimeoutError) as problem:
        return str(problem) or "does not answer"
    if code != 0:
        return last_lines(output, 1)
    try:
        version, name, prefix, loaded = json.loads(output)
    except (TypeError, ValueError):
        return "does not behave like Python"
    if tuple(version) < OLDEST:
        return f"older than Python {'.'.join(map(str, OLDEST))}"
    return interpreter_at(Path(name), Path(prefix), version, [Path(file) for file in loaded])


def interpreter_at(name: Path, prefix: Path, version: Sequence[int], loaded: Sequence[Path]) -> Interpreter | str:
    """The Python that consists of a program and the libraries in `prefix`, unless it needs more than that."""
    program, prefix = name.resolve(), prefix.resolve()
    parts: tuple[Path, ...] = ()
    if not is_within(program, SYSTEM):
        parts = (program, *(folder for folder in (prefix / "lib", prefix / "lib64") if folder.is_dir()))
    for file in loaded:
        if not is_within(file, (*SYSTEM, *parts)):
            return f"depends on {file}"
    return Interpreter(program, ".".join(map(str, version)), parts)


def is_within(path: Path, places: Sequence[Path]) -> bool:
    """Whether `path` is one of `places` or below one."""
    return any(path.is_relative_to(place) for place in places)


def is_locked(folder: Path) -> bool:
    """Whether somebody is building in `folder`."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[int]:
    """Wait until nobody else builds in `folder`, in this process or another; the descriptor holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A child waits, for a thread that waits could not be cancelled. The lock belongs to the file it shares with us.
        wait = f"import fcntl; fcntl.flock({descriptor}, fcntl.LOCK_EX)"
        code, output = await run([sys.executable, "-I", "-S", "-c", wait], {}, keep=descriptor)
        if code != 0:
            raise SandboxError(f"{folder} cannot be locked: {last_lines(output, 1)}")
        yield descriptor
    finally:
        os.close(descriptor)


async def run(command: Sequence[str], environment: Mapping[str, str], keep: int | None = None) -> tuple[int, str]:
    """The exit code and output of a program, which inherits the descriptor `keep`. Cancelling ends all it started."""
    process = await asyncio.create_subprocess_exec(
        # What is built is read by another user. Not every event loop can set the mask by itself.
        *("/bin/sh", "-c", 'umask 022 && exec "$@"', "sh", *command),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        pass_fds=() if keep is None else (keep,),
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        raise
    return process.returncode or 0, output.decode(errors="replace")


def explain(output: str) -> str:
    """What uv says, and what to do about it where we know."""
    said = last_lines(output, 5)
    if UNREACHABLE.search(output):
        return f"the package index cannot be reached; it is tried again at the next start of the server ({said})"
    return said


def last_lines(output: str, count: int) -> str:
    """The end of what a program printed, in one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " ".join(lines[-count:]) or "it said nothing"
