"""Pack the folder of a skill as a .skill archive, after looking whether it would be accepted."""

import argparse
import hashlib
import io
import re
import stat
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FENCE = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
KEYS = {
    "name", "description", "license", "allowed-tools", "required-secrets", "secrets-autonomous", "metadata",
    "compatibility", "version", "author",
}  # fmt: skip
LEFT_OUT = {"__pycache__", ".git", ".DS_Store", "node_modules", "__MACOSX", ".venv"}
PROGRAMS = (b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe")
MAX_FILES, MAX_BYTES = 4096, 50 * 2**20
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""One date for all files, so that the same skill gives the same archive."""


class Unusable(Exception):
    """A folder that cannot be packed."""


def main() -> int:
    """Pack one skill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with SKILL.md")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the archive")
    options = parser.parse_args()
    try:
        files = list(files_of(options.folder))
        problems = [*examine_header(options.folder), *examine_files(options.folder, files)]
        if problems:
            print("\n".join(f"PROBLEM {problem}" for problem in problems))
            print(f"Not packed: {len(problems)} problems")
            return 1
        content = packed(options.folder, files)
        archive = options.out / f"{options.folder.resolve().name}.skill"
        options.out.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(content)
    except (Unusable, OSError, UnicodeDecodeError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    if not any(path.parts[0] == "tests" and path.suffix == ".yaml" for path in files):
        print("warning: it has no tests/*.yaml, so nobody can see that it works")
    print(f"{archive}: {len(files)} files, {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")
    return 0


def files_of(folder: Path) -> Iterator[Path]:
    """The files of a skill, in order, by their paths in it."""
    if not (folder / "SKILL.md").is_file():
        raise Unusable(f"{folder} has no SKILL.md")
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if LEFT_OUT.isdisjoint(inside.parts) and not path.is_dir():
            yield inside


def examine_header(folder: Path) -> Iterator[str]:
    """What is wrong with the header of SKILL.md."""
    if yaml is None:
        raise Unusable("reading headers needs the package pyyaml, which is not installed in this sandbox")
    match = FENCE.match((folder / "SKILL.md").read_text(encoding="utf-8"))
    if match is None:
        yield "SKILL.md must begin with a header between two lines of ---"
        return
    try:
        header = yaml.safe_load(match[1])
    except yaml.YAMLError as problem:
        yield f"the header is not YAML: {' '.join(str(problem).split())}"
        return
    if not isinstance(header, dict):
        yield "the header must be lines of the form key: value"
        return
    name, description = header.get("name"), header.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > 64:
        yield f"`name` is {name!r}; it takes small letters, digits and single hyphens"
    elif name != folder.resolve().name:
        yield f"`name` is {name!r}, but the folder is called {folder.resolve().name!r}"
    if not isinstance(description, str) or not description.strip():
        yield "`description` is missing"
    elif len(description) > 1024 or re.search(r"[<>]", description):
        yield "`description` has more than 1,024 characters or angle brackets"
    if unknown := sorted(set(map(str, header)) - KEYS):
        yield f"unknown fields are refused on installation: {', '.join(unknown)} (put them under `metadata`)"


def examine_files(folder: Path, files: list[Path]) -> Iterator[str]:
    """What an installation would refuse."""
    if len(files) > MAX_FILES:
        yield f"{len(files)} files are too many; at most {MAX_FILES}"
    total = 0
    for inside in files:
        path = folder / inside
        if path.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
            yield f"{inside} is not a plain file"
            continue
        total += path.stat().st_size
        with path.open("rb") as file:
            if file.read(4).startswith(PROGRAMS):
                yield f"{inside} is a compiled program"
        if inside.name == "SKILL.md" and inside.parent != Path():
            yield f"{inside}: a second SKILL.md would be another skill"
        if re.search(r"(^|/)\.env|id_rsa|\.pem$|\.key$", str(inside)):
            yield f"{inside} looks like a secret"
    if total > MAX_BYTES:
        yield f"{total:,} bytes are too many; at most {MAX_BYTES:,}"


def packed(folder: Path, files: list[Path]) -> bytes:
    """The archive: one folder with the skill's name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside in files:
            entry = zipfile.ZipInfo(f"{folder.resolve().name}/{inside.as_posix()}", LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, (folder / inside).read_bytes())
    return content.getvalue()


if __name__ == "__main__":
    sys.exit(main())
