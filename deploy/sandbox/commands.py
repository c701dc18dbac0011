"""Runs commands so that nothing they start outlives them.

Every command is made the "subreaper" of what it starts: a process that loses its parent becomes the command's child,
and when the command itself is gone, ours. So each process here is below the command that started it, or it is a stray
of a command that has ended; no `setsid`, `nohup` or double fork gets out of that.
"""

import asyncio
import ctypes
import os
import signal
import struct
import subprocess
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
CHUNK = 16 * 1024
BACKGROUND_BYTES = 64 * 1024
REMEMBERED = 32
TIMED_OUT = 124
ENDING_ROUNDS = 1000
BETWEEN_ROUNDS_S = 0.005

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(eq=False)
class Running:
    """A process we started, what it prints to both streams, and its exit code to come."""

    pid: int
    ended: "asyncio.Future[int]"
    output: asyncio.StreamReader = field(default_factory=lambda: asyncio.StreamReader(limit=CHUNK))
    pipe: asyncio.BaseTransport | None = None


@dataclass(frozen=True)
class Order:
    """A line of bash to be run."""

    command: str
    env: Mapping[str, str]
    directory: str | None
    timeout_s: float
    kept_bytes: int


@dataclass(frozen=True)
class Ended:
    """How a command ended, and the last it said; `left_out` bytes before that were too much."""

    exit_code: int
    timed_out: bool
    left_out: int
    tail: bytes


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = bytearray()
        self.seen = 0

    def add(self, chunk: bytes) -> None:
        """Keep `chunk`, and of what came before what there is room for."""
        self.seen += len(chunk)
        self.kept += chunk
        if len(self.kept) > 2 * self.limit:  # not at every chunk: cutting copies
            del self.kept[: -self.limit]

    def take(self) -> tuple[int, bytes]:
        """How much was left out, and the rest; begins anew."""
        tail = bytes(self.kept[-self.limit :]) if self.limit else b""
        left_out, self.seen = self.seen - len(tail), 0
        self.kept.clear()
        return left_out, tail


class Commands:
    """Starts processes, and ends them together with everything that came from them."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        self.running: dict[int, Running] = {}

    def watch(self) -> None:
        """Begin to notice ends; called once, in the event loop."""
        become_subreaper()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._notice_ends)

    async def start(
        self, arguments: Sequence[str], env: Mapping[str, str] | None = None, directory: str | None = None
    ) -> Running:
        """Start a program."""
        readable, writable = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - it returns when the program has begun
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=writable,
                stderr=writable,
                cwd=directory or self.directory,
                env={**self.environment, **(env or {})},
                start_new_session=True,
                preexec_fn=prepare_child,
            )
        except BaseException:
            os.close(readable)
            raise
        finally:
            os.close(writable)
        process.returncode = 0  # its end is noticed here, not by the library
        loop = asyncio.get_running_loop()
        self.running[process.pid] = running = Running(process.pid, loop.create_future())
        try:
            pipe = os.fdopen(readable, "rb", buffering=0)
            reading = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(running.output), pipe)
            running.pipe = reading[0]
        except BaseException:
            await self.end(running)
            raise
        return running

    async def end(self, running: Running) -> None:
        """End a process, everything below it and all strays, and wait until they are gone."""
        for _ in range(ENDING_ROUNDS):
            doomed = self._doomed(running)
            if not doomed and running.ended.done():
                return
            for pid in doomed:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(BETWEEN_ROUNDS_S)

    async def run(self, order: Order) -> AsyncGenerator[bytes | Ended, None]:
        """What a line of bash prints while it prints it, up to half of what is kept; then its end."""
        running = await self.start(["bash", "-c", order.command], order.env, order.directory)
        ending = asyncio.create_task(self.end_after(running, order.timeout_s))
        room = order.kept_bytes // 2
        tail = Tail(order.kept_bytes - room)
        try:
            while chunk := await running.output.read(CHUNK):
                if head := chunk[:room]:
                    room -= len(head)
                    yield head
                tail.add(chunk[len(head) :])
            timed_out = await ending
            yield Ended(TIMED_OUT if timed_out else running.ended.result(), timed_out, *tail.take())
        finally:
            ending.cancel()
            await self.drop(running)

    async def drop(self, running: Running) -> None:
        """End a process, and leave unread what it has printed."""
        await self.end(running)
        if running.pipe is not None:
            running.pipe.close()

    async def end_after(self, running: Running, timeout_s: float | None = None) -> bool:
        """Wait for the end of a command, then end what it left behind; whether time was up before."""
        done, _ = await asyncio.wait([running.ended], timeout=timeout_s)
        await self.end(running)
        return not done

    def _notice_ends(self) -> None:
        with suppress(ChildProcessError):  # there are no children at all
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if running := self.running.pop(found[0], None):
                    code = os.waitstatus_to_exitcode(found[1])
                    running.ended.set_result(code if code >= 0 else 128 - code)

    def _doomed(self, running: Running) -> set[int]:
        """What has to be killed to end `running`."""
        children: dict[int, list[int]] = {}
        for pid, parent in living_processes():
            children.setdefault(parent, []).append(pid)
        strays = [pid for pid in children.get(os.getpid(), []) if pid not in self.running or pid == running.pid]
        doomed: set[int] = set()
        while strays:
            doomed.add(pid := strays.pop())
            strays += children.get(pid, [])
        return doomed


@dataclass
class Background:
    """A command that goes on by itself, and what it has printed since somebody asked."""

    name: str
    command: str
    running: Running
    reading: "asyncio.Task[None]"
    tail: Tail

    def describe(self) -> dict[str, object]:
        """As the API shows it."""
        ended = self.running.ended
        return {"name": self.name, "command": self.command, "exit_code": ended.result() if ended.done() else None}


class BackgroundCommands:
    """The commands that go on by themselves, by name."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands
        self.by_name: dict[str, Background] = {}

    async def start(self, name: str, command: str, env: Mapping[str, str], at_most: int) -> str | None:
        """Start a command; why not, if it cannot be."""
        known = self.by_name.get(name)
        if known and not known.running.ended.done():
            return f"{name!r} is already running; kill it first, or choose another name"
        alive = [each for each in self.by_name.values() if not each.running.ended.done()]
        if len(alive) >= at_most:
            names = ", ".join(each.name for each in alive)
            return f"{len(alive)} background processes are running ({names}); kill one first"
        running, tail = await self.commands.start(["bash", "-c", command], env), Tail(BACKGROUND_BYTES)
        self.by_name.pop(name, None)  # the new one is the youngest
        reading = asyncio.create_task(self._read(running, tail))
        self.by_name[name] = Background(name, command, running, reading, tail)
        ended = [each.name for each in self.by_name.values() if each.running.ended.done()]
        for old in ended[: max(0, len(self.by_name) - REMEMBERED)]:
            del self.by_name[old]
        return None

    async def kill(self, process: Background) -> None:
        """End one and read what it had left to say."""
        await self.commands.end(process.running)
        await process.reading

    async def _read(self, running: Running, tail: Tail) -> None:
        ending = asyncio.create_task(self.commands.end_after(running))
        while chunk := await running.output.read(CHUNK):
            tail.add(chunk)
        await ending


def become_subreaper() -> None:
    """Have processes below this one that lose their parent become its children."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def confine(filters: Sequence[bytes]) -> None:
    """Keep what is in our memory from commands, and for good refuse the system calls that `filters` refuse."""
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for program in filters:
        steps = ctypes.create_string_buffer(program, len(program))
        order = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, order):
            raise OSError(ctypes.get_errno(), "the kernel does not take the filter for system calls")


def prepare_child() -> None:
    """What a new process does before it becomes a command."""
    become_subreaper()
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or it could not write the following
    # When memory runs out the kernel takes commands, and never the server.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def living_processes() -> Iterator[tuple[int, int]]:
    """The ids of all processes that still run, each with that of its parent."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has just ended
            state, parent = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                yield int(entry.name), int(parent)
