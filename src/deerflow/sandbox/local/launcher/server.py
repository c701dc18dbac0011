"""Launcher process that starts sandboxed commands; run as `python -I -S server.py FD`.

The server has threads and much memory: forking it is slow, and running code between fork and exec is unsafe. This
process is small and single-threaded: its children can enter namespaces, mount what the sandbox sees, drop root and only
then exec bubblewrap. It exits with the server, and so does everything it started.

Requests and replies are JSON packets on the socket FD; file descriptors are passed along with them.
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
"""Source path, target path, and the bubblewrap option that mounts it."""

LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class PendingExit:
    """Reply for a command that has exited, and the processes it still waits for."""

    reply: dict[str, object]
    awaited: set[int]


class Launcher:
    """Handler of the requests of one server."""

    def __init__(self, server: socket.socket, settings: dict[str, Any]) -> None:
        self.server = server
        self.bubblewrap: str = settings["bubblewrap"]
        self.uid: int | None = settings["uid"]  # None: commands run as our own user
        self.staging_dir: str = settings["staging_dir"]
        self.seccomp = bytes.fromhex(settings["seccomp"])
        self.commands: dict[int, object] = {}
        self.orphans: set[int] = set()
        self.pending_exits: list[PendingExit] = []
        self.networks: dict[object, tuple[int, int]] = {}
        self.selector = selectors.DefaultSelector()

    def serve(self) -> NoReturn:
        """Handle requests until the server disconnects."""
        # Orphaned descendants become our children, so that none is missed.
        check_errno(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        if self.uid is not None:
            prepare_staging(self.staging_dir)
            self.bubblewrap = copy_program(self.bubblewrap, self.staging_dir)
        self.selector.register(self.server, selectors.EVENT_READ, self.handle_request)
        self.reply({"id": 0})
        try:
            while True:
                for key, _ in self.selector.select():
                    key.data()
        except ConnectionError:
            self.shut_down()

    def handle_request(self) -> None:
        """Handle one request."""
        packet, files, _, _ = socket.recv_fds(self.server, MAX_PACKET, MAX_FILES)
        if not packet:
            self.shut_down()
        request = json.loads(packet)
        actions = {
            "start": self.start,
            "kill": self.kill,
            "open_network": self.open_network,
            "close_network": self.close_network,
        }
        try:
            actions[request["action"]](request, files)
        except OSError as problem:
            self.reply({"id": request["id"], "problem": str(problem)})
        finally:
            for file in files:
                os.close(file)

    def shut_down(self) -> NoReturn:
        """Kill all children and exit: the server has disconnected."""
        while left := list_children():
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            for pid in left:
                os.waitpid(pid, 0)
        os._exit(0)

    def reply(self, packet: dict[str, object], files: Sequence[int] = ()) -> None:
        """Send a reply to the server."""
        socket.send_fds(self.server, [json.dumps(packet).encode()], files)

    def start(self, request: Request, files: Sequence[int]) -> None:
        """Start a command; its exit is reported when none of its processes is left."""
        status, status_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            run_in_child(lambda: self.exec_bubblewrap(request, files, status_end), files[-1])
        os.close(status_end)
        self.commands[pid] = request["id"]
        self.watch(pid, lambda code: self.handle_exit(pid, code, status))

    def exec_bubblewrap(self, request: Request, files: Sequence[int], status: int) -> None:
        """Turn this child into the command. It gets one descriptor for all output, or the three standard streams."""
        for group in request["cgroups"]:
            Path(group).write_text("0")  # this process
        binds: Sequence[Bind] = request["binds"]
        if self.uid is not None:
            binds = stage_binds(self.staging_dir, binds)
            drop_root(self.uid)
        if request["namespace"] is not None:
            enter_namespaces(*self.networks[request["namespace"]])
        for name, limit in request["limits"].items():
            lower_limit(getattr(resource, name), limit)
        options = [*request["options"]]
        options += [word for source, target, option in binds for word in (option, source, target)]
        options += [*request["trailing_options"], "--json-status-fd", str(status)]
        filter_program = make_memfd(self.seccomp)
        options += ["--seccomp", str(filter_program)]
        # In a file: the command line of the first process is readable in the sandbox.
        arguments = make_memfd(b"".join(word.encode() + b"\0" for word in options))
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate(files if len(files) == STANDARD_FILES else (nothing, files[0], files[0])):
            os.dup2(file, number)
        limit_inherited({status, arguments, filter_program})
        # Also for the time before bubblewrap sets it itself.
        check_errno(LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        os.execve(self.bubblewrap, ["bwrap", "--args", str(arguments), "--", *request["argv"]], {})

    def kill(self, request: Request, files: Sequence[int]) -> None:
        """Kill a command."""
        for pid, command in self.commands.items():
            if command == request["id"]:
                os.kill(pid, signal.SIGKILL)

    def handle_exit(self, pid: int, code: int, status: int) -> None:
        """Kill the processes that a command left behind, and queue the reply."""
        with os.fdopen(status, "rb") as file:
            os.set_blocking(status, False)  # remaining processes may still hold the other end
            # Without an exit code, bubblewrap itself has failed, unless it was killed.
            has_run = b"exit-code" in (file.read() or b"") or code < 0
        reply = {"id": self.commands.pop(pid), "code": code, "has_run": has_run}
        # The inner process of bubblewrap outlives the outer one briefly, or permanently if that died very early.
        for orphan in set(list_children()) - self.commands.keys() - self.orphans:
            os.kill(orphan, signal.SIGKILL)
            self.orphans.add(orphan)
            self.watch(orphan, lambda _, orphan=orphan: self.handle_orphan_exit(orphan))  # type: ignore[misc]
        self.pending_exits.append(PendingExit(reply, set(self.orphans)))
        self.send_exits()

    def handle_orphan_exit(self, pid: int) -> None:
        """Record that an orphan has exited."""
        self.orphans.remove(pid)
        for pending in self.pending_exits:
            pending.awaited.discard(pid)
        self.send_exits()

    def send_exits(self) -> None:
        """Reply for the commands that have no processes left."""
        for pending in [pending for pending in self.pending_exits if not pending.awaited]:
            self.pending_exits.remove(pending)
            self.reply(pending.reply)

    def watch(self, pid: int, on_exit: Callable[[int], None]) -> None:
        """Call `on_exit` with the exit code of a child."""
        descriptor = os.pidfd_open(pid)

        def reap() -> None:
            self.selector.unregister(descriptor)
            os.close(descriptor)
            on_exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        self.selector.register(descriptor, selectors.EVENT_READ, reap)

    def open_network(self, request: Request, files: Sequence[int]) -> None:
        """Create a network namespace for the commands of a thread and send a listener in it to the server."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                run_in_child(lambda: create_network_namespace(theirs, self.uid, request["listen"]), sys.stderr.fileno())
            theirs.close()
            packet, descriptors, _, _ = socket.recv_fds(ours, MAX_PACKET, MAX_FILES)
            os.waitpid(pid, 0)
        if len(descriptors) < 2:
            raise OSError(f"cannot create a network namespace: {packet.decode() or 'not permitted'}")
        user, network, *listener = descriptors
        self.networks[request["id"]] = (user, network)
        self.reply({"id": request["id"], "inode": os.fstat(network).st_ino}, listener)
        for file in listener:
            os.close(file)

    def close_network(self, request: Request, files: Sequence[int]) -> None:
        """Release a network namespace; it ends with the last command in it."""
        for file in self.networks.pop(request["namespace"], ()):
            os.close(file)


def run_in_child(work: Callable[[], None], error_file: int) -> NoReturn:
    """Run `work` in a forked child, which never returns to the code of its parent."""
    try:
        work()
    except BaseException as problem:  # noqa: BLE001 (a second launcher must never continue from here)
        os.write(error_file, f"sandbox: {problem}\n".encode())
        os._exit(CANNOT_START)
    os._exit(0)


def create_network_namespace(parent: socket.socket, uid: int | None, listen: bool) -> None:
    """Enter new user and network namespaces and send their descriptors to the parent."""
    try:
        if uid is not None:
            drop_root(uid)
        user, group = os.geteuid(), os.getegid()
        check_errno(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET), "unshare")
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


def enter_namespaces(user: int, network: int) -> None:
    """Join the user and network namespaces of a thread."""
    check_errno(LIBC.setns(user, CLONE_NEWUSER), "setns")
    check_errno(LIBC.setns(network, CLONE_NEWNET), "setns")


def prepare_staging(staging_dir: str) -> None:
    """Create private mount points for folders that only root can reach."""
    check_errno(LIBC.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mount("tmpfs", staging_dir, "tmpfs", 0)
    Path(staging_dir).chmod(0o755)
    for number in range(MAX_STAGED):
        Path(staging_dir, f"folder{number}").mkdir()
        Path(staging_dir, f"file{number}").touch()


def copy_program(program: str, staging_dir: str) -> str:
    """Copy bubblewrap and its libraries to where an unprivileged user can run it, and return its path."""
    if program.startswith("/usr/"):
        return program
    package = Path(program).parent.parent
    for file in [Path(program), *package.with_name(f"{package.name}.libs").glob("*.so*")]:
        copy = Path(staging_dir, "program", file.relative_to(package.parent))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o755)
    return str(Path(staging_dir, "program", Path(program).relative_to(package.parent)))


def stage_binds(staging_dir: str, binds: Sequence[Bind]) -> Sequence[Bind]:
    """Mount the sources where an unprivileged user can reach them, in a mount namespace of this child."""
    check_errno(LIBC.unshare(CLONE_NEWNS), "unshare")
    found = []
    for number, (source, path, option) in enumerate(binds):
        target = f"{staging_dir}/{'folder' if Path(source).is_dir() else 'file'}{number}"
        mount(source, target, None, MS_BIND | MS_REC)
        found.append((target, path, option))
    return found


def drop_root(uid: int) -> None:
    """Become an unprivileged user permanently."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    check_errno(LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # else the uid map of a namespace belongs to root


def lower_limit(kind: int, limit: int) -> None:
    """Lower a resource limit permanently; a lower one is kept."""
    highest = resource.getrlimit(kind)[1]
    lower = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
    resource.setrlimit(kind, (lower, lower))


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """Call mount(2)."""
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    check_errno(LIBC.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")


def check_errno(result: int, what: str) -> None:
    """Raise `OSError` if a C call failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def limit_inherited(files: set[int]) -> None:
    """Let the next program inherit only these descriptors and the standard streams: above all not our connection."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        if (number := int(entry.name)) > 2:
            with suppress(OSError):  # the descriptor of this listing itself
                os.set_inheritable(number, number in files)


def make_memfd(content: bytes) -> int:
    """Return an inheritable memory file with `content`."""
    descriptor = os.memfd_create("options", 0)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def list_children() -> list[int]:
    """Return the ids of our child processes."""
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        Launcher(connection, json.loads(connection.recv(MAX_PACKET))).serve()
