"""Which Python packages commands find in a sandbox."""

import shlex
from collections.abc import Sequence

from deerflow.domain.sandbox import Sandbox

LOOK_S = 30.0
LOOK = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        print(name)
"""


def lacking_sentence(skill: str, packages: Sequence[str]) -> str:
    """What is said of packages that a skill needs and that are not there."""
    remedy = "whoever runs the server can add them to sandbox.toolbox.packages in config.yaml"
    return f"the skill {skill!r} needs {', '.join(packages)}, which the sandbox's Python lacks; {remedy}"


async def find_lacking(sandbox: Sandbox, packages: Sequence[str]) -> tuple[str, ...]:
    """Those of the packages, by the names pip knows them by, that the Python of commands does not have.

    Raises:
        SandboxError: No command can be run.
    """
    result = await sandbox.execute_command(shlex.join(["python3", "-c", LOOK, *packages]), timeout_s=LOOK_S)
    if result.exit_code != 0:
        return tuple(packages)
    printed = result.output.split()
    return tuple(name for name in packages if name in printed)
