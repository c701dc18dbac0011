"""Which of their own skills somebody has switched off: a file beside the skills."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from deerflow.config.files import replace_file

logger = logging.getLogger(__name__)

SWITCHES_FILE = ".switches.json"
MAX_BYTES = 1024 * 1024


def read_switches(root: Path) -> Mapping[str, bool]:
    """The switches in `root`, by the names of skills; none when the file is missing or makes no sense."""
    try:
        with (root / SWITCHES_FILE).open("rb") as file:
            written = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        logger.warning("%s is passed over: %s", root / SWITCHES_FILE, problem)
        return {}
    entries = written.items() if isinstance(written, dict) else ()
    return {name: enabled for name, enabled in entries if isinstance(enabled, bool)}


def write_switch(root: Path, name: str, *, enabled: bool) -> None:
    """Switch a skill in `root` on or off."""
    switches = {**read_switches(root), name: enabled}
    replace_file(root / SWITCHES_FILE, json.dumps(switches, indent=2, sort_keys=True).encode() + b"\n")
