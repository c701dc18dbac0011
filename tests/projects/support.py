"""A project with files, for tests of the index."""

import asyncio
from collections.abc import Mapping

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.projects import ProjectFile
from deerflow.harness import Harness

WAIT_S = 60.0


async def create_project(harness: Harness, files: Mapping[str, bytes]) -> str:
    """Create a project with files and return its id."""
    projects = harness.resources.projects
    project = await projects.create(LOCAL_USER, "Test")
    async with projects.receive(project.project_id, LOCAL_USER) as reception:
        for name, content in files.items():
            await reception.begin(name)
            await reception.write(content)
            await reception.end()
        await projects.complete(project.project_id, LOCAL_USER, reception)
    return project.project_id


async def wait_until_indexed(harness: Harness, project_id: str) -> dict[str, ProjectFile]:
    """Return the files by name when none waits any more."""
    async with asyncio.timeout(WAIT_S):
        while True:
            files = await harness.resources.projects.list_files(project_id, LOCAL_USER)
            if all(file.state in ("ready", "failed") for file in files):
                return {file.name: file for file in files}
