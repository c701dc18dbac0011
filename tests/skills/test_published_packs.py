"""Published skill packs load, or are rejected with a reason."""

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
"""npm packages with the number of valid skills and of skills without a header."""


@pytest.fixture(scope="module")
def archives() -> Path:
    """Return the folder with the published packages, downloaded once per machine."""
    command = [needs("npm"), "pack", "--silent", "--loglevel=error", *PACKS]
    return install_once(f"skill-packs-{key_of(*PACKS)}", lambda place: [[*command, "--pack-destination", place]])


@pytest.mark.parametrize("package", PACKS)
def test_published_packs_load_or_are_rejected_with_a_reason(package: str, archives: Path, tmp_path: Path) -> None:
    name = package.removeprefix("@").replace("/", "-").replace("@", "-")
    with tarfile.open(archives / f"{name}.tgz") as archive:
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # since Python 3.11.4
        archive.extractall(tmp_path, **options)

    found = find_skills(tmp_path, "custom")

    assert (len(found.skills), len(found.rejected)) == EXPECTED[package.rpartition("@")[0]]
    assert len(found.skills) + len(found.rejected) == len(list(tmp_path.rglob("SKILL.md")))
    assert all(skill.name and 0 < len(skill.description) <= 1024 for skill in found.skills)
    assert all("begin it with a line '---'" in rejected.reason for rejected in found.rejected)
