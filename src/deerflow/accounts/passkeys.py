"""Passkeys: WebAuthn credentials with which people log in. The authenticator must verify the person."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from deerflow.accounts import queries as rows
from deerflow.accounts.logins import make_event, to_network
from deerflow.accounts.model import LoginAttempt, Passkey, UserAccount, hash_secret
from deerflow.accounts.queries import login_methods as methods
from deerflow.config.imports import require_extra
from deerflow.domain.errors import Conflict, InvalidRequest, LoginFailed, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import recorded

if TYPE_CHECKING:
    from webauthn.helpers.structs import AuthenticationCredential, PublicKeyCredentialDescriptor

logger = logging.getLogger(__name__)

LIFETIME = timedelta(minutes=5)
"""Time in which a person answers the browser."""
RP_NAME = "DeerFlow"
REJECTED = "the passkey was not accepted"
LIBRARY = "webauthn"


@dataclass(frozen=True, slots=True)
class WebOrigin:
    """Origin of the page, as the browser signs it, and the address of the client."""

    url: str
    address: str

    @property
    def rp_id(self) -> str:
        """Host name to which credentials are bound."""
        return urlsplit(self.url).hostname or ""


@dataclass(frozen=True, slots=True)
class Passkeys:
    """Passkeys of accounts."""

    database: Database
    now: Callable[[], datetime] = partial(datetime.now, UTC)

    @property
    def is_available(self) -> bool:
        """True if the library is installed."""
        return find_spec(LIBRARY) is not None

    async def begin_registration(self, who: Principal, origin: WebOrigin) -> Mapping[str, Any]:
        """Return the options with which the browser of a user creates a passkey.

        Raises:
            TooManyAttempts: Too many logins have begun.
        """
        await load_library()
        from webauthn import generate_registration_options, options_to_json
        from webauthn.helpers.structs import (
            AuthenticatorSelectionCriteria,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        account = await self.database.read(partial(rows.find_account, owner=who.user_id))
        options = generate_registration_options(
            rp_id=origin.rp_id,
            rp_name=RP_NAME,
            user_name=account.email,
            user_id=who.user_id.encode(),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
            ),
            exclude_credentials=[to_descriptor(each) for each in await self.list(who)],
        )
        await self._save(options.challenge, "new-passkey", who.user_id, origin)
        return load_json(options_to_json(options))

    async def finish_registration(
        self, who: Principal, name: str, credential: Mapping[str, Any], origin: WebOrigin
    ) -> Passkey:
        """Store the passkey that a browser has created.

        Raises:
            InvalidRequest: The credential is not valid, or the name is empty.
            NotFound: The registration was finished, or took too long.
            Conflict: The passkey is registered already, or the account has too many.
        """
        await load_library()
        from webauthn import verify_registration_response
        from webauthn.helpers import parse_registration_credential_json
        from webauthn.helpers.exceptions import WebAuthnException
        from webauthn.helpers.structs import CredentialDeviceType

        cleaned = clean_name(name)
        try:
            parsed = parse_registration_credential_json(dict(credential))
            challenge = read_challenge(parsed.response.client_data_json)
        except (WebAuthnException, ValueError, KeyError, TypeError) as problem:
            raise InvalidRequest(f"the passkey is not valid: {problem}") from None
        attempt = await self._take(challenge, "new-passkey")
        if attempt.user_id != who.user_id:
            raise NotFound("this registration was begun by another user")
        try:
            verified = verify_registration_response(
                credential=parsed,
                expected_challenge=challenge,
                expected_rp_id=origin.rp_id,
                expected_origin=origin.url,
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError, KeyError, TypeError) as problem:
            raise InvalidRequest(f"the passkey is not valid: {problem}") from None
        passkey = Passkey(
            passkey_id=new_id(),
            owner=who.user_id,
            credential_id=verified.credential_id,
            public_key=verified.credential_public_key,
            sign_count=verified.sign_count,
            is_synced=verified.credential_device_type == CredentialDeviceType.MULTI_DEVICE,
            is_backed_up=verified.credential_backed_up,
            name=cleaned,
            created_at=self.now(),
        )
        event = make_event("account.passkey_added", who.user_id, passkey=passkey.passkey_id)
        await self.database.write(recorded(partial(methods.insert_passkey, new=passkey), event))
        return passkey

    async def begin_login(self, origin: WebOrigin) -> Mapping[str, Any]:
        """Return the options with which a browser asks a person for a passkey.

        Raises:
            TooManyAttempts: Too many logins have begun.
        """
        await load_library()
        from webauthn import generate_authentication_options, options_to_json
        from webauthn.helpers.structs import UserVerificationRequirement

        options = generate_authentication_options(
            rp_id=origin.rp_id, user_verification=UserVerificationRequirement.REQUIRED
        )
        await self._save(options.challenge, "passkey", None, origin)
        return load_json(options_to_json(options))

    async def finish_login(self, credential: Mapping[str, Any], origin: WebOrigin) -> tuple[UserAccount, str]:
        """Check the answer of a passkey; return its account with the stored password.

        Raises:
            LoginFailed: The answer is not valid, or the passkey is unknown.
        """
        await load_library()
        from webauthn.helpers import parse_authentication_credential_json
        from webauthn.helpers.exceptions import WebAuthnException

        try:
            parsed = parse_authentication_credential_json(dict(credential))
            challenge = read_challenge(parsed.response.client_data_json)
            await self._take(challenge, "passkey")
            passkey = await self.database.read(partial(methods.find_passkey, credential_id=parsed.raw_id))
            if passkey is None or parsed.response.user_handle not in (None, passkey.owner.encode()):
                raise LoginFailed(REJECTED)
            count, is_backed_up = verify_answer(parsed, challenge, passkey, origin)
            record = partial(methods.record_passkey_use, used=passkey, sign_count=count, is_backed_up=is_backed_up)
            await self.database.write(partial(record, now=self.now()))
        except (WebAuthnException, ValueError, KeyError, TypeError, NotFound, Conflict) as problem:
            logger.warning("a login with a passkey was refused: %s", problem)
            raise LoginFailed(REJECTED) from None
        login = await self.database.read(partial(methods.find_login, owner=passkey.owner))
        if login is None or not login[0].is_active:
            raise LoginFailed(REJECTED)
        return login

    async def list(self, who: Principal) -> Sequence[Passkey]:
        """Return the passkeys of a user, oldest first."""
        return await self.database.read(partial(methods.list_passkeys, owner=who.user_id))

    async def rename(self, who: Principal, passkey_id: str, name: str) -> Passkey:
        """Rename a passkey of a user.

        Raises:
            NotFound: There is none.
            InvalidRequest: The name is empty.
        """
        change = partial(methods.rename_passkey, owner=who.user_id, passkey_id=passkey_id, name=clean_name(name))
        return await self.database.write(change)

    async def delete(self, who: Principal, passkey_id: str) -> None:
        """Remove a passkey of a user.

        Raises:
            NotFound: There is none.
            Conflict: The account has no other way to log in.
        """
        change = partial(methods.delete_passkey, owner=who.user_id, passkey_id=passkey_id)
        event = make_event("account.passkey_removed", who.user_id, passkey=passkey_id)
        await self.database.write(recorded(change, event))

    async def _save(self, challenge: bytes, kind: str, user_id: str | None, origin: WebOrigin) -> None:
        now, network = self.now(), hash_secret(to_network(origin.address))
        attempt = LoginAttempt("passkey" if kind == "passkey" else "new-passkey", user_id, network, {}, now + LIFETIME)
        key = hash_secret(challenge.hex())
        await self.database.write(partial(methods.insert_attempt, new=attempt, key_hash=key, now=now))

    async def _take(self, challenge: bytes, kind: str) -> LoginAttempt:
        key = hash_secret(challenge.hex())
        return await self.database.write(partial(methods.take_attempt, key_hash=key, kind=kind, now=self.now()))


async def load_library() -> None:
    """Import the WebAuthn library in a thread, because that takes a while.

    Raises:
        ConfigError: It is not installed.
    """
    with require_extra("passkeys", "passkeys"):
        await asyncio.to_thread(import_library)


def import_library() -> None:
    """Import the WebAuthn library."""
    import webauthn  # noqa: F401


def to_descriptor(passkey: Passkey) -> "PublicKeyCredentialDescriptor":
    """Return the name of a passkey as browsers read it."""
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return PublicKeyCredentialDescriptor(id=passkey.credential_id)


def load_json(text: str) -> Mapping[str, Any]:
    """Return the options that the library has encoded."""
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def read_challenge(client_data: bytes) -> bytes:
    """Return the challenge that a browser has answered."""
    from webauthn.helpers import parse_client_data_json

    challenge: bytes = parse_client_data_json(client_data).challenge
    return challenge


def verify_answer(
    credential: "AuthenticationCredential", challenge: bytes, passkey: Passkey, origin: WebOrigin
) -> tuple[int, bool]:
    """Check the signature of a passkey; return its new counter and whether it is backed up.

    Raises:
        WebAuthnException: It is not valid, or the counter did not grow: the key may have been copied.
        LoginFailed: A key that could not leave its device now can, or the reverse.
    """
    from webauthn import verify_authentication_response
    from webauthn.helpers.structs import CredentialDeviceType

    verified = verify_authentication_response(
        credential=credential,
        expected_challenge=challenge,
        expected_rp_id=origin.rp_id,
        expected_origin=origin.url,
        credential_public_key=passkey.public_key,
        credential_current_sign_count=passkey.sign_count,
        require_user_verification=True,
    )
    if (verified.credential_device_type == CredentialDeviceType.MULTI_DEVICE) != passkey.is_synced:
        raise LoginFailed(REJECTED)
    return verified.new_sign_count, verified.credential_backed_up


def clean_name(name: str) -> str:
    """Return a name without white space around it, or raise `InvalidRequest`."""
    cleaned = name.strip()
    if not cleaned or not cleaned.isprintable():
        raise InvalidRequest("a passkey needs a name")
    return cleaned
