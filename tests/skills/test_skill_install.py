"""Skills from Git repositories and archives on the web: pinned, compared, updated, and never run while downloading."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound, SkillRefused, SkillUnavailable
from deerflow.domain.identity import Principal
from deerflow.sandbox.egress import Egress
from deerflow.skills.authoring.custom_skills import ReviewPolicy
from deerflow.skills.authoring.download import DownloadLimits, SkillAddress, SkillDownloader, parse_address
from deerflow.skills.authoring.install import check_for_update, install_from_url, update_from_source
from deerflow.skills.authoring.review import ReviewReply
from tests.certificates import make_certificate
from tests.skills.hostile_archives import build_archive
from tests.skills.skill_host import ARCHIVE, REPOSITORY, SKILL, SkillHost, open_skill_host
from tests.skills.support import OWNER, PERSON, ScriptedReviews, list_stored_files, open_service

ADA = Principal(OWNER)
BLOCK = ReviewReply('{"decision": "block", "reason": "It brews coffee."}')


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SkillHost]:
    with open_skill_host(tmp_path / "host") as opened:
        yield opened


def read(home: Path, path: str) -> str:
    return (home / "users" / OWNER / "skills" / "custom" / "tea" / path).read_text()


async def test_skill_is_installed_from_git_and_pinned_by_commit(tmp_path: Path, host: SkillHost) -> None:
    commit = host.commit({"SKILL.md": SKILL.format(body="Boil."), "scripts/brew.py": "print('tea')\n"})
    reviews = ScriptedReviews()
    service = open_service(tmp_path, reviews)

    installed = await install_from_url(service, host.downloader(), ADA, SkillAddress(REPOSITORY))

    assert installed.skill.source is not None
    assert (installed.skill.source.url, installed.skill.source.revision) == (REPOSITORY, commit)
    assert read(tmp_path, "scripts/brew.py") == "print('tea')\n"
    assert len(reviews.requests) == 1
    assert [entry.action for entry in await service.history(OWNER, "tea")] == ["install"]


@pytest.mark.external
async def test_skills_are_downloaded_by_tls_from_trusted_hosts_alone(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, ["git.example.org"])
    repository, archive = (url.replace("http://", "https://") for url in (REPOSITORY, ARCHIVE))
    with open_skill_host(tmp_path / "host", certificate) as host:
        commit = host.commit({"SKILL.md": SKILL.format(body="Boil.")})
        host.files["/files/tea.skill"] = build_archive(skill=SKILL.format(body="Steep."))
        for url in (repository, archive):
            with pytest.raises(SkillUnavailable, match="certificate"):
                await host.downloader().download(SkillAddress(url))
        trusting = host.downloader(certificate=certificate)
        assert (await trusting.download(SkillAddress(repository))).source.revision == commit
        assert (await trusting.download(SkillAddress(archive))).source.revision.startswith("sha256:")
        with pytest.raises(SkillUnavailable, match="certificate"):
            await trusting.download(SkillAddress(repository.replace("git.", "other.")))


async def test_update_shows_a_diff_and_a_rollback_restores_files_and_pin(tmp_path: Path, host: SkillHost) -> None:
    first = host.commit({"SKILL.md": SKILL.format(body="Boil."), "assets/old.txt": "old\n"})
    service, downloader = open_service(tmp_path), host.downloader()
    await install_from_url(service, downloader, ADA, SkillAddress(REPOSITORY))
    same = await check_for_update(service, downloader, ADA, "tea")
    assert (same.diff, same.source.revision) == ("", first)

    (host.root / "work" / "tea" / "assets" / "old.txt").unlink()
    second = host.commit({"SKILL.md": SKILL.format(body="Steep."), "assets/cup.bin": "\0cup"})
    found = await check_for_update(service, downloader, ADA, "tea")

    assert (found.installed_revision, found.source.revision) == (first, second)
    assert "--- a/SKILL.md\n+++ b/SKILL.md\n" in found.diff and "-Boil.\n+Steep.\n" in found.diff
    assert "--- a/assets/old.txt\n+++ /dev/null\n" in found.diff
    assert read(tmp_path, "SKILL.md") == SKILL.format(body="Boil."), "nothing is changed by looking"

    updated = await update_from_source(service, downloader, ADA, "tea", second)
    assert updated.skill.source is not None and updated.skill.source.revision == second
    assert read(tmp_path, "SKILL.md") == SKILL.format(body="Steep.")
    restored = await service.rollback(OWNER, "tea", PERSON)
    assert restored.source is not None and restored.source.revision == first
    assert read(tmp_path, "assets/old.txt") == "old\n" and restored.changed_outside == ()


async def test_update_to_another_revision_than_the_one_shown_conflicts(tmp_path: Path, host: SkillHost) -> None:
    first = host.commit({"SKILL.md": SKILL.format(body="Boil.")})
    service, downloader = open_service(tmp_path), host.downloader()
    await install_from_url(service, downloader, ADA, SkillAddress(REPOSITORY))
    host.commit({"SKILL.md": SKILL.format(body="Steep.")})

    with pytest.raises(Conflict, match="check it again"):
        await update_from_source(service, downloader, ADA, "tea", first)

    assert read(tmp_path, "SKILL.md") == SKILL.format(body="Boil.")


async def test_rejected_update_changes_nothing(tmp_path: Path, host: SkillHost) -> None:
    host.commit({"SKILL.md": SKILL.format(body="Boil.")})
    reviews = ScriptedReviews()
    service, downloader = open_service(tmp_path, reviews), host.downloader()
    await install_from_url(service, downloader, ADA, SkillAddress(REPOSITORY))
    before = list_stored_files(tmp_path)
    second = host.commit({"SKILL.md": SKILL.format(body="Grind."), "scripts/grind.py": "print()\n"})
    reviews.replies[:] = [BLOCK]

    with pytest.raises(SkillRefused, match="coffee"):
        await update_from_source(service, downloader, ADA, "tea", second)

    assert list_stored_files(tmp_path) == before and read(tmp_path, "SKILL.md") == SKILL.format(body="Boil.")


async def test_skill_from_git_is_scanned(tmp_path: Path, host: SkillHost) -> None:
    host.commit({"SKILL.md": SKILL.format(body="Boil."), "scripts/run.py": "exec(input())\n"})
    service = open_service(tmp_path, policy=ReviewPolicy)

    with pytest.raises(SkillRefused, match="run.py"):
        await install_from_url(service, host.downloader(), ADA, SkillAddress(REPOSITORY))

    assert await service.list(OWNER) == []


async def test_one_of_several_skills_is_chosen_by_its_folder_or_its_web_address(
    tmp_path: Path, host: SkillHost
) -> None:
    tea, coffee = SKILL.format(body="Boil."), SKILL.format(body="Grind.").replace("tea", "coffee")
    host.commit({"skills/tea/SKILL.md": tea, "skills/coffee/SKILL.md": coffee, "README.md": "Drinks.\n"}, "bar/drinks")
    service, downloader, url = open_service(tmp_path), host.downloader(), "http://git.example.org/bar/drinks.git"

    with pytest.raises(InvalidRequest, match="has 2 skills; choose a folder: skills/coffee, skills/tea"):
        await install_from_url(service, downloader, ADA, SkillAddress(url))
    with pytest.raises(NotFound, match=r"no SKILL.md in 'skills/milk'"):
        await install_from_url(service, downloader, ADA, SkillAddress(url, folder="skills/milk"))
    installed = await install_from_url(service, downloader, ADA, SkillAddress(f"{url}/tree/main/skills/tea"))

    assert installed.skill.source is not None
    assert (installed.skill.source.ref, installed.skill.source.folder) == ("main", "skills/tea")
    assert not (tmp_path / "users" / OWNER / "skills" / "custom" / "tea" / "README.md").exists()


async def test_archive_is_pinned_by_its_hash_and_redirects_are_followed(tmp_path: Path, host: SkillHost) -> None:
    content = build_archive(skill=SKILL.format(body="Boil."))
    host.files["/signed"] = content
    host.redirects["/files/tea.skill"] = "http://files.example.org/signed?key=1"
    service = open_service(tmp_path)

    installed = await install_from_url(service, host.downloader(), ADA, SkillAddress(ARCHIVE))

    assert installed.skill.source is not None
    assert installed.skill.source.revision == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert installed.skill.source.url == ARCHIVE


async def test_hooks_submodules_and_links_of_a_repository_are_not_used(tmp_path: Path, host: SkillHost) -> None:
    ran = tmp_path / "ran"
    host.commit({"SKILL.md": "other\n"}, "inner")
    host.commit({"SKILL.md": SKILL.format(body="Boil."), ".gitattributes": "* filter=evil\n"})
    work = host.root / "work" / "tea"
    for hook in ("post-checkout", "post-update", "reference-transaction"):
        (work / ".git" / "hooks").mkdir(exist_ok=True)
        (work / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (work / ".git" / "hooks" / hook).chmod(0o755)
    submodule = f'[submodule "inner"]\n\tpath = inner\n\turl = {host.root}/work/inner\n'
    (work / ".gitmodules").write_text(submodule)
    inner = host.git(host.root / "work" / "inner", "rev-parse", "HEAD").strip()
    host.git(work, "update-index", "--add", "--cacheinfo", f"160000,{inner},inner")
    host.git(work, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "submodule", "--no-verify")
    ran.unlink(missing_ok=True)
    service = open_service(tmp_path)

    await install_from_url(service, host.downloader(), ADA, SkillAddress(REPOSITORY))

    assert not (tmp_path / "users" / OWNER / "skills" / "custom" / "tea" / "inner" / "SKILL.md").exists()
    assert not ran.exists()
    assert not any("inner" in request for request in host.requests)

    (work / "passwd").symlink_to("/etc/passwd")
    host.commit({}, "tea")
    with pytest.raises(SkillRefused, match="symbolic link"):
        await check_for_update(service, host.downloader(), ADA, "tea")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://ada:secret@git.example.org/tea", "contains credentials"),
        ("https://token@git.example.org/tea.skill", "contains credentials"),
        ("http://git.example.org/tea", "starts with https://"),
        ("git@git.example.org:tea.git", "starts with https://"),
        ("ssh://git.example.org/tea", "starts with https://"),
        ("file:///etc", "starts with https://"),
        ("ext::sh -c touch% x", "not a URL"),
        ("https://git.example.org:8443/tea", "usual port"),
        ("https://git.example.org/tea.skill?key=1", "no query"),
        ("https://2130706433/tea", "not a host name"),
        ("https://git.example.org/te\na", "not a URL"),
    ],
)
def test_addresses_with_credentials_other_schemes_or_ports_are_rejected(url: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refused:
        parse_address(SkillAddress(url))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("ref", ["--upload-pack=touch x", "a..b", "main:refs/heads/x", "+main", "a b", ""])
def test_refs_that_git_would_read_as_something_else_are_rejected(ref: str) -> None:
    with pytest.raises(InvalidRequest, match="not the name of a branch"):
        parse_address(SkillAddress("https://git.example.org/tea", ref=ref))


@pytest.mark.parametrize("url", ["https://127.0.0.1/tea", "https://[::1]/tea.skill", "https://169.254.169.254/tea"])
async def test_private_addresses_are_not_reached(url: str) -> None:
    with pytest.raises(SkillUnavailable, match="not on the public internet"):
        await SkillDownloader(Egress()).download(SkillAddress(url))


async def test_redirects_to_other_hosts_are_not_followed_by_git(tmp_path: Path, host: SkillHost) -> None:
    host.commit({"SKILL.md": SKILL.format(body="Boil.")})
    host.redirects["/moved.git/info/refs"] = "http://elsewhere.example.org/tea.git/info/refs?service=git-upload-pack"

    with pytest.raises(SkillUnavailable):
        await host.downloader().download(SkillAddress("http://git.example.org/moved.git"))

    assert host.requests == ["/moved.git/info/refs"]


async def test_downloads_are_limited_in_size_and_time(tmp_path: Path, host: SkillHost) -> None:
    noise = hashlib.shake_256(b"noise").hexdigest(300_000)
    host.commit({"SKILL.md": SKILL.format(body="Boil."), "assets/noise.txt": noise})
    host.files["/files/tea.skill"] = build_archive(("assets/noise.txt", noise.encode()))
    small, quick = host.downloader(DownloadLimits(bytes=100_000)), host.downloader(DownloadLimits(seconds=0))

    with pytest.raises(SkillUnavailable):
        await small.download(SkillAddress(REPOSITORY))
    with pytest.raises(SkillUnavailable, match="has more than"):
        await small.download(SkillAddress(ARCHIVE))
    with pytest.raises(SkillUnavailable, match="took longer than 0 s"):
        await quick.download(SkillAddress(REPOSITORY))


async def test_a_small_repository_that_unpacks_to_a_large_archive_is_refused_at_once(host: SkillHost) -> None:
    noise = hashlib.shake_256(b"noise").hexdigest(30_000)  # one object in the repository, many files in the archive
    copies = {f"assets/{number}.txt": noise for number in range(40)}
    host.commit({"SKILL.md": SKILL.format(body="Boil."), **copies})

    with pytest.raises(SkillUnavailable, match="has more than"):
        await host.downloader(DownloadLimits(seconds=30, bytes=300_000)).download(SkillAddress(REPOSITORY))


async def test_missing_repositories_and_refs_are_named(tmp_path: Path, host: SkillHost) -> None:
    host.commit({"README.md": "No skill.\n"}, "empty")
    host.commit({"SKILL.md": SKILL.format(body="Boil.")})
    downloader = host.downloader()

    with pytest.raises(SkillUnavailable, match="not found|404"):
        await downloader.download(SkillAddress("http://git.example.org/nothing.git"))
    with pytest.raises(SkillUnavailable, match="v9"):
        await downloader.download(SkillAddress(REPOSITORY, ref="v9"))
    with pytest.raises(NotFound, match=r"has no SKILL.md"):
        await downloader.download(SkillAddress("http://git.example.org/empty.git"))
    with pytest.raises(SkillUnavailable, match="status 404"):
        await downloader.download(SkillAddress("http://git.example.org/nothing.skill"))


async def test_skills_that_were_not_installed_from_a_url_have_no_updates(tmp_path: Path, host: SkillHost) -> None:
    service = open_service(tmp_path)
    await service.create(OWNER, SKILL.format(body="Boil."), PERSON)

    with pytest.raises(Conflict, match="was not installed from a URL"):
        await check_for_update(service, host.downloader(), ADA, "tea")
