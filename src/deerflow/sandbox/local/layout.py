"""What a command sees of this machine."""

import re
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.furnishing import HOME
from deerflow.sandbox.local.launch import Bind
from deerflow.sandbox.places import TEMPORARY, Place

TOOLS = "/opt/deerflow"
NODE = "/opt/node"
NODE_FOLDER = re.compile(r"node(js)?|(node-)?v?[0-9]+\.[0-9]+\.[0-9]+[\w.-]*")
SHARED_MEMORY_BYTES = 256 * 1024 * 1024
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
ETC_OF_HOST = ("alternatives", "ca-certificates", "fonts", "ld.so.cache", "localtime", "mime.types", "pki", "ssl")
"""What programs look for in /etc and holds no secret."""

NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--disable-userns", "--cap-drop", "ALL", "--hostname", "sandbox"),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The same for every command of a server."""

    etc: Path
    tools: Mapping[str, Path]
    """Programs of ours and Python environments, by the path they are shown at, read-only."""
    path: Sequence[str]
    variables: Mapping[str, str]
    configured: Mapping[str, str] = field(default_factory=dict)
    """The variables of the configuration, which not all commands may see."""

    def confined(self, to: Confinement | None) -> "Layout":
        """The same, with fewer variables."""
        if to is None or to.environment is None:
            return self
        seen = {name: value for name, value in self.configured.items() if name in to.environment}
        return replace(self, configured=seen)

    def options(self, *, share_network: bool, env: Mapping[str, str]) -> list[str]:
        """What bubblewrap is told before the binds."""
        options = [*NAMESPACES, *([] if share_network else ["--unshare-net"]), "--ro-bind", "/usr", "/usr"]
        for name in USR_LINKS:
            options += root_entry(Path("/", name))
        options += ["--proc", "/proc", "--dev", "/dev", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
        for name, value in self.environment(env).items():
            options += ["--setenv", name, value]
        return options

    def binds(self, places: Sequence[Place]) -> list[Bind]:
        """The folders that are shown."""
        shown = [(str(folder), path, "--ro-bind") for path, folder in {"/etc": self.etc, **self.tools}.items()]
        return shown + [
            (str(place.folder), place.path, "--ro-bind" if place.read_only else "--bind") for place in places
        ]

    def last_options(self, folder: str) -> list[str]:
        """What bubblewrap is told after the binds; the command begins in `folder`."""
        of_host = [word for name in host_etc() for word in ("--ro-bind", f"/etc/{name}", f"/etc/{name}")]
        return [*of_host, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", folder]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables of a command: these, and no others."""
        return {
            "PATH": ":".join([*self.path, *SYSTEM_PATH]),
            "HOME": HOME,
            "USER": "agent",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": TEMPORARY,
            "PYTHONUNBUFFERED": "1",  # what a script prints is shown while it runs
            **self.variables,
            **self.configured,
            **env,
        }


def root_entry(path: Path) -> list[str]:
    """How a folder of the root is shown: mostly it is a link into /usr."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


def host_etc() -> Iterator[str]:
    """What there is in /etc that commands may see."""
    return (name for name in ETC_OF_HOST if Path("/etc", name).exists())


def write_etc(folder: Path, uid: int, *, has_network: bool) -> Path:
    """Make the /etc of all sandboxes: the user, names of hosts, and room for what the host lends."""
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
    for name in host_etc():
        place = folder / name
        if Path("/etc", name).is_dir():
            place.mkdir(exist_ok=True)
        else:
            place.touch()
    return folder


def find_programs(path: str | None = None) -> dict[str, Path]:
    """Programs outside /usr that commands may use, by the path they are shown at; Node is looked for in `path`."""
    found = {}
    if search := find_ripgrep():
        found[f"{TOOLS}/rg"] = search
    if (node := shutil.which("node", path=path)) and not (real := Path(node).resolve()).is_relative_to("/usr"):
        folder = real.parent.parent
        # Somebody's home may have a `bin` too, and everything else besides: then only the program is shown.
        is_nodes_own = NODE_FOLDER.fullmatch(folder.name) and (folder / "include" / "node").is_dir()
        found |= {NODE: folder} if is_nodes_own else {f"{NODE}/bin/node": real}
    return found


def find_ripgrep() -> Path | None:
    """The ripgrep that was installed along with us, else the system's."""
    beside = Path(sysconfig.get_path("scripts"), "rg")
    found = str(beside) if beside.is_file() else shutil.which("rg")
    return Path(found).resolve() if found else None
