"""Rules about the tests of a skill."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from package import Finding, Package


def examine_tests(package: Package) -> Iterator[Finding]:
    """All rules of this module."""
    cases = {path: text for path, text in package.texts.items() if re.fullmatch(r"tests/[^/]+\.ya?ml", path)}
    if not cases:
        yield Finding("error", "no-tests", "tests/", 0, "there is no test; nobody can see that it works")
        return
    contents: list[dict[str, Any]] = []
    for path, text in cases.items():
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as problem:
            yield Finding("error", "weak-test", path, 0, f"it is not YAML: {' '.join(str(problem).split())[:150]}")
            continue
        if not isinstance(content, dict):
            yield Finding("error", "weak-test", path, 0, "it must be lines of the form key: value")
            continue
        contents.append(content)
        yield from examine_case(package, path, content)
    yield from examine_all(package, contents)


def examine_case(package: Package, path: str, case: dict[str, Any]) -> Iterator[Finding]:
    """One test by itself."""
    for key in ("description", "prompt", "steps"):
        if not case.get(key):
            yield Finding("error", "weak-test", path, 0, f"`{key}` is missing")
    expected = case.get("expect")
    if not isinstance(expected, dict) or not any(expected.get(key) for key in ("tools", "files", "absent")):
        severe = "expects nothing but words of the script itself" if expected else "expects nothing"
        yield Finding("error", "weak-test", path, 0, f"it {severe}; it would pass if nothing worked")
    uploads = case.get("uploads") or {}
    for name, given in uploads.items() if isinstance(uploads, dict) else ():
        source = given.get("from") if isinstance(given, dict) else None
        if source and not (package.folder / "tests" / str(source)).is_file():
            yield Finding("error", "weak-test", path, 0, f"the upload {name} comes from {source}, which is not there")


def examine_all(package: Package, cases: list[dict[str, Any]]) -> Iterator[Finding]:
    """All tests together: which scripts they run, and whether something ever goes wrong."""
    said = json.dumps([case.get("steps") for case in cases], ensure_ascii=False, default=str)
    runnable = [path for path, text in package.python().items() if re.search(r"^if __name__", text, re.MULTILINE)]
    for path in runnable:
        if path.rpartition("/")[2] not in said:
            yield Finding("warning", "weak-test", path, 0, "no test runs it")
    expected = json.dumps([case.get("expect") for case in cases], default=str)
    if runnable and '"fails": true' not in expected and '"absent"' not in expected:
        yield Finding("warning", "weak-test", "tests/", 0, "no test shows what happens when something is wrong")
