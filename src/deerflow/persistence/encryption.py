"""Encryption of secrets in the database, with a key kept outside of it."""

import logging
import os
import secrets
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from deerflow.domain.errors import ConfigError, DeerFlowError

logger = logging.getLogger(__name__)

KEY_FILE = "mcp.key"
"""File in the state directory; its name is that of the first secrets that were encrypted."""
KEY_VARIABLE = "DEER_FLOW_SECRET_KEY"
KEY_BYTES, NONCE_BYTES, KEY_ID_BYTES = 32, 12, 8
MIN_KEY_CHARS = 32


class DecryptionError(DeerFlowError):
    """The value was encrypted with another key, or for another owner."""


class TokenCipher:
    """Encrypts and decrypts values. Both methods may read a file and block."""

    def __init__(self, file: Path, given: str | None = None) -> None:
        """Derive the key from `given`, or keep it in `file`, which is created on first use.

        Raises:
            ConfigError: The given secret is too short.
        """
        if given is not None and len(given) < MIN_KEY_CHARS:
            raise ConfigError(
                f"{KEY_VARIABLE} needs at least {MIN_KEY_CHARS} characters; make it with: openssl rand -hex 32"
            )
        self._file = file
        self._key = sha256(given.encode()).digest() if given is not None else None

    def encrypt(self, content: bytes, owner: str) -> bytes:
        """Return `content` encrypted with our key and bound to `owner`."""
        # Imported with the first login, not with the server.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key, nonce = self._load(), secrets.token_bytes(NONCE_BYTES)
        return key_id(key) + nonce + AESGCM(key).encrypt(nonce, content, owner.encode())

    def decrypt(self, encrypted: bytes, owner: str) -> bytes:
        """Return the content of a value encrypted for `owner`.

        Raises:
            DecryptionError: It was encrypted with another key or for another owner.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            key = self._load()
        except ConfigError as problem:
            logger.error("stored secrets cannot be decrypted: %s", problem)
            raise DecryptionError("the key cannot be read") from problem
        if encrypted[:KEY_ID_BYTES] != key_id(key):
            raise DecryptionError("encrypted with a different key")
        nonce, rest = encrypted[KEY_ID_BYTES : KEY_ID_BYTES + NONCE_BYTES], encrypted[KEY_ID_BYTES + NONCE_BYTES :]
        try:
            return AESGCM(key).decrypt(nonce, rest, owner.encode())
        except InvalidTag:
            raise DecryptionError("corrupted, or encrypted for another owner") from None

    def _load(self) -> bytes:
        if self._key is None:
            self._key = read_key(self._file) or create_key(self._file)
        return self._key


def key_id(key: bytes) -> bytes:
    """Return an identifier of a key that does not reveal it."""
    # The prefix is part of the stored format.
    return sha256(b"mark of a key" + key).digest()[:KEY_ID_BYTES]


def read_key(file: Path) -> bytes | None:
    """Return the key in a file; None when the file does not exist.

    Raises:
        ConfigError: The file cannot be read or is not a key. It is left unchanged: it may be the remains of one.
    """
    try:
        with file.open("rb") as opened:
            key = opened.read(KEY_BYTES + 1)
            if sys.platform != "win32" and os.fstat(opened.fileno()).st_mode & 0o077:
                logger.warning("%s was readable by other users; permissions are now 600", file)
                os.fchmod(opened.fileno(), 0o600)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ConfigError(f"{file}: cannot be read: {problem.strerror or problem}") from problem
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{file}: not a key; restore it, or remove it, and enter all keys and logins again")
    return key


def create_key(file: Path) -> bytes:
    """Create a key in a file that only its owner can read. If another process was faster, return its key."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secrets.token_bytes(KEY_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            file.hardlink_to(temporary)
        temporary.unlink()
    except OSError as problem:
        raise ConfigError(f"{file}: cannot be written: {problem.strerror or problem}") from problem
    found = read_key(file)
    if found is None:
        raise ConfigError(f"{file}: removed while it was written")
    return found
