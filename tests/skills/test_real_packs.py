"""Packs of skills that others have published: each skill in them loads, or is refused with a reason."""

import tarfile
from pathlib import Path

import pytest

from deerflow.skills.folders import find_skills
from tests.support import dependencies, install_once, key_of, needs

pytestmark = pytest.mark.external
PACKS = dependencies()["npm"]["skill_packs"]
EXPECTED = {
    "bmad-method": (54, 6),
    "claude-skills": (5, 0),
    "openskills": (1, 0),
    "@playwright/cli": (1, 0),
    "@tanstack/react-router": (3, 0),
}
"""Packages of npm, how many of their skills load, and how many have no header and are refused."""


@pytest.fixture(scope="module")
def archives() -> Path:
    """The packages as they were published, fetched once per machine."""
    command = [needs("npm"), "pack", "--silent", "--loglevel=error", *PACKS]
    return install_once(f"skill-packs-{key_of(*PACKS)}", lambda place: [[*command, "--pack-destination", place]])


@pytest.mark.parametrize("package", PACKS)
def test_every_skill_of_a_published_pack_loads_or_is_refused_with_a_reason(
    package: str, archives: Path, tmp_path: Path
) -> None:
    name = package.removeprefix("@").replace("/", "-").replace("@", "-")
    with tarfile.open(archives / f"{name}.tgz") as archive:
        archive.extractall(tmp_path, filter="data")

    found = find_skills(tmp_path, "custom")

    assert (len(found.skills), len(found.refused)) == EXPECTED[package.rpartition("@")[0]]
    assert len(found.skills) + len(found.refused) == len(list(tmp_path.rglob("SKILL.md")))
    assert all(skill.name and 0 < len(skill.description) <= 1024 for skill in found.skills)
    assert all("begin it with a line '---'" in refused.reason for refused in found.refused)
