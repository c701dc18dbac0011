"""Software authenticator that makes passkeys, and lies if a test wants it to."""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

USER_PRESENT, USER_VERIFIED, BACKUP_ELIGIBLE, BACKED_UP, HAS_CREDENTIAL = 0x01, 0x04, 0x08, 0x10, 0x40
VERIFIED = USER_PRESENT | USER_VERIFIED


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Authenticator:
    """One passkey on a device."""

    origin: str
    rp_id: str
    flags: int = VERIFIED
    count: int = 0
    user_handle: str | None = None
    credential_id: bytes = field(default_factory=lambda: token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return what `navigator.credentials.create` returns."""
        self.user_handle = options["user"]["id"]
        client = self._client_data("webauthn.create", options["challenge"])
        numbers = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        named = bytes(16) + len(self.credential_id).to_bytes(2) + self.credential_id + cbor2.dumps(public)
        data = self._authenticator_data(HAS_CREDENTIAL) + named
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        return self._credential({"clientDataJSON": encode(client), "attestationObject": encode(attestation)})

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return what `navigator.credentials.get` returns."""
        client = self._client_data("webauthn.get", options["challenge"])
        data = self._authenticator_data()
        signature = self.key.sign(data + sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        answer = {"clientDataJSON": encode(client), "authenticatorData": encode(data), "signature": encode(signature)}
        return self._credential({**answer, "userHandle": self.user_handle})

    def _client_data(self, kind: str, challenge: str) -> bytes:
        data = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(data).encode()

    def _authenticator_data(self, more: int = 0) -> bytes:
        return sha256(self.rp_id.encode()).digest() + bytes([self.flags | more]) + self.count.to_bytes(4)

    def _credential(self, response: dict[str, Any]) -> dict[str, Any]:
        name = encode(self.credential_id)
        base = {"id": name, "rawId": name, "type": "public-key", "clientExtensionResults": {}}
        return {**base, "authenticatorAttachment": "platform", "response": response}
