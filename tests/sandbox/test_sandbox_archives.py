"""Members of untrusted archives."""

import io
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from deerflow.domain.errors import FileProblem, UnusableFile
from deerflow.sandbox.archives import MAX_MEMBER, read_member, split_at_archive
from deerflow.sandbox.file_access import OpenFile, open_file
from deerflow.sandbox.files.mounts import Mount, ResolvedPath


def open_archive(folder: Path, content: bytes) -> OpenFile:
    (folder / "x.skill").write_bytes(content)
    return open_file(ResolvedPath(Mount("/mnt/user-data/outputs", folder), ("x.skill",)))


def pack(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def read_archive_member(folder: Path, content: bytes, member: str = "SKILL.md") -> bytes:
    archive = open_archive(folder, content)
    try:
        return read_member(archive, member).content
    finally:
        archive.close()


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/o/x.skill/SKILL.md", ("/o/x.skill", "SKILL.md")),
        ("/o/X.SKILL/a/b", ("/o/X.SKILL", "a/b")),
        ("/o/x.skill//a/./b", ("/o/x.skill", "a/b")),
        ("/o/x.skill", None),
        ("/o/x.skill/", None),
        ("/o/x.skills/a", None),
    ],
)
def test_splits_a_path_at_an_archive(path: str, parts: tuple[str, str] | None) -> None:
    assert split_at_archive(path) == parts


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("content", [b"", b"# Skill\r\n", bytes(range(256)) * 1000, bytes(1024 * 1024)])
def test_returns_a_member_byte_for_byte(tmp_path: Path, method: int, content: bytes) -> None:
    archive = pack({"SKILL.md": content, "other/größe.md": b"2"}, method)
    assert read_archive_member(tmp_path, archive) == content
    assert read_archive_member(tmp_path, archive, "other/größe.md") == b"2"


@pytest.mark.parametrize("member", ["none", "skill.md", "SKILL.md/x", "../SKILL.md", "a\\b", ""])
def test_refuses_a_missing_member(tmp_path: Path, member: str) -> None:
    with pytest.raises(FileProblem, match="there is no"):
        read_archive_member(tmp_path, pack({"SKILL.md": b"x", "a/b": b""}), member)


def mark_encrypted(archive: bytes) -> bytes:
    """Return the archive with its members marked as encrypted."""
    changed = bytearray(archive)
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        changed[changed.index(signature) + at] |= 1
    return bytes(changed)


def set_size(archive: bytes, size: int) -> bytes:
    """Return the archive with a false uncompressed size of its member."""
    changed = bytearray(archive)
    for signature, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<L", changed, changed.index(signature) + at, size)
    return bytes(changed)


def build_link_archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("SKILL.md")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "no archive": lambda: b"hello",
    "empty": lambda: b"",
    "only a signature": lambda: b"PK\x05\x06",
    "cut off": lambda: pack({"SKILL.md": b"x" * 1000})[:-30],
    "encrypted": lambda: mark_encrypted(pack({"SKILL.md": b"x"})),
    "a link": lambda: build_link_archive(),
    "a bomb": lambda: pack({"SKILL.md": bytes(15 * 1024 * 1024)}),
    "too large": lambda: pack({"SKILL.md": bytes(range(256)) * 256 * 257}, zipfile.ZIP_STORED),
    "a bomb that lies about its size": lambda: set_size(pack({"SKILL.md": bytes(64 * 1024 * 1024)}), 100),
    "a size of four gigabytes": lambda: set_size(pack({"SKILL.md": b"x"}), 0xFFFFFFFE),
    "a slow method": lambda: pack({"SKILL.md": b"x" * 100}, zipfile.ZIP_LZMA),
    "another slow method": lambda: pack({"SKILL.md": b"x" * 100}, zipfile.ZIP_BZIP2),
    "twenty thousand members": lambda: pack({**{f"f{number:05}": b"" for number in range(20_000)}, "SKILL.md": b""}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_refuses_malicious_archives_with_a_reason(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UnusableFile) as refused:
        read_archive_member(tmp_path, HOSTILE[kind]())
    assert len(str(refused.value)) > 20


def test_reads_members_of_up_to_16_mb(tmp_path: Path) -> None:
    content = bytes(range(256)) * (MAX_MEMBER // 256)
    assert read_archive_member(tmp_path, pack({"SKILL.md": content}, zipfile.ZIP_STORED)) == content


@given(some.binary(max_size=300), some.integers(0, 400), some.binary(min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_reads_or_refuses_any_damaged_archive(content: bytes, at: int, change: bytes) -> None:
    whole = bytearray(pack({"SKILL.md": content}))
    at = at % len(whole)
    whole[at : at + len(change)] = change
    with tempfile.TemporaryDirectory() as folder, suppress(FileProblem):
        read_archive_member(Path(folder), bytes(whole))
