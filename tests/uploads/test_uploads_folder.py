"""Uploads into a folder in which somebody else does what they want at the same time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deerflow.config.uploads import UploadsConfig
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.files import UPLOADS
from deerflow.sandbox.places import Place
from deerflow.uploads.folder import opened_folder
from deerflow.uploads.reception import Reception

ROUNDS = 400
NAME = "report.pdf"


@contextmanager
def flipping(folder: Path, secret: Path) -> Iterator[None]:
    """The name is by turns a link that leads outside, a folder, a file of two names, and free; so are staged files."""
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


def test_nothing_outside_is_written_or_kept_whatever_happens_in_the_folder(tmp_path: Path) -> None:
    uploads, secret = tmp_path / "uploads", tmp_path / "secret"
    uploads.mkdir()
    secret.write_bytes(b"secret")
    kept = 0
    with opened_folder(Place(UPLOADS, uploads), None) as folder, flipping(uploads, secret):
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
def test_a_staged_file_that_was_replaced_is_not_kept(tmp_path: Path, change: str) -> None:
    uploads, secret = tmp_path / "uploads", tmp_path / "secret"
    secret.write_bytes(b"secret")
    with opened_folder(Place(UPLOADS, uploads), None) as folder:
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


async def test_when_one_file_cannot_be_kept_none_is(tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    with pytest.raises(StorageUnavailable, match="the upload cannot be kept: it was replaced"):
        async with Reception(Place(UPLOADS, uploads), None, UploadsConfig()) as reception:
            for name in ("a.txt", "b.txt"):
                before = set(uploads.iterdir())
                await reception.begin(name)
                await reception.write(b"content")
                await reception.end()
                (staged,) = set(uploads.iterdir()) - before
            staged.unlink()
            staged.symlink_to(tmp_path / "elsewhere")
            await reception.keep()
    assert list(uploads.iterdir()) == []
