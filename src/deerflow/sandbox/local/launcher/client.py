"""Client of the launcher process: starts commands and returns their exit status."""

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
from deerflow.sandbox.local.launcher.bubblewrap import Bind, build_seccomp_filter
from deerflow.sandbox.local.output import OutputReader
from deerflow.sandbox.local.usage import make_temporary_folder

PROGRAM = Path(__file__).with_name("server.py")
START_TIMEOUT_S = 10.0
KILL_TIMEOUT_S = 5.0
MAX_PACKET = 1 << 20
SEND_BUFFER = 4 << 20
TOO_LONG = "the command is too long; write it to a file and run that"
KILL_FAILED = "a command could not be killed; see the log of the server"
NOT_STARTED = "the process that starts commands did not start"
LAUNCHER_EXITED = "the process that starts commands has exited; call the tool again"


@dataclass(frozen=True, slots=True)
class IsolatedCommand:
    """A command with the arguments of bubblewrap, cgroups and resource limits."""

    argv: Sequence[str]
    options: Sequence[str] = ()
    binds: Sequence[Bind] = ()
    """Bind mounts, placed between the options."""
    trailing_options: Sequence[str] = ()
    cgroups: Sequence[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    namespace: int | None = None

    def to_request(self) -> dict[str, object]:
        """Return the request for the launcher."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """Exit status of a command."""

    code: int
    has_run: bool = True
    """False if the isolation failed; the output gives the reason."""
    timed_out: bool = False
    kill_reason: str | None = None
    """Reason why it was killed, if it exceeded a limit."""


@dataclass(frozen=True, slots=True)
class LauncherReply:
    """A reply of the launcher."""

    packet: Mapping[str, object]
    files: Sequence[int]


@dataclass(frozen=True, slots=True)
class RunningCommand:
    """A started command and the reply that follows when it exits."""

    number: int
    reply: "asyncio.Future[LauncherReply]"


class LauncherClient:
    """Client that starts the launcher process when it is needed."""

    def __init__(self, bubblewrap: Path, uid: int | None) -> None:
        """Create it. `uid` is the user id of commands if the server is root."""
        self.program = bubblewrap
        self._settings = {"bubblewrap": str(bubblewrap), "uid": uid, "seccomp": build_seccomp_filter().hex()}
        self._numbers = count(1)
        self._pending: dict[int, asyncio.Future[LauncherReply]] = {}
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._staging_dir: Path | None = None
        self._starting: asyncio.Task[None] | None = None
        self._finishing: set[asyncio.Task[ExitStatus]] = set()
        self._namespaces: dict[int, int] = {}

    async def run(self, command: IsolatedCommand, reader: OutputReader, timeout_s: float) -> ExitStatus:
        """Run a command to its end; cancelling kills everything it started.

        Raises:
            SandboxError: The launcher is not available.
        """
        number = next(self._numbers)
        output, output_end = os.pipe()
        try:
            # From the start to the next await below, cancellation must not leave the command running.
            transport, stream = await open_pipe_reader(output)
            try:
                reply = await self._request(number, {"action": "start", **command.to_request()}, [output_end])
            except BaseException:
                transport.close()
                self._pending.pop(number, None)
                raise
        finally:
            os.close(output_end)
        reading = asyncio.ensure_future(reader.read(stream))
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(reading)
                if not reader.limit_exceeded:
                    await asyncio.shield(reply)
        except TimeoutError:
            timed_out = True
        finally:
            # Continues even if the caller is cancelled twice.
            finishing = asyncio.create_task(self._finish(number, reply, reading, transport, timed_out))
            self._finishing.add(finishing)
            finishing.add_done_callback(self._finishing.discard)
            await asyncio.shield(finishing)
        return finishing.result()

    async def start(self, command: IsolatedCommand, files: Sequence[int]) -> "RunningCommand":
        """Start a command with its three standard streams; the caller stops it.

        Raises:
            SandboxError: The launcher is not available.
        """
        number = next(self._numbers)
        try:
            return RunningCommand(
                number, await self._request(number, {"action": "start", **command.to_request()}, files)
            )
        except BaseException:
            self._pending.pop(number, None)
            raise

    async def stop(self, running: "RunningCommand") -> ExitStatus:
        """Kill a started command with everything it started, and return its exit status."""
        if not running.reply.done():
            self._kill(running.number)
        await asyncio.wait({running.reply}, timeout=KILL_TIMEOUT_S)
        self._pending.pop(running.number, None)
        if not running.reply.done():
            raise SandboxError(KILL_FAILED)
        if running.reply.exception() is not None:  # the launcher has exited
            return ExitStatus(-1)
        packet = running.reply.result().packet
        return ExitStatus(int(str(packet.get("code", -1))), bool(packet.get("has_run")))

    async def open_namespace(self, *, listen: bool) -> tuple[int, socket.socket | None]:
        """Create a network namespace for the commands of a thread; return its id and a listener in it.

        Raises:
            SandboxError: The machine does not support it.
        """
        number = next(self._numbers)
        requested = await self._request(number, {"action": "open_network", "listen": listen})
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                reply = await requested
        except BaseException:
            self.close_namespace(number)  # it may exist by now
            if requested.done() and not requested.cancelled() and requested.exception() is None:
                for file in requested.result().files:
                    os.close(file)
            raise
        if problem := reply.packet.get("problem"):
            raise SandboxError(str(problem))
        self._namespaces[number] = int(str(reply.packet["inode"]))
        return number, socket.socket(fileno=reply.files[0]) if reply.files else None

    def namespace_inode(self, namespace: int) -> int:
        """Return the inode of a network namespace."""
        return self._namespaces[namespace]

    def has_namespace(self, namespace: int) -> bool:
        """Return True if a network namespace exists; those of a launcher that has exited do not."""
        return namespace in self._namespaces

    def close_namespace(self, namespace: int) -> None:
        """Release a network namespace."""
        self._namespaces.pop(namespace, None)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(json.dumps({"action": "close_network", "id": 0, "namespace": namespace}).encode())

    async def aclose(self) -> None:
        """Stop the launcher and everything it started."""
        if self._starting is not None:
            await asyncio.wait({self._starting})
        self._disconnect()
        if self._process is not None:
            await asyncio.to_thread(wait_for_exit, self._process)
        if self._staging_dir is not None:
            with suppress(OSError):
                self._staging_dir.rmdir()

    async def _finish(
        self,
        number: int,
        reply: "asyncio.Future[LauncherReply]",
        reading: "asyncio.Future[None]",
        transport: asyncio.ReadTransport,
        timed_out: bool,
    ) -> ExitStatus:
        """Kill what is left of a command and return its exit status."""
        if not reply.done():
            self._kill(number)
        await asyncio.wait({reply}, timeout=KILL_TIMEOUT_S)
        if reply.done():
            await asyncio.wait({reading}, timeout=KILL_TIMEOUT_S)  # all writers have exited
        reading.cancel()
        transport.close()
        self._pending.pop(number, None)
        if not reply.done():
            raise SandboxError(KILL_FAILED)
        packet = reply.result().packet
        return ExitStatus(int(str(packet.get("code", -1))), bool(packet.get("has_run")), timed_out)

    def _kill(self, number: int) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(json.dumps({"action": "kill", "id": number}).encode())

    async def _request(
        self, number: int, request: dict[str, object], files: Sequence[int] = ()
    ) -> "asyncio.Future[LauncherReply]":
        connection = await self._connect()
        reply = self._pending[number] = asyncio.get_running_loop().create_future()
        packet = json.dumps({**request, "id": number}).encode()
        if len(packet) > MAX_PACKET:
            raise SandboxError(TOO_LONG)
        while True:
            try:
                socket.send_fds(connection, [packet], files)
                return reply
            except BlockingIOError:
                await wait_writable(connection)
            except OSError as problem:
                if problem.errno == errno.EMSGSIZE:  # the system has its own limit
                    raise SandboxError(TOO_LONG) from None
                self._disconnect()
                raise SandboxError(LAUNCHER_EXITED) from problem

    async def _connect(self) -> socket.socket:
        if self._socket is None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
                self._starting.add_done_callback(consume_exception)
            # A cancelled caller must not leave a half-started process.
            await asyncio.shield(self._starting)
        if self._socket is None:
            raise SandboxError(LAUNCHER_EXITED)
        return self._socket

    async def _start(self) -> None:
        if self._staging_dir is None:
            self._staging_dir = await asyncio.to_thread(make_staging_dir)
        if self._process is not None:  # its connection was lost
            await asyncio.to_thread(wait_for_exit, self._process)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
                self._process = await asyncio.to_thread(spawn_launcher, theirs.fileno())
            ours.send(json.dumps({**self._settings, "staging_dir": str(self._staging_dir)}).encode())
            ours.setblocking(False)
        except BaseException as problem:
            ours.close()
            if isinstance(problem, OSError):  # no process could be created, or it has exited already
                raise SandboxError(NOT_STARTED) from problem
            raise
        ready = self._pending[0] = asyncio.get_running_loop().create_future()
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours, self._receive)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await ready
        except (TimeoutError, SandboxError):
            self._disconnect()
            raise SandboxError(NOT_STARTED) from None

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            packet, files, _, _ = socket.recv_fds(self._socket, MAX_PACKET, 4)
        except BlockingIOError:
            return
        except OSError:
            packet, files = b"", []
        if not packet:
            self._disconnect()
            return
        reply = LauncherReply(json.loads(packet), files)
        pending = self._pending.pop(int(str(reply.packet["id"])), None)
        if pending is not None and not pending.done():
            pending.set_result(reply)
            return
        for file in files:  # no one waits for this reply
            os.close(file)

    def _disconnect(self) -> None:
        """Drop the connection to the launcher; the next command starts a new one."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        self._namespaces.clear()
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(SandboxError(LAUNCHER_EXITED))
                pending.exception()  # some are not awaited any more
        self._pending.clear()


def consume_exception(task: "asyncio.Task[None]") -> None:
    """Mark the exception of a task as retrieved: only its waiters report it."""
    if not task.cancelled():
        task.exception()


def spawn_launcher(connection: int) -> "subprocess.Popen[bytes]":
    """Start the launcher process with an empty environment."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROGRAM), str(connection)],
        pass_fds=[connection],
        env={},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for_exit(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a launcher whose connection is closed; kill it after a timeout."""
    try:
        process.wait(timeout=KILL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def make_staging_dir() -> Path:
    """Create the staging directory: any user can enter it, and the launcher fills it in its own mount namespace."""
    folder = make_temporary_folder("stage")
    folder.chmod(0o711)
    return folder


async def open_pipe_reader(descriptor: int) -> tuple[asyncio.ReadTransport, asyncio.StreamReader]:
    """Return a stream reader of a pipe."""
    stream = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )
    return transport, stream


async def wait_writable(connection: socket.socket) -> None:
    """Wait until the socket is writable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(connection)
