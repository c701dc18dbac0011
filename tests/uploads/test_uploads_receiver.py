"""Upload receiver: file names, and concurrent changes of the uploads folder."""

import os
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.config.sections.storage import UploadsConfig
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.files import UPLOADS
from deerflow.sandbox.files.mounts import Mount
from deerflow.sandbox.local.usage import DiskReservation, ThreadSpace
from deerflow.uploads.receiver import MAX_BYTES, UploadReceiver, clean_name, generate_names, open_upload_folder

ROUNDS = 400
NAME = "report.pdf"


@contextmanager
def replace_concurrently(folder: Path, secret: Path) -> Iterator[None]:
    """Replace the name and staged files in turn by an outside link, a folder and a hard link."""
    is_over = threading.Event()
    spare = folder.parent / "spare"

    def flip(name: str) -> None:
        target, made = folder / name, folder.parent / "made"
        for make in (lambda: made.symlink_to(secret), made.mkdir, lambda: made.hardlink_to(secret)):
            with suppress(OSError):
                make()
                made.rename(target)
                target.rename(spare)
            for path in (made, spare):
                with suppress(OSError):
                    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def run() -> None:
        while not is_over.is_set():
            for name in (NAME, *(each.name for each in folder.iterdir() if each.name.startswith(".upload-"))):
                flip(name)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(timeout=10)


@pytest.mark.slow
def test_concurrent_replacement_never_writes_outside_the_folder(tmp_path: Path) -> None:
    uploads, secret = tmp_path / "uploads", tmp_path / "secret"
    uploads.mkdir()
    secret.write_bytes(b"secret")
    kept = 0
    with open_upload_folder(Mount(UPLOADS, uploads), None) as folder, replace_concurrently(uploads, secret):
        for _ in range(ROUNDS):
            staged, file = folder.stage()
            with file:
                file.write(b"upload")
            with suppress(OSError):
                folder.publish(staged, NAME)
                kept += 1
            with suppress(OSError):
                folder.discard(staged)
    assert secret.read_bytes() == b"secret" and kept > 0


@pytest.mark.parametrize("change", ["link", "hard link", "folder", "gone"])
def test_refuses_replaced_staged_files(tmp_path: Path, change: str) -> None:
    uploads, secret = tmp_path / "uploads", tmp_path / "secret"
    secret.write_bytes(b"secret")
    with open_upload_folder(Mount(UPLOADS, uploads), None) as folder:
        staged, file = folder.stage()
        file.close()
        (uploads / staged).unlink()
        if change == "link":
            (uploads / staged).symlink_to(secret)
        elif change == "hard link":
            (uploads / staged).hardlink_to(secret)
        elif change == "folder":
            (uploads / staged).mkdir()
        with pytest.raises(OSError):
            folder.publish(staged, NAME)
    assert not (uploads / NAME).exists()


async def test_publishes_all_files_or_none(tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    reservation = DiskReservation(ThreadSpace([uploads], limit=1024**2))
    with pytest.raises(StorageUnavailable, match="cannot save the upload: it was replaced"):
        async with UploadReceiver(Mount(UPLOADS, uploads), None, UploadsConfig(), reservation) as receiver:
            for name in ("a.txt", "b.txt"):
                before = set(uploads.iterdir())
                await receiver.begin(name)
                await receiver.write(b"content")
                await receiver.end()
                (staged,) = set(uploads.iterdir()) - before
            staged.unlink()
            staged.symlink_to(tmp_path / "elsewhere")
            await receiver.publish()
    assert list(uploads.iterdir()) == []


@pytest.mark.parametrize(
    ("original", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\win.ini", "win.ini"),
        ("C:\\fakepath\\a.txt", "a.txt"),
        ("/etc/passwd", "passwd"),
        ("..", "upload"),
        (".", "upload"),
        ("", "upload"),
        ("folder/", "upload"),
        ("...hidden", "hidden"),
        (".upload-0.part", "upload-0.part"),
        ("%2e%2e%2fetc%2fpasswd", "%2e%2e%2fetc%2fpasswd"),
        ("a\0b.txt", "ab.txt"),
        ("a\r\nSet-Cookie: x.txt", "a  Set-Cookie: x.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066a\u2069\u200b\ufeff.txt", "a.txt"),
        ("con.txt", "_con.txt"),
        ("NUL", "_NUL"),
        ("trailing. . ", "trailing"),
        ("  spaces   inside .txt", "spaces   inside .txt"),
        ("\ud800.txt", "txt"),
        ("e\u0301.txt", "\u00e9.txt"),
        ("e\u200b\u0301.txt", "\u00e9.txt"),
        ("报告 (终稿).pdf", "报告 (终稿).pdf"),
        ("👩\u200d🚀.png", "👩\u200d🚀.png"),
        ("می\u200cخواهم.txt", "می\u200cخواهم.txt"),
    ],
)
def test_cleans_file_names(original: str, kept: str) -> None:
    assert clean_name(original) == kept


def test_shortens_long_names_and_keeps_the_suffix() -> None:
    kept = clean_name("é" * 300 + ".pdf")
    assert len(kept.encode()) <= MAX_BYTES and kept.endswith("é.pdf")
    assert len(clean_name("a." + "b" * 300).encode()) <= MAX_BYTES


@given(st.text(st.characters()))
def test_cleaned_names_are_valid_and_stable(original: str) -> None:
    kept = clean_name(original)
    assert kept and kept not in (".", "..") and "/" not in kept and "\0" not in kept and not kept.startswith(".")
    assert len(os.fsencode(kept)) <= 255 - len("_99999.md")
    assert unicodedata.is_normalized("NFC", kept)
    assert clean_name(kept) == kept


def test_numbers_taken_names_before_the_suffix() -> None:
    assert list(islice(generate_names("a.tar.gz"), 3)) == ["a.tar.gz", "a.tar_1.gz", "a.tar_2.gz"]
    assert list(islice(generate_names("Makefile"), 2)) == ["Makefile", "Makefile_1"]
