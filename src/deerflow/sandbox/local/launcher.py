"""Starts sandboxed commands for the server; a program of its own, run as `python -I -S launcher.py FD`.

The server has threads and much memory, so forking it is slow and doing anything between fork and exec is unsafe. This
process is small and has one thread: its children can enter namespaces, mount what the sandbox is to see, give up root
and only then become bubblewrap. It ends with the server, and with it everything it started.

Requests and answers are JSON packets on the socket FD; open files travel along with them.
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
SIOCSIFFLAGS, IFF_UP, IFF_LOOPBACK, IFF_RUNNING = 0x8914, 0x1, 0x8, 0x40
PROXY = ("127.0.0.1", 3128)
MAX_PACKET = 1 << 20
MAX_FILES = 4
STANDARD_FILES = 3
MAX_STAGED = 64
CANNOT_START = 125

Request = dict[str, Any]
Bind = Sequence[str]
"""Where from, where to, and which option of bubblewrap does it."""

LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Ending:
    """A command whose first process is gone, and what is still awaited before that is told."""

    answer: dict[str, object]
    awaited: set[int]


class Launcher:
    """Carries out the requests of one server."""

    def __init__(self, server: socket.socket, settings: dict[str, Any]) -> None:
        self.server = server
        self.bubblewrap: str = settings["bubblewrap"]
        self.uid: int | None = settings["uid"]  # None: commands run as the user we are
        self.stage: str = settings["stage"]
        self.seccomp = bytes.fromhex(settings["seccomp"])
        self.commands: dict[int, object] = {}
        self.orphans: set[int] = set()
        self.endings: list[Ending] = []
        self.spaces: dict[object, tuple[int, int]] = {}
        self.selector = selectors.DefaultSelector()

    def serve(self) -> NoReturn:
        """Do what the server asks until it is gone."""
        # Whatever loses its parent becomes our child, so that none of it can be missed.
        checked(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        if self.uid is not None:
            prepare_stage(self.stage)
            self.bubblewrap = reachable_program(self.bubblewrap, self.stage)
        self.selector.register(self.server, selectors.EVENT_READ, self.listen)
        self.answer({"id": 0})
        try:
            while True:
                for key, _ in self.selector.select():
                    key.data()
        except ConnectionError:
            self.end()

    def listen(self) -> None:
        """Take one request."""
        packet, files, _, _ = socket.recv_fds(self.server, MAX_PACKET, MAX_FILES)
        if not packet:
            self.end()
        request = json.loads(packet)
        work = {"start": self.start, "kill": self.kill, "open": self.open_space, "close": self.close_space}
        try:
            work[request["do"]](request, files)
        except OSError as problem:
            self.answer({"id": request["id"], "problem": str(problem)})
        finally:
            for file in files:
                os.close(file)

    def end(self) -> NoReturn:
        """The server is gone: leave nothing behind."""
        while left := children():
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            for pid in left:
                os.waitpid(pid, 0)
        os._exit(0)

    def answer(self, packet: dict[str, object], files: Sequence[int] = ()) -> None:
        """Tell the server."""
        socket.send_fds(self.server, [json.dumps(packet).encode()], files)

    def start(self, request: Request, files: Sequence[int]) -> None:
        """Run a command; its end is told when nothing of it is left."""
        status, status_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            in_child(lambda: self.become_bubblewrap(request, files, status_end), files[-1])
        os.close(status_end)
        self.commands[pid] = request["id"]
        self.watch(pid, lambda code: self.begin_ending(pid, code, status))

    def become_bubblewrap(self, request: Request, files: Sequence[int], status: int) -> None:
        """Turn this child into the command. It is given one file for all it prints, or its three standard ones."""
        for group in request["cgroups"]:
            Path(group).write_text("0")  # ourselves
        binds: Sequence[Bind] = request["binds"]
        if self.uid is not None:
            binds = staged(self.stage, binds)
            give_up_root(self.uid)
        if request["space"] is not None:
            enter(*self.spaces[request["space"]])
        for name, limit in request["limits"].items():
            set_limit(getattr(resource, name), limit)
        options = [*request["options"], *(word for where, to, way in binds for word in (way, where, to))]
        options += [*request["last_options"], "--json-status-fd", str(status)]
        filter_program = memory_file(self.seccomp)
        options += ["--seccomp", str(filter_program)]
        # By a file: everybody in the sandbox can read the command line of its first process.
        arguments = memory_file(b"".join(word.encode() + b"\0" for word in options))
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate(files if len(files) == STANDARD_FILES else (nothing, files[0], files[0])):
            os.dup2(file, number)
        inherit_only({status, arguments, filter_program})
        # Also before bubblewrap sees to it itself.
        checked(LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        os.execve(self.bubblewrap, ["bwrap", "--args", str(arguments), "--", *request["command"]], {})

    def kill(self, request: Request, files: Sequence[int]) -> None:
        """End a command at once."""
        for pid, command in self.commands.items():
            if command == request["id"]:
                os.kill(pid, signal.SIGKILL)

    def begin_ending(self, pid: int, code: int, status: int) -> None:
        """Kill what a command has left behind, and remember to tell of its end."""
        with os.fdopen(status, "rb") as file:
            os.set_blocking(status, False)  # what it left behind may still hold the other end
            # Otherwise bubblewrap itself has failed, unless it was killed.
            has_run = b"exit-code" in (file.read() or b"") or code < 0
        answer = {"id": self.commands.pop(pid), "code": code, "has_run": has_run}
        # The inner process of bubblewrap outlives the outer one for a moment, or for good if that died very early.
        for orphan in set(children()) - self.commands.keys() - self.orphans:
            os.kill(orphan, signal.SIGKILL)
            self.orphans.add(orphan)
            self.watch(orphan, lambda _, orphan=orphan: self.end_orphan(orphan))  # type: ignore[misc]
        self.endings.append(Ending(answer, set(self.orphans)))
        self.tell_endings()

    def end_orphan(self, pid: int) -> None:
        """Note that something left behind is gone."""
        self.orphans.remove(pid)
        for ending in self.endings:
            ending.awaited.discard(pid)
        self.tell_endings()

    def tell_endings(self) -> None:
        """Tell of the commands of which nothing is left."""
        for ending in [ending for ending in self.endings if not ending.awaited]:
            self.endings.remove(ending)
            self.answer(ending.answer)

    def watch(self, pid: int, ended: Callable[[int], None]) -> None:
        """Have `ended` called with the exit code of a child."""
        descriptor = os.pidfd_open(pid)

        def reap() -> None:
            self.selector.unregister(descriptor)
            os.close(descriptor)
            ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        self.selector.register(descriptor, selectors.EVENT_READ, reap)

    def open_space(self, request: Request, files: Sequence[int]) -> None:
        """Make a network of its own that all commands of one thread share; a listener in it goes to the server."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                in_child(lambda: make_space(theirs, self.uid, request["listen"]), sys.stderr.fileno())
            theirs.close()
            packet, space, _, _ = socket.recv_fds(ours, MAX_PACKET, MAX_FILES)
            os.waitpid(pid, 0)
        if len(space) < 2:
            raise OSError(f"no network of its own can be made: {packet.decode() or 'not permitted'}")
        user, network, *listener = space
        self.spaces[request["id"]] = (user, network)
        self.answer({"id": request["id"], "network": os.fstat(network).st_ino}, listener)
        for file in listener:
            os.close(file)

    def close_space(self, request: Request, files: Sequence[int]) -> None:
        """Let go of a network; it ends with the last command in it."""
        for file in self.spaces.pop(request["space"], ()):
            os.close(file)


def in_child(work: Callable[[], None], complaints: int) -> NoReturn:
    """Do `work` in a forked child, which never returns to the code of its parent."""
    try:
        work()
    except BaseException as problem:  # noqa: BLE001 (whatever it is, a second launcher must not go on from here)
        os.write(complaints, f"sandbox: {problem}\n".encode())
        os._exit(CANNOT_START)
    os._exit(0)


def make_space(parent: socket.socket, uid: int | None, listen: bool) -> None:
    """Enter new user and network namespaces and send them to the parent."""
    try:
        if uid is not None:
            give_up_root(uid)
        user, group = os.geteuid(), os.getegid()
        checked(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET), "unshare")
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_LOOPBACK | IFF_RUNNING))
        files = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "net")]
        if listen:
            listener = socket.create_server(PROXY, backlog=64)
            files.append(listener.detach())
    except OSError as problem:
        parent.send(str(problem).encode())
        return
    socket.send_fds(parent, [b"made"], files)


def enter(user: int, network: int) -> None:
    """Join the network of a thread."""
    checked(LIBC.setns(user, CLONE_NEWUSER), "setns")
    checked(LIBC.setns(network, CLONE_NEWNET), "setns")


def prepare_stage(stage: str) -> None:
    """Have mount points that nobody else sees, for folders that only root can reach."""
    checked(LIBC.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mount("tmpfs", stage, "tmpfs", 0)
    Path(stage).chmod(0o755)
    for number in range(MAX_STAGED):
        Path(stage, f"folder{number}").mkdir()
        Path(stage, f"file{number}").touch()


def reachable_program(program: str, stage: str) -> str:
    """A copy of bubblewrap, with the libraries beside it, that an unprivileged user can start."""
    if program.startswith("/usr/"):
        return program
    package = Path(program).parent.parent
    for file in [Path(program), *package.with_name(f"{package.name}.libs").glob("*.so*")]:
        copy = Path(stage, "program", file.relative_to(package.parent))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o755)
    return str(Path(stage, "program", Path(program).relative_to(package.parent)))


def staged(stage: str, binds: Sequence[Bind]) -> Sequence[Bind]:
    """Mount everything where an unprivileged user can reach it, in a namespace of this child alone."""
    checked(LIBC.unshare(CLONE_NEWNS), "unshare")
    found = []
    for number, (where, to, way) in enumerate(binds):
        place = f"{stage}/{'folder' if Path(where).is_dir() else 'file'}{number}"
        mount(where, place, None, MS_BIND | MS_REC)
        found.append((place, to, way))
    return found


def give_up_root(uid: int) -> None:
    """Become an unprivileged user for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    checked(LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # else the maps of a namespace belong to root


def set_limit(kind: int, limit: int) -> None:
    """Lower a limit for good; one that is lower already stays."""
    highest = resource.getrlimit(kind)[1]
    lower = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
    resource.setrlimit(kind, (lower, lower))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """The system call."""
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    checked(LIBC.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")


def checked(result: int, what: str) -> None:
    """Raise what the C library reports."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def inherit_only(files: set[int]) -> None:
    """Have the next program get these files and the standard ones, and no other: above all not our connection."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        if (number := int(entry.name)) > 2:
            with suppress(OSError):  # the one through which this list was read
                os.set_inheritable(number, number in files)


def memory_file(content: bytes) -> int:
    """A file with `content` that the next program inherits."""
    descriptor = os.memfd_create("options", 0)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def children() -> list[int]:
    """The processes whose parent we are."""
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        Launcher(connection, json.loads(connection.recv(MAX_PACKET))).serve()
