"""Audit a skill by rules: header, text, references, scripts, contract against use, and tests."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from package import Finding, Package, Unusable, open_package
from script_rules import examine_scripts
from text_rules import examine_text
from trial_rules import examine_tests

ORDER = {"error": 0, "warning": 1, "note": 2}


def main() -> int:
    """Audit one skill, or several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+", help="the folder with SKILL.md")
    parser.add_argument("--strict", action="store_true", help="count warnings as errors")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    results = []
    try:
        for folder in options.folder:
            package = open_package(folder)
            results.append((package, audit(package)))
    except Unusable as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    for package, findings in [] if options.json else results:
        tell(package, findings)
    if options.json:
        told = [{"skill": p.name, "verdict": verdict(f), "findings": [asdict(each) for each in f]} for p, f in results]
        print(json.dumps(told, ensure_ascii=False, indent=2))
    wanted = {"error", "warning"} if options.strict else {"error"}
    return int(any(finding.severity in wanted for _, findings in results for finding in findings))


def audit(package: Package) -> list[Finding]:
    """Everything the rules find, the worst first."""
    found = [*examine_text(package), *examine_scripts(package), *examine_tests(package)]
    return sorted(found, key=lambda finding: (ORDER[finding.severity], finding.file, finding.line))


def tell(package: Package, findings: list[Finding]) -> None:
    """Print the findings of one skill."""
    for finding in findings:
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        print(f"{finding.severity.upper()} {place} [{finding.rule}] {finding.message}")
    counts = ", ".join(f"{sum(f.severity == name for f in findings)} {name}s" for name in ORDER)
    print(f"{package.name}: {verdict(findings)} ({counts})")


def verdict(findings: list[Finding]) -> str:
    """What the rules alone say."""
    if any(finding.severity == "error" for finding in findings):
        return "not ready"
    return "ready with remarks" if any(finding.severity == "warning" for finding in findings) else "ready"


if __name__ == "__main__":
    sys.exit(main())
