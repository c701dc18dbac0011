"""Carry out the commands of a skill's tests here and compare what they print: quick, without an agent.

The judge is `deerflow skills test`: it plays the whole conversation in a fresh sandbox.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import yaml
except ImportError:
    yaml = None

TIMEOUT_S = 120


@dataclass(frozen=True)
class Mapping:
    """Where the paths of a conversation are on this machine."""

    folder: Path
    place: Path

    def __call__(self, text: str) -> str:
        text = text.replace("/mnt/user-data", str(self.place))
        for category in ("public", "custom", "*"):
            text = text.replace(f"/mnt/skills/{category}/{self.folder.name}/", f"{self.folder}/")
        return text


def main() -> int:
    """Try all tests of one skill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with SKILL.md")
    options = parser.parse_args()
    folder = options.folder.resolve()
    cases = sorted((folder / "tests").glob("*.yaml"))
    if yaml is None or not cases:
        reason = f"{folder} has no tests/*.yaml" if yaml else "this needs the package pyyaml, which is not installed"
        print(f"Error: {reason}", file=sys.stderr)
        return 2
    failed = 0
    for case in cases:
        with tempfile.TemporaryDirectory() as place:
            try:
                complaints = list(tried(folder, case, Path(place)))
            except (
                yaml.YAMLError,
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                subprocess.TimeoutExpired,
            ) as problem:
                complaints = [f"it cannot be carried out: {type(problem).__name__} {problem}"]
        failed += bool(complaints)
        print(f"{'FAILED' if complaints else 'ok'} {case.name}")
        print("".join(f"  {complaint}\n" for complaint in complaints), end="")
    return 1 if failed else 0


def tried(folder: Path, case: Path, place: Path) -> Iterator[str]:
    """What differs from what a test expects."""
    spec = yaml.safe_load(case.read_text(encoding="utf-8"))

    here = Mapping(folder, place)
    lay_out(spec, case, place)
    calls = [call for step in spec["steps"] for call in step.get("calls", [])]
    outputs = [carried_out(call, here, place) for call in calls]
    expected = spec.get("expect") or {}
    waiting = iter(zip(calls, outputs, strict=True))
    for wanted in expected.get("tools", []):
        output = next((result for call, result in waiting if call["tool"] == wanted["tool"]), None)
        if output is not None:
            yield from differences(wanted, output, here)
    for path in expected.get("files") or {}:
        if not Path(here(path)).is_file():
            yield f"{path} is not there"
    for path in expected.get("absent") or ():
        if Path(here(path)).exists():
            yield f"{path} is there"


def lay_out(spec: dict[str, Any], case: Path, place: Path) -> None:
    """The folders of a conversation, with its uploads."""
    for area in ("uploads", "workspace", "outputs"):
        (place / area).mkdir()
    for name, given in (spec.get("uploads") or {}).items():
        content = (case.parent / given["from"]).read_bytes() if "from" in given else given["text"].encode()
        (place / "uploads" / name).write_bytes(content)


def carried_out(call: dict[str, Any], here: "Mapping", place: Path) -> tuple[str, bool] | None:
    """What a command printed and whether it failed; other tools are not played, except writing a file."""
    if call["tool"] == "write_file":
        target = Path(here(call["args"]["path"]))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(call["args"]["content"], encoding="utf-8")
    if call["tool"] != "bash":
        return None
    done = subprocess.run(
        ["bash", "-c", here(call["args"]["command"])], cwd=place / "workspace", timeout=TIMEOUT_S, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace",
    )  # fmt: skip
    return done.stdout, done.returncode != 0


def differences(wanted: dict[str, Any], output: tuple[str, bool] | None, here: "Mapping") -> Iterator[str]:
    """How a command's end differs from what is expected."""
    if output is None:
        return
    printed, failed = output
    for text in wanted.get("contains", []):
        if here(text) not in printed:
            yield f"{text!r} is not in what was printed: {printed.strip()[-300:]!r}"
    if wanted.get("fails") is not None and wanted["fails"] != failed:
        yield f"it {'failed' if failed else 'did not fail'}: {printed.strip()[-300:]!r}"


if __name__ == "__main__":
    sys.exit(main())
