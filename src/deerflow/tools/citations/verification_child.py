"""Compares a report with pages; a program of its own, run as `python -I verification_child.py LIMITS`.

Standard input is JSON: the report and the pages; standard output is a verdict for each citation, as JSON. Reports and
pages are written by anybody, so before it looks at them it gives up what it does not need.
"""

import json
import sys

from deerflow.sandbox.relinquishing import give_up
from deerflow.tools.citations.verdicts import Snapshot, to_json, verify


def main() -> None:
    """Verify one report."""
    limits = json.loads(sys.argv[1])
    "ü".encode("idna")  # whoever we are soon may be unable to read its code
    give_up(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    order = json.load(sys.stdin)
    snapshots = [Snapshot(**page) for page in order["pages"]]
    json.dump([to_json(verdict) for verdict in verify(order["report"], snapshots)], sys.stdout)


if __name__ == "__main__":
    main()
