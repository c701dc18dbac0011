"""Examples of the `agent-client-protocol` package, which are part of its source distribution only."""

import sys
from importlib.metadata import version
from pathlib import Path

from tests.support import dependencies, install_once

PACKAGE = dependencies()["pypi"]["acp_examples"]


def acp_example(name: str) -> Path:
    """Return the file of an example of the installed version; downloaded once per machine."""
    used = version(PACKAGE)
    source = f"{PACKAGE.replace('-', '_')}-{used}"
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"--no-binary={PACKAGE}", f"{PACKAGE}=={used}"]
    folder = install_once(
        f"{PACKAGE}-{used}-source",
        lambda place: [
            [*fetch, "--dest", str(place)],
            [sys.executable, "-m", "tarfile", "-e", str(place / f"{source}.tar.gz"), str(place)],
        ],
    )
    return folder / source / "examples" / name
