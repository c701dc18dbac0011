"""Runs a make target in a Debian that has only what the README asks for.

python scripts/test_bare.py [target …]     the target is `test` unless given

The base system is made once by debootstrap and kept in the cache. Each run gets a fresh copy of it with a clone of
HEAD, in mount and process namespaces of its own; the network is the host's. The settings of apt, pip and npm are
copied from the host. Needs root, debootstrap and git.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BARE = tomllib.loads((REPOSITORY / "tests" / "dependencies.toml").read_text())["bare"]
CLONE = "/root/deerflow"
SETTINGS = (
    "/etc/apt/apt.conf.d",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
    "/etc/hosts",
    "/etc/npmrc",
    "/etc/pip.conf",
    "/etc/resolv.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/local/share/ca-certificates",
    "~/.config/pip",
    "~/.npmrc",
)
"""Files and folders that say where packages are fetched from and which certificates are trusted."""
PREFIXES = ("PIP_", "UV_", "NPM_", "npm_config_", "SSL_CERT_", "NODE_EXTRA_CA_", "REQUESTS_CA_", "CURL_CA_")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
# pivot_root and not chroot: in a chroot the kernel refuses user namespaces, which bubblewrap needs.
ENTER = """
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir host
pivot_root . host
cd /
umount -l host
rmdir host
cd "$2"
shift 2
exec "$@"
"""


def main() -> int:
    """Run the target and print how long it took; return its exit code."""
    if os.geteuid() != 0:
        sys.exit("make test-bare makes a Debian root file system: run it as root.")
    for program in ("debootstrap", "git", "unshare", "pivot_root"):
        if shutil.which(program) is None:
            sys.exit(f"make test-bare needs {program}: run `make system` as root on Debian.")
    targets = sys.argv[1:] or ["test"]
    command = f"make {' '.join(targets)}"
    began = time.monotonic()
    base = prepare_base()
    with tempfile.TemporaryDirectory(prefix="run-", dir=base.parent) as folder:
        root = Path(folder) / "root"
        call(["cp", "--archive", "--reflink=auto", base, root])
        configure(root)
        call(["git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, f"{root}{CLONE}"])
        print(f"DeerFlow: set up in {time.monotonic() - began:.0f} s; now `{command}` in it", flush=True)
        code = run(root, ["make", *targets])
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"DeerFlow: `{command}` in a bare Debian ended with exit code {code} after {minutes} min {seconds} s")
    return code


def prepare_base() -> Path:
    """Return the folder of the base system; make it if there is none of this suite and these packages."""
    key = hashlib.sha256(repr(sorted(BARE.items())).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deerflow-tests" / "bare"
    base = cache / f"{BARE['suite']}-{key}"
    if base.exists():
        return base
    print(f"DeerFlow: making a Debian {BARE['suite']} with {', '.join(BARE['packages'])} …", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache) as folder:
        new = Path(folder) / "root"
        packages = ",".join(BARE["packages"])
        call(["debootstrap", "--variant=minbase", f"--include={packages}", BARE["suite"], new, *mirror()])
        new.rename(base)
    return base


def mirror() -> list[str]:
    """Return the address apt fetches this suite from, for debootstrap does not read apt's settings; else nothing."""
    targets = ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(RELEASE)", "Created-By: Packages"]
    listed = subprocess.run(targets, capture_output=True, text=True, check=False).stdout.splitlines()
    return [site for site, *names in map(str.split, listed) if BARE["suite"] in names][:1]


def configure(root: Path) -> None:
    """Copy the host's package settings, and keep packages from starting servers on the host's network."""
    for name in SETTINGS:
        source = Path(name).expanduser()
        place = root / (f"root/{name[2:]}" if name.startswith("~") else name.lstrip("/"))
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True)
        elif source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)


def run(root: Path, command: Sequence[str]) -> int:
    """Run a command in the clone; every process it leaves ends with it."""
    namespaces = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child"]
    enter = ["sh", "-c", ENTER, "sh", str(root), CLONE]
    return subprocess.run([*namespaces, *enter, *command], env=environment(), check=False).returncode


def environment() -> dict[str, str]:
    """Return the variables of a fresh login, and those that say where packages are fetched from."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES) or name.lower() in PROXIES}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**kept, "PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "TERM": os.environ.get("TERM", "dumb")}


def call(command: Sequence[object]) -> None:
    """Run a command of the set-up; its failure ends the script."""
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
