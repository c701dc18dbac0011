"""Looks at what the files of a skill say; a program of its own, for its readers are not to be trusted with any text.

Standard input is a line of JSON, the paths and lengths of the files, and then the files. Standard output is a JSON list
of findings. Before it looks at anything it gives up what it does not need.
"""

import json
import sys

from deerflow.sandbox.relinquishing import give_up
from deerflow.skills.scanner.content import check_content

RECURSION = 3_000


def main() -> None:
    """Look at the files of one skill."""
    limits = json.loads(sys.argv[1])
    sys.setrecursionlimit(RECURSION)
    "".encode("utf-8-sig")  # whoever we are soon may be unable to read the code for it
    check_content("warm.py", "eval(x)")
    give_up(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    files = json.loads(sys.stdin.buffer.readline())
    findings = []
    for path, length in files:
        text = sys.stdin.buffer.read(length).decode("utf-8", errors="replace")
        findings += [finding.as_dict() for finding in check_content(path, text.removeprefix("\ufeff"))]
    json.dump(findings, sys.stdout)


if __name__ == "__main__":
    main()
