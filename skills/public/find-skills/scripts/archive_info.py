"""Tell what a .skill archive holds, without unpacking it."""

import argparse
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

try:
    import yaml
except ImportError:
    yaml = None

FENCE = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
JUNK = {"__MACOSX", ".DS_Store"}
MAX_BYTES = 512 * 1024
"""Of a file that is looked into."""


class Unusable(Exception):
    """An archive that cannot be looked into."""


def main() -> int:
    """Tell about one archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--root", type=Path, default=Path("/mnt/skills"), help="where installed skills are")
    options = parser.parse_args()
    try:
        with zipfile.ZipFile(options.archive) as archive:
            for line in describe(archive, options.root):
                print(line)
    except (Unusable, OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as problem:
        print(f"Error: {options.archive.name}: {problem}", file=sys.stderr)
        return 2
    return 0


def describe(archive: zipfile.ZipFile, root: Path) -> Iterator[str]:
    """What somebody should know before installing."""
    if yaml is None:
        raise Unusable("the package pyyaml is not installed")
    files = [i for i in archive.infolist() if not i.is_dir() and JUNK.isdisjoint(PurePosixPath(i.filename).parts)]
    skills = [i for i in files if PurePosixPath(i.filename).name == "SKILL.md" and i.filename.count("/") <= 1]
    if len(skills) != 1:
        raise Unusable(f"it has {len(skills)} SKILL.md at its top; an archive holds one skill")
    header = header_of(read(archive, skills[0]))
    name = str(header.get("name", "?"))
    yield f"{name}: {' '.join(str(header.get('description', 'no description')).split())}"
    tools = header.get("allowed-tools")
    yield f"allowed tools: {', '.join(map(str, tools)) if isinstance(tools, list) else tools or 'not limited'}"
    yield from contract_lines(archive, skills[0].filename.removesuffix("SKILL.md"))
    yield f"{len(files)} files, {sum(i.file_size for i in files):,} bytes:"
    yield from (f"  {i.filename} ({i.file_size:,})" for i in files[:60])
    for info in files:
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
            yield f"DANGER: {info.filename!r} leads out of the folder; it will be refused"
    if found := sorted(root.glob(f"*/{name}/SKILL.md")):
        yield f"The name is taken: {found[0]}"


def contract_lines(archive: zipfile.ZipFile, prefix: str) -> Iterator[str]:
    """What the contract asks for."""
    try:
        needs: Any = tomllib.loads(read(archive, archive.getinfo(f"{prefix}skill.toml"))).get("needs", {})
    except KeyError:
        yield "contract: none, so nothing but the general limits hold"
        return
    except tomllib.TOMLDecodeError as problem:
        yield f"contract: cannot be read ({problem})"
        return
    for key in ("hosts", "environment", "paths", "packages"):
        yield f"contract, {key}: {', '.join(map(str, needs.get(key, []))) or 'none'}"


def read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    """The text of a small member."""
    with archive.open(info) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise Unusable(f"{info.filename} is larger than {MAX_BYTES // 1024} KB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Unusable(f"{info.filename} is not text in UTF-8") from None


def header_of(text: str) -> dict[str, Any]:
    """The header of SKILL.md."""
    match = FENCE.match(text)
    try:
        header = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError:
        header = None
    if not isinstance(header, dict):
        raise Unusable("its SKILL.md has no header that can be read")
    return header


if __name__ == "__main__":
    sys.exit(main())
