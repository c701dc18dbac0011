"""Program that serves a skill on a public address of an isolated network and installs it with `deerflow skills add`."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path

import yaml

from deerflow.testing import ScriptedServer
from tests.e2e.server_process import DEERFLOW
from tests.skills.skill_host import SKILL, open_skill_host
from tests.skills.support import ALLOW

HOST, ADDRESS = "git.example.org", "8.8.8.8"
SIOCSIFADDR = 0x8916


def add_address(address: str) -> None:
    """Give this network namespace a further address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        family = struct.pack("HH", socket.AF_INET, 0)
        ioctl(any_socket, SIOCSIFADDR, struct.pack("16s4s4s8x", b"lo:1", family, socket.inet_aton(address)))


def run_skills(project: Path, *arguments: str) -> dict[str, object]:
    """Run the command in a project and return its exit code and output."""
    environment = {**os.environ, "DEER_FLOW_PROJECT_ROOT": str(project)}  # noqa: TID251
    command = [*DEERFLOW, "skills", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)
    return {"code": done.returncode, "output": done.stdout, "errors": done.stderr}


async def main(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    add_address(ADDRESS)
    async with ScriptedServer([ALLOW], endless=True) as model:
        entry = model.model_config().model_dump(exclude_none=True, mode="json") | {"api_key": "key"}
        (project / "config.yaml").write_text(yaml.safe_dump({"config_version": 1, "models": [entry]}))
        with open_skill_host(home / "host", home / "both.pem", (ADDRESS, 443)) as host:
            commit = host.commit({"SKILL.md": SKILL.format(body="Boil."), "notes/cups.md": "Two.\n"})
            url = f"https://{HOST}/tea.git"
            added = await asyncio.to_thread(run_skills, project, "add", url)
            later = host.commit({"SKILL.md": SKILL.format(body="Steep.")})
            updated = await asyncio.to_thread(run_skills, project, "update", "tea", "--yes")
            missing = await asyncio.to_thread(run_skills, project, "add", f"https://{HOST}/none.git")
    installed = {
        str(file.relative_to(project)): file.read_text()
        for pattern in ("**/tea/**/*.md", "**/skills.lock")
        for file in project.glob(pattern)
    }
    result = {"commits": [commit, later], "added": added, "updated": updated, "missing": missing}
    sys.stdout.write(json.dumps({**result, "installed": installed, "reviews": len(model.requests)}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
