"""Python toolbox: an environment with common packages, built once and mounted read-only in every sandbox."""

import asyncio
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

from deerflow.config.loader.files import O_CLOEXEC, acquire_lock
from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.files.mounts import HOME
from deerflow.sandbox.sandbox_provider import ToolboxState

LOCK = Path(__file__).with_name("toolbox.lock")
STARTUP = Path(__file__).with_name("toolbox_site.py")
WAITER = Path(__file__).with_name("toolbox_wait.sh")
WAITING_PROGRAMS = ("python", "python3", "pip", "pip3")
BUILD_TIMEOUT_S = 20 * 60.0
PROBE_TIMEOUT_S = 10.0
MIN_PYTHON = (3, 11)
"""Python version for which the lock is resolved."""

MOUNT_PATH = "/opt/toolbox"
UNFINISHED_PATH = "/opt/unfinished-toolbox"
SYSTEM = tuple(map(Path, ("/usr", "/lib", "/lib64")))
"""Folders of this machine that every sandbox mounts."""

VARIABLES: Mapping[str, str] = {
    "MPLBACKEND": "Agg",
    "OPENBLAS_NUM_THREADS": "4",  # one per core would count against the limit of processes
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}

# Script that an interpreter runs to describe itself. Memory mapped as code shows the libraries it depends on.
PROBE = """
import ctypes, json, ssl, sys, zlib
maps = [line.split(maxsplit=5) for line in open("/proc/self/maps")]
code = {words[5].strip() for words in maps if len(words) == 6 and "x" in words[1] and words[5].startswith("/")}
print(json.dumps([sys.version_info[:2], sys._base_executable or sys.executable, sys.base_prefix, sorted(code)]))
"""

LOCKED = re.compile(r"^[\w.-]+==", re.M)
INDEX_UNREACHABLE = re.compile(
    r"error sending request|dns error|failed to lookup|connect error|network was disabled", re.I
)
FORWARDED = re.compile(
    r"PATH|HOME|TMPDIR|LANG|NETRC|XDG_.*|UV_.*|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
)
PIP_VARIABLES = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "UV_INDEX": "PIP_EXTRA_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}
"""Variables of uv and the equivalent variables of pip, which uv does not read."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Mounts and variables of the toolbox for a sandbox."""

    mounts: Mapping[str, Path]
    """Path in the sandbox → file or folder of this machine, mounted read-only."""
    variables: Mapping[str, str]
    path: tuple[str, ...]
    """Folders prepended to `PATH`; the first is where pip installs programs."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs in a sandbox with `paths` of this machine mounted at the same paths."""

    program: Path
    version: str
    paths: tuple[Path, ...]


USABLE_INTERPRETERS: dict[tuple[Path, int | None], Interpreter] = {}
"""Interpreters that this process has probed, by their path and modification time."""


def find_uv(environment: Mapping[str, str]) -> Sequence[str] | None:
    """Return the command of uv: next to our Python, else on the PATH, else as a module."""
    search = [str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]
    if program := shutil.which("uv", path=os.pathsep.join(search)):
        return [program]
    return [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else None


def list_interpreters() -> Sequence[Path]:
    """Return candidate interpreters: the base of our Python, then those of the system."""
    own = Path(getattr(sys, "_base_executable", sys.executable))
    system = sorted(Path("/usr/bin").glob("python3.[1-9][0-9]"), reverse=True)
    return [own, *system, Path("/usr/bin/python3"), Path("/usr/local/bin/python3")]


@dataclass(frozen=True, slots=True)
class ToolboxBuilder:
    """Builder of the toolbox below `cache`. Several servers may share the cache."""

    config: ToolboxConfig
    cache: Path
    environment: Mapping[str, str]
    """Environment of the server; uv gets the variables it needs to reach a package index."""
    lock: Path = LOCK
    interpreters: Sequence[Path] = field(default_factory=list_interpreters)
    find_uv: Callable[[Mapping[str, str]], Sequence[str] | None] = find_uv
    limit_s: float = BUILD_TIMEOUT_S

    async def find(self) -> Toolbox | None:
        """Return the toolbox if it is ready."""
        if not self.config.enabled:
            return None
        with suppress(SandboxError):
            interpreter = await choose_interpreter(self.interpreters)
            return find_toolbox(self._folder(interpreter), interpreter)
        return None

    async def state(self) -> ToolboxState:
        """Return the build state of the toolbox, built by any server."""
        if not self.config.enabled:
            return ToolboxState("off", "disabled by sandbox.toolbox.enabled")
        try:
            interpreter = await choose_interpreter(self.interpreters)
        except SandboxError as problem:
            return ToolboxState("failed", str(problem))
        folder = self._folder(interpreter)
        if find_toolbox(folder, interpreter):
            return ToolboxState("ready", f"Python {interpreter.version} in {folder}")
        if is_locked(folder):
            installed = len(list(folder.glob("unfinished/lib/*/site-packages/*.dist-info")))
            total = len(LOCKED.findall(self.lock.read_text())) + len(self.config.packages)
            return ToolboxState("building", f"being built in {folder}", min(installed, total), total)
        if (failure := folder / "failure").is_file():
            return ToolboxState("failed", failure.read_text(encoding="utf-8"))
        return ToolboxState("missing", "built when the server starts")

    async def make_waiting_toolbox(self) -> Toolbox:
        """Return programs that wait for the toolbox while it is being built, so that no command lacks a package.

        Raises:
            SandboxError: There is no Python for it.
        """
        interpreter = await choose_interpreter(self.interpreters)
        folder = self._folder(interpreter)
        try:
            await asyncio.to_thread(write_waiting_programs, folder)
        except OSError as problem:
            raise SandboxError(f"{folder}: {problem}") from problem
        mounts = {UNFINISHED_PATH: folder, **{str(path): path for path in interpreter.paths}}
        return Toolbox(mounts, VARIABLES, (f"{HOME}/.local/bin", f"{UNFINISHED_PATH}/bin"))

    async def build(self) -> Toolbox:
        """Return the toolbox, built if missing. Cancelling stops the build and leaves nothing.

        Raises:
            SandboxError: It is disabled or cannot be built; the text gives the reason and a remedy.
        """
        if not self.config.enabled:
            raise SandboxError("the toolbox is disabled by sandbox.toolbox.enabled")
        interpreter = await choose_interpreter(self.interpreters)
        folder = self._folder(interpreter)
        try:
            async with asyncio.timeout(self.limit_s):
                return find_toolbox(folder, interpreter) or await self._build_locked(folder, interpreter)
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
        """Return the folder of the toolbox for the configured content."""
        machine = [platform.machine(), interpreter.version, str(interpreter.program)]
        content = [machine, STARTUP.read_text(), self.lock.read_text(), list(self.config.packages)]
        return self.cache / "toolbox" / hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    async def _build_locked(self, folder: Path, interpreter: Interpreter) -> Toolbox:
        """Build under a lock, unless another process does so meanwhile."""
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        async with hold_lock(folder) as lock:
            if built := find_toolbox(folder, interpreter):
                return built
            (folder / "failure").unlink(missing_ok=True)
            unfinished = folder / "unfinished"
            try:
                # A server that was killed may have left files.
                await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
                await self._install(unfinished, interpreter, lock)
                configure_site(unfinished, interpreter.version)
                unfinished.rename(folder / "environment")
            finally:
                await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
            return make_toolbox(folder, interpreter)

    async def _install(self, target: Path, interpreter: Interpreter, lock: int) -> None:
        """Create an environment at `target` and install the packages. Only wheels are used, so no package code runs."""
        uv = self.find_uv(self.environment)
        if uv is None:
            raise SandboxError("uv was not found; install it, for example with: pip install uv")
        environment = {name: self.environment[pips] for name, pips in PIP_VARIABLES.items() if pips in self.environment}
        environment |= {name: value for name, value in self.environment.items() if FORWARDED.fullmatch(name)}
        install = ["pip", "install", "-q", "--no-build", "--compile-bytecode", "--python", str(target / "bin/python")]
        steps = [["venv", "-q", "--relocatable", "--no-project", "--python", str(interpreter.program), str(target)]]
        steps += [[*install, "--require-hashes", "-r", str(self.lock)]]
        if self.config.packages:
            steps += [[*install, "--", *self.config.packages]]
        for step in steps:
            # uv inherits the lock: if it outlives its server, the next one waits for it.
            code, output = await run_program([*uv, *step], environment, keep=lock)
            if code != 0:
                raise SandboxError(explain_failure(output))


def find_toolbox(folder: Path, interpreter: Interpreter) -> Toolbox | None:
    """Return the toolbox in `folder` if it is complete."""
    return make_toolbox(folder, interpreter) if (folder / "environment").is_dir() else None


def make_toolbox(folder: Path, interpreter: Interpreter) -> Toolbox:
    """Return the toolbox in `folder`."""
    mounts = {MOUNT_PATH: folder / "environment", **{str(path): path for path in interpreter.paths}}
    return Toolbox(mounts, VARIABLES, (f"{HOME}/.local/bin", f"{MOUNT_PATH}/bin"))


def write_waiting_programs(folder: Path) -> None:
    """Write programs that wait until the toolbox in `folder` is built."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in WAITING_PROGRAMS:
        (programs / name).write_text(WAITER.read_text().replace("UNFINISHED", UNFINISHED_PATH))
        (programs / name).chmod(0o755)


def configure_site(environment: Path, version: str) -> None:
    """Make packages in the user's site folder visible; pip installs there, as the toolbox is read-only."""
    site = environment / f"lib/python{version}/site-packages"
    for name, text in ((STARTUP.name, STARTUP.read_text()), ("toolbox.pth", f"import {STARTUP.stem}\n")):
        (site / name).write_text(text)
        (site / name).chmod(0o644)
    settings = environment / "pyvenv.cfg"
    closed = "include-system-site-packages = false"
    settings.write_text(settings.read_text().replace(closed, closed.replace("false", "true")))


async def choose_interpreter(programs: Sequence[Path]) -> Interpreter:
    """Return the first Python that can be mounted in a sandbox.

    Raises:
        SandboxError: There is none.
    """
    problems = []
    for program in programs:
        found = await probe_interpreter(program)
        if isinstance(found, Interpreter):
            return found
        problems.append(f"{program}: {found}")
    raise SandboxError(
        f"no Python was found for the toolbox ({'; '.join(problems)}); install the system package python3"
    )


async def probe_interpreter(program: Path) -> Interpreter | str:
    """Return the interpreter, or the reason why a sandbox cannot use it. A usable one is probed once per process."""
    key = program, read_mtime(program)
    found = USABLE_INTERPRETERS.get(key) or await run_interpreter(program)
    if isinstance(found, Interpreter):
        USABLE_INTERPRETERS[key] = found
    return found


def read_mtime(program: Path) -> int | None:
    """Return the modification time of a program, None if it does not exist."""
    with suppress(OSError):
        return program.stat().st_mtime_ns
    return None


async def run_interpreter(program: Path) -> Interpreter | str:
    """Return the interpreter as it describes itself, or the reason why a sandbox cannot use it."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            code, output = await run_program([str(program), "-I", "-S", "-c", PROBE], {})
    except (OSError, TimeoutError) as problem:
        return str(problem) or "does not answer"
    if code != 0:
        return last_lines(output, 1)
    try:
        version, name, prefix, loaded = json.loads(output)
    except (TypeError, ValueError):
        return "does not behave like Python"
    if tuple(version) < MIN_PYTHON:
        return f"older than Python {'.'.join(map(str, MIN_PYTHON))}"
    return make_interpreter(Path(name), Path(prefix), version, [Path(file) for file in loaded])


def make_interpreter(name: Path, prefix: Path, version: Sequence[int], loaded: Sequence[Path]) -> Interpreter | str:
    """Return the interpreter with its program and libraries, or the reason if it needs more than that."""
    program, prefix = name.resolve(), prefix.resolve()
    paths: tuple[Path, ...] = ()
    if not is_within(program, SYSTEM):
        paths = (program, *(folder for folder in (prefix / "lib", prefix / "lib64") if folder.is_dir()))
    for file in loaded:
        if not is_within(file, (*SYSTEM, *paths)):
            return f"depends on {file}"
    return Interpreter(program, ".".join(map(str, version)), paths)


def is_within(path: Path, folders: Sequence[Path]) -> bool:
    """Return True if `path` is one of `folders` or below one."""
    return any(path.is_relative_to(folder) for folder in folders)


def is_locked(folder: Path) -> bool:
    """Return True if a process builds in `folder`."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        acquire_lock(descriptor, shared=True, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@asynccontextmanager
async def hold_lock(folder: Path) -> AsyncIterator[int]:
    """Wait for the build lock of `folder`, also held by other processes, and yield its descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | O_CLOEXEC)
    try:
        # A child process waits, because a waiting thread cannot be cancelled. The lock belongs to the shared open file.
        wait = f"import fcntl; fcntl.flock({descriptor}, fcntl.LOCK_EX)"
        code, output = await run_program([sys.executable, "-I", "-S", "-c", wait], {}, keep=descriptor)
        if code != 0:
            raise SandboxError(f"{folder} cannot be locked: {last_lines(output, 1)}")
        yield descriptor
    finally:
        os.close(descriptor)


async def run_program(
    command: Sequence[str], environment: Mapping[str, str], keep: int | None = None
) -> tuple[int, str]:
    """Return the exit code and output of a program, which inherits `keep`. Cancelling kills everything it started."""
    process = await asyncio.create_subprocess_exec(
        # The toolbox is read by another user. Not every event loop supports the umask parameter.
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


def explain_failure(output: str) -> str:
    """Return the output of uv, with a remedy for known failures."""
    message = last_lines(output, 5)
    if INDEX_UNREACHABLE.search(output):
        return f"the package index cannot be reached; it is tried again at the next start of the server ({message})"
    return message


def last_lines(output: str, count: int) -> str:
    """Return the last lines of an output as one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " ".join(lines[-count:]) or "no output"
