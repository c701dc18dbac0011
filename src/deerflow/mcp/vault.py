"""Seals what must not be readable in the database, with a key that is kept elsewhere."""

import logging
import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol, cast

from deerflow.config.imports import load_object
from deerflow.domain.errors import ConfigError, DeerFlowError

logger = logging.getLogger(__name__)

KEY_VARIABLE = "DEER_FLOW_SECRET_KEY"
KEY_BYTES, NONCE_BYTES, MARK_BYTES = 32, 12, 8
LEAST_CHARS = 32


class KeyLost(DeerFlowError):
    """Something was sealed with another key than there is now, or for somebody else."""


class Cipher(Protocol):
    """Authenticated encryption, as the library offers it."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...


class Vault:
    """Seals and opens; both may read a file, so they belong in a thread."""

    def __init__(self, file: Path, given: str | None = None) -> None:
        """The key is made of `given`, or is in `file`, where it is put when it is first needed.

        Raises:
            ConfigError: What is given is too short for a key.
        """
        if given is not None and len(given) < LEAST_CHARS:
            raise ConfigError(
                f"{KEY_VARIABLE} needs at least {LEAST_CHARS} characters; make it with: openssl rand -hex 32"
            )
        self._file = file
        self._key = sha256(given.encode()).digest() if given is not None else None

    def seal(self, content: bytes, whose: str) -> bytes:
        """`content` so that it can only be opened with our key, and only as `whose`."""
        key, nonce = self._load(), secrets.token_bytes(NONCE_BYTES)
        return mark_of(key) + nonce + cipher(key).encrypt(nonce, content, whose.encode())

    def open(self, sealed: bytes, whose: str) -> bytes:
        """What was sealed as `whose`.

        Raises:
            KeyLost: It was sealed with another key, or as somebody else's.
        """
        try:
            key = self._load()
        except ConfigError as problem:
            logger.error("what was sealed cannot be opened: %s", problem)
            raise KeyLost("the key cannot be read") from problem
        if sealed[:MARK_BYTES] != mark_of(key):
            raise KeyLost("it was sealed with another key")
        nonce, rest = sealed[MARK_BYTES : MARK_BYTES + NONCE_BYTES], sealed[MARK_BYTES + NONCE_BYTES :]
        try:
            return cipher(key).decrypt(nonce, rest, whose.encode())
        except cast(type[Exception], load_object("cryptography.exceptions:InvalidTag")):
            raise KeyLost("it was changed, or is somebody else's") from None

    def _load(self) -> bytes:
        if self._key is None:
            self._key = read_key(self._file) or make_key(self._file)
        return self._key


def cipher(key: bytes) -> Cipher:
    """The cipher with a key; the library is loaded with the first login, not with the server."""
    made = cast(type[Cipher], load_object("cryptography.hazmat.primitives.ciphers.aead:AESGCM"))
    return made(key)  # type: ignore[call-arg]


def mark_of(key: bytes) -> bytes:
    """What tells one key from another without giving it away."""
    return sha256(b"mark of a key" + key).digest()[:MARK_BYTES]


def read_key(file: Path) -> bytes | None:
    """The key in a file; None when there is no such file.

    Raises:
        ConfigError: It cannot be read, or is no key; it is left as it is, for it may be all that is left of one.
    """
    try:
        with file.open("rb") as opened:
            key = opened.read(KEY_BYTES + 1)
            if os.fstat(opened.fileno()).st_mode & 0o077:
                logger.warning("%s could be read by others; now only its owner can", file)
                os.fchmod(opened.fileno(), 0o600)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ConfigError(f"{file}: cannot be read: {problem.strerror or problem}") from problem
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{file}: holds no key; bring it back, or remove it, and everybody logs in again")
    return key


def make_key(file: Path) -> bytes:
    """A new key in a file that only we can read; where another process was faster, its key."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secrets.token_bytes(KEY_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            file.hardlink_to(draft)
        draft.unlink()
    except OSError as problem:
        raise ConfigError(f"{file}: cannot be written: {problem.strerror or problem}") from problem
    found = read_key(file)
    if found is None:
        raise ConfigError(f"{file}: went away while it was written")
    return found
