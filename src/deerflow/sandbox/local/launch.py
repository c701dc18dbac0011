"""The server's side of the launcher: what to start, and how it ended."""

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path

from deerflow.domain.errors import SandboxError
from deerflow.sandbox.local.leftovers import make_temporary
from deerflow.sandbox.local.output import OutputReader
from deerflow.sandbox.local.seccomp import seccomp_filter

PROGRAM = Path(__file__).with_name("launcher.py")
START_S = 10.0
END_S = 5.0
MAX_PACKET = 1 << 20
SEND_BUFFER = 4 << 20
TOO_LONG = "the command is too long; write it to a file and run that"
CANNOT_END = "a command could not be ended; the server's log may say why"
GONE = "the process that starts commands has ended; call the tool again"

Bind = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """One command, and all that bubblewrap is told."""

    command: Sequence[str]
    options: Sequence[str] = ()
    binds: Sequence[Bind] = ()
    """Where from, where to, and the option that does it; between the other options."""
    last_options: Sequence[str] = ()
    cgroups: Sequence[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    space: int | None = None

    def to_request(self) -> dict[str, object]:
        """What the launcher is told."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    has_run: bool = True
    """Whether it began at all; otherwise what isolates it has failed, and said why."""
    timed_out: bool = False
    complaint: str | None = None
    """Why it was ended, if it took too much of something."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the launcher said."""

    packet: Mapping[str, object]
    files: Sequence[int]


@dataclass(frozen=True, slots=True)
class Running:
    """A command that was started, and what is told when it has ended."""

    number: int
    ended: "asyncio.Future[Answer]"


class LaunchPad:
    """A launcher process, started when it is needed."""

    def __init__(self, bubblewrap: Path, uid: int | None) -> None:
        """`uid` is who commands run as, for a server that is root."""
        self.program = bubblewrap
        self._settings = {"bubblewrap": str(bubblewrap), "uid": uid, "seccomp": seccomp_filter().hex()}
        self._numbers = count(1)
        self._expected: dict[int, asyncio.Future[Answer]] = {}
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stage: Path | None = None
        self._starting: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[Ended]] = set()
        self._spaces: dict[int, int] = {}

    async def run(self, launch: Launch, reader: OutputReader, timeout_s: float) -> Ended:
        """Run a command to its end; when the awaiting task is cancelled, so is everything the command started.

        Raises:
            SandboxError: There is no launcher.
        """
        number = next(self._numbers)
        output, output_end = os.pipe()
        try:
            # Between the start and the first wait after it nobody may be able to stop us without stopping the command.
            transport, stream = await read_pipe(output)
            try:
                ended = await self._ask(number, {"do": "start", **launch.to_request()}, [output_end])
            except BaseException:
                transport.close()
                self._expected.pop(number, None)
                raise
        finally:
            os.close(output_end)
        reading = asyncio.ensure_future(reader.read(stream))
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(reading)
                if not reader.is_flooded:
                    await asyncio.shield(ended)
        except TimeoutError:
            timed_out = True
        finally:
            # Goes on even if we are told to stop twice.
            ending = asyncio.create_task(self._end(number, ended, reading, transport, timed_out))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
            await asyncio.shield(ending)
        return ending.result()

    async def start(self, launch: Launch, files: Sequence[int]) -> "Running":
        """Start a command with its three standard files; whoever has started it sees to its end.

        Raises:
            SandboxError: There is no launcher.
        """
        number = next(self._numbers)
        try:
            return Running(number, await self._ask(number, {"do": "start", **launch.to_request()}, files))
        except BaseException:
            self._expected.pop(number, None)
            raise

    async def stop(self, running: "Running") -> Ended:
        """See to it that nothing is left of a command that was started."""
        if not running.ended.done():
            self._kill(running.number)
        await asyncio.wait({running.ended}, timeout=END_S)
        self._expected.pop(running.number, None)
        if not running.ended.done():
            raise SandboxError(CANNOT_END)
        if running.ended.exception() is not None:  # it went with the launcher
            return Ended(-1)
        packet = running.ended.result().packet
        return Ended(int(str(packet.get("code", -1))), bool(packet.get("has_run")))

    async def open_space(self, *, listen: bool) -> tuple[int, socket.socket | None]:
        """A network that the commands of one thread share, and a listener in it.

        Raises:
            SandboxError: This machine makes none.
        """
        number = next(self._numbers)
        answered = await self._ask(number, {"do": "open", "listen": listen})
        try:
            async with asyncio.timeout(START_S):
                answer = await answered
        except BaseException:
            self.close_space(number)  # it may be there by now
            raise
        if problem := answer.packet.get("problem"):
            raise SandboxError(str(problem))
        self._spaces[number] = int(str(answer.packet["network"]))
        return number, socket.socket(fileno=answer.files[0]) if answer.files else None

    def network_of(self, space: int) -> int:
        """What the kernel calls a network."""
        return self._spaces[space]

    def has_space(self, space: int) -> bool:
        """Whether a network is still there; those of a launcher that has ended are not."""
        return space in self._spaces

    def close_space(self, space: int) -> None:
        """Let go of a network."""
        self._spaces.pop(space, None)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(json.dumps({"do": "close", "id": 0, "space": space}).encode())

    async def aclose(self) -> None:
        """End the launcher and everything it started."""
        if self._starting is not None:
            await asyncio.wait({self._starting})
        self._lose()
        if self._process is not None:
            await asyncio.to_thread(end, self._process)
        if self._stage is not None:
            with suppress(OSError):
                self._stage.rmdir()

    async def _end(
        self,
        number: int,
        ended: "asyncio.Future[Answer]",
        reading: "asyncio.Future[None]",
        transport: asyncio.ReadTransport,
        timed_out: bool,
    ) -> Ended:
        """See to it that nothing is left of a command, and tell how it ended."""
        if not ended.done():
            self._kill(number)
        await asyncio.wait({ended}, timeout=END_S)
        if ended.done():
            await asyncio.wait({reading}, timeout=END_S)  # everybody who could write is gone
        reading.cancel()
        transport.close()
        self._expected.pop(number, None)
        if not ended.done():
            raise SandboxError(CANNOT_END)
        packet = ended.result().packet
        return Ended(int(str(packet.get("code", -1))), bool(packet.get("has_run")), timed_out)

    def _kill(self, number: int) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(json.dumps({"do": "kill", "id": number}).encode())

    async def _ask(
        self, number: int, request: dict[str, object], files: Sequence[int] = ()
    ) -> "asyncio.Future[Answer]":
        connection = await self._connect()
        answered = self._expected[number] = asyncio.get_running_loop().create_future()
        packet = json.dumps({**request, "id": number}).encode()
        if len(packet) > MAX_PACKET:
            raise SandboxError(TOO_LONG)
        while True:
            try:
                socket.send_fds(connection, [packet], files)
                return answered
            except BlockingIOError:
                await writable(connection)
            except OSError as problem:
                if problem.errno == errno.EMSGSIZE:  # the system sets a limit of its own
                    raise SandboxError(TOO_LONG) from None
                self._lose()
                raise SandboxError(GONE) from problem

    async def _connect(self) -> socket.socket:
        if self._socket is None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
                self._starting.add_done_callback(forget_failure)
            # Whoever asked may be cancelled: that must not leave a process half started.
            await asyncio.shield(self._starting)
        if self._socket is None:
            raise SandboxError(GONE)
        return self._socket

    async def _start(self) -> None:
        if self._stage is None:
            self._stage = await asyncio.to_thread(make_stage)
        if self._process is not None:  # one that was lost
            await asyncio.to_thread(end, self._process)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            self._process = await asyncio.to_thread(spawn, theirs.fileno())
        ours.send(json.dumps({**self._settings, "stage": str(self._stage)}).encode())
        ours.setblocking(False)
        ready = self._expected[0] = asyncio.get_running_loop().create_future()
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours, self._listen)
        try:
            async with asyncio.timeout(START_S):
                await ready
        except (TimeoutError, SandboxError):
            self._lose()
            raise SandboxError("the process that starts commands did not start") from None

    def _listen(self) -> None:
        if self._socket is None:
            return
        try:
            packet, files, _, _ = socket.recv_fds(self._socket, MAX_PACKET, 4)
        except BlockingIOError:
            return
        except OSError:
            packet, files = b"", []
        if not packet:
            self._lose()
            return
        answer = Answer(json.loads(packet), files)
        expected = self._expected.pop(int(str(answer.packet["id"])), None)
        if expected is not None and not expected.done():
            expected.set_result(answer)
            return
        for file in files:  # nobody waits for it any more
            os.close(file)

    def _lose(self) -> None:
        """Forget the launcher; the next command starts another."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        self._spaces.clear()
        for expected in self._expected.values():
            if not expected.done():
                expected.set_exception(SandboxError(GONE))
                expected.exception()  # some have nobody left who asks
        self._expected.clear()


def forget_failure(task: "asyncio.Task[None]") -> None:
    """Have a failure told only to those who wait for the task."""
    if not task.cancelled():
        task.exception()


def spawn(connection: int) -> "subprocess.Popen[bytes]":
    """Start the launcher, with nothing of our environment."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROGRAM), str(connection)],
        pass_fds=[connection],
        env={},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a launcher whose connection is closed."""
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def make_stage() -> Path:
    """A folder that everybody can pass and only the launcher fills, where nobody else sees it."""
    stage = make_temporary("stage")
    stage.chmod(0o711)
    return stage


async def read_pipe(descriptor: int) -> tuple[asyncio.ReadTransport, asyncio.StreamReader]:
    """A stream of what comes out of a pipe."""
    stream = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )
    return transport, stream


async def writable(connection: socket.socket) -> None:
    """Wait until something can be sent."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(connection)
