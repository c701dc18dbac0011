"""Packs of skills that others have published: each skill in them loads, or is refused with a reason."""

import tarfile
from pathlib import Path

import pytest

from deerflow.skills.folders import find_skills
from tests.mcp.installed import installed
from tests.support import needs

PACKS = {
    "bmad-method@6.12.0": (54, 6),
    "claude-skills@1.0.2": (5, 0),
    "openskills@1.5.0": (1, 0),
    "@playwright/cli@0.1.22": (1, 0),
    "@tanstack/react-router@1.170.46": (3, 0),
}
"""Packages of npm, how many of their skills load, and how many have no header and are refused."""


@pytest.fixture(scope="module")
def archives() -> Path:
    """The packages as they were published, fetched once per machine."""
    command = [needs("npm"), "pack", "--silent", "--loglevel=error", *PACKS]
    return installed("skill-packs-1", lambda place: [[*command, "--pack-destination", str(place)]])


@pytest.mark.parametrize("package", PACKS)
def test_every_skill_of_a_published_pack_loads_or_is_refused_with_a_reason(
    package: str, archives: Path, tmp_path: Path
) -> None:
    name = package.removeprefix("@").replace("/", "-").replace("@", "-")
    with tarfile.open(archives / f"{name}.tgz") as archive:
        archive.extractall(tmp_path, filter="data")

    found = find_skills(tmp_path, "custom")

    assert (len(found.skills), len(found.refused)) == PACKS[package]
    assert len(found.skills) + len(found.refused) == len(list(tmp_path.rglob("SKILL.md")))
    assert all(skill.name and 0 < len(skill.description) <= 1024 for skill in found.skills)
    assert all("begin it with a line '---'" in refused.reason for refused in found.refused)
