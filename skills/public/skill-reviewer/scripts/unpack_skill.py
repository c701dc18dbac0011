"""Look into a .skill archive and unpack it for reading, refusing what could reach outside or fill the disk."""

import argparse
import stat
import sys
import zipfile
from pathlib import Path, PurePosixPath

MAX_FILES, MAX_BYTES, MAX_RATIO = 4096, 100 * 2**20, 200


class Refused(Exception):
    """An archive that is not unpacked; the sentence says why."""


def main() -> int:
    """Unpack one archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, help="a .skill or .zip file")
    parser.add_argument("--into", type=Path, required=True, help="a folder that does not exist yet")
    options = parser.parse_args()
    try:
        if options.into.exists():
            raise Refused(f"{options.into} exists; choose a new folder")
        with zipfile.ZipFile(options.archive) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            judge(members)
            for info in members:
                target = options.into / info.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, target.open("xb") as file:
                    copy(source, file, info)
    except (Refused, zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    found = sorted(str(path.parent) for path in options.into.rglob("SKILL.md"))
    print(f"{len(members)} files; SKILL.md in: {', '.join(found) or 'none of them'}")
    return 0


def judge(members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive before anything is written."""
    if len(members) > MAX_FILES:
        raise Refused(f"{len(members)} files are too many; at most {MAX_FILES}")
    if sum(info.file_size for info in members) > MAX_BYTES:
        raise Refused(f"it would become larger than {MAX_BYTES // 2**20} MB")
    seen: set[str] = set()
    for info in members:
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename or ":" in info.filename:
            raise Refused(f"{info.filename!r} leads out of the folder")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Refused(f"{info.filename!r} is a link")
        if info.file_size > MAX_RATIO * max(info.compress_size, 1024):
            raise Refused(f"{info.filename!r} is packed more tightly than honest files are")
        if info.filename.casefold() in seen:
            raise Refused(f"{info.filename!r} is in it twice")
        seen.add(info.filename.casefold())


def copy(source: object, file: object, info: zipfile.ZipInfo) -> None:
    """Write one file, and no more than it said it would be."""
    left = info.file_size
    while piece := source.read(min(65536, left + 1)):  # type: ignore[attr-defined]
        left -= len(piece)
        if left < 0:
            raise Refused(f"{info.filename!r} is larger than it says")
        file.write(piece)  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
