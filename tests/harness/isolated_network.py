"""Running a Python module in a network namespace whose only DNS server is the local host."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import needs

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 180
NETWORK_CAPABILITIES = ("--cap-add", "CAP_NET_BIND_SERVICE", "--cap-add", "CAP_NET_ADMIN")


async def run_in_isolated_network(module: str, home: Path, files: Mapping[str, Path] | None = None) -> Any:
    """Run the module with the argument `home` and return the last line of its output, parsed as JSON.

    Only ports of the program itself are reachable, and all its DNS queries go to its own port 53. `files` are mounted,
    by path.
    """
    resolver, name_service = home / "resolv.conf", home / "nsswitch.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
    name_service.write_text("hosts: files dns\n")
    capabilities = ("--cap-add", "ALL") if os.getuid() == 0 else ("--unshare-user", *NETWORK_CAPABILITIES)
    network = ("--dev-bind", "/", "/", "--unshare-net", *capabilities, "--die-with-parent")
    name_files = ("--ro-bind", str(resolver), "/etc/resolv.conf", "--ro-bind", str(name_service), "/etc/nsswitch.conf")
    mounted = (word for path, file in (files or {}).items() for word in ("--ro-bind", str(file), path))
    program = (sys.executable, "-m", module, str(home))
    child = await asyncio.create_subprocess_exec(
        *(needs("bwrap"), *network, *name_files, *mounted, "--chdir", str(ROOT), *program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=10_000_000,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            stdout, stderr = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, stderr.decode()[-5_000:]
    return json.loads(stdout.decode().splitlines()[-1])
