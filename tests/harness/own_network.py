"""A Python program of ours with a network of its own: this machine, with a resolver that asks this machine."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support import needs

ROOT = Path(__file__).parents[2]
LONGEST_S = 90


async def run_in_own_network(module: str, home: Path) -> Any:
    """What the module, which is given `home`, prints in its last line, as JSON.

    There is nothing to be reached but what the program itself listens on, and whoever in it looks up a name, in
    whatever way, asks the port 53 of it.
    """
    resolver, order = home / "resolv.conf", home / "nsswitch.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
    order.write_text("hosts: files dns\n")
    might = ("--cap-add", "ALL") if os.getuid() == 0 else ("--unshare-user", "--cap-add", "CAP_NET_BIND_SERVICE")
    network = ("--dev-bind", "/", "/", "--unshare-net", *might, "--die-with-parent")
    names = ("--ro-bind", str(resolver), "/etc/resolv.conf", "--ro-bind", str(order), "/etc/nsswitch.conf")
    program = (sys.executable, "-m", module, str(home))
    child = await asyncio.create_subprocess_exec(
        *(needs("bwrap"), *network, *names, "--chdir", str(ROOT), *program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=10_000_000,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            said, complained = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, complained.decode()[-5_000:]
    return json.loads(said.decode().splitlines()[-1])
