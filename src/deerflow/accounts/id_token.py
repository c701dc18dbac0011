"""ID tokens of OpenID providers: signature and claims, and what the claims allow a person."""

from collections.abc import Mapping
from secrets import compare_digest
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.accounts.model import AccountRole
from deerflow.config.sections.server import SsoProviderConfig
from deerflow.domain.errors import SignOnFailed

LEEWAY_S = 60
"""Seconds by which the clock of a provider may differ."""
MAX_KEYS = 50
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Accepted signatures: none with a shared secret, and not `none`."""


class ProviderDocument(BaseModel):
    """Response of a provider; unknown fields are ignored and types are not converted."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)


class KeySet(ProviderDocument):
    """Keys of a provider."""

    keys: Annotated[list[dict[str, Any]], Field(max_length=MAX_KEYS)]


class UserClaims(ProviderDocument):
    """Claims about a person."""

    model_config = ConfigDict(extra="allow")

    sub: Annotated[str, Field(min_length=1, max_length=255)]
    email: str | None = None
    email_verified: bool | None = None


class IdTokenClaims(UserClaims):
    """Claims of an ID token."""

    iss: str
    aud: str | list[str]
    exp: float
    iat: float
    nbf: float = 0
    nonce: str
    azp: str | None = None


def verify_id_token(token: str, key_set: KeySet, provider: SsoProviderConfig, nonce: str, now: float) -> IdTokenClaims:
    """Check signature and claims of an ID token and return the claims.

    Raises:
        SignOnFailed: The token is not valid.
    """
    try:
        claims = IdTokenClaims.model_validate(decode_id_token(token, key_set))
    except ValidationError as problem:
        raise SignOnFailed(f"the ID token is not complete: {problem.errors()[0]['loc']}") from None
    audience = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    is_ours = provider.client_id in audience and (len(audience) == 1 or claims.azp is not None)
    faults = {
        "is of another issuer": claims.iss != provider.issuer,
        "is for another client": not is_ours or claims.azp not in (None, provider.client_id),
        "has expired": not claims.exp > now - LEEWAY_S,
        "is not valid yet": not max(claims.iat, claims.nbf) <= now + LEEWAY_S,
        "is for another login": not compare_digest(claims.nonce.encode(), nonce.encode()),
    }
    for fault, is_true in faults.items():
        if is_true:
            raise SignOnFailed(f"the ID token {fault}")
    return claims


def decode_id_token(token: str, key_set: KeySet) -> Mapping[str, Any]:
    """Return the claims of a token that one of the public keys has signed, or raise `SignOnFailed`."""
    from joserfc import jwk, jws, jwt
    from joserfc.errors import JoseError

    try:
        header = jws.extract_compact(token.encode()).headers()
        named = [key for key in key_set.keys if header.get("kid") in (None, key.get("kid"))]
        for data in named:
            if data.get("kty") not in ("RSA", "EC", "OKP") or data.get("use", "sig") != "sig" or "d" in data:
                continue
            if data.get("alg", header.get("alg")) != header.get("alg"):
                continue
            try:
                return jwt.decode(token, jwk.import_key(data), algorithms=ALGORITHMS).claims
            except (JoseError, ValueError):
                continue
    except (JoseError, ValueError, TypeError, KeyError):
        raise SignOnFailed("the ID token is damaged") from None
    raise SignOnFailed("the signature of the ID token is not valid")


def check_person(provider: SsoProviderConfig, claims: UserClaims) -> None:
    """Raise `SignOnFailed` unless a person has a verified address of an allowed domain and is in an allowed group."""
    if not claims.email or claims.email_verified is not True:
        raise SignOnFailed("the provider has not verified the e-mail address", "unverified")
    domain = claims.email.rpartition("@")[2].strip().casefold()
    allowed = {each.casefold() for each in provider.allowed_domains}
    if allowed and "*" not in allowed and domain not in allowed:
        raise SignOnFailed("the domain of the e-mail address is not allowed", "not-allowed")
    if provider.allowed_groups and not set(provider.allowed_groups) & read_groups(provider, claims):
        raise SignOnFailed("the person is in no group that is allowed", "not-allowed")


def read_groups(provider: SsoProviderConfig, claims: UserClaims) -> set[str]:
    """Return the groups of a person; `a.b` is the field `b` of the claim `a`."""
    found: Any = claims.model_extra or {}
    for name in [provider.groups_claim] if provider.groups_claim in found else provider.groups_claim.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    listed = [found] if isinstance(found, str) else found
    return {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()


def find_role(provider: SsoProviderConfig, claims: UserClaims) -> AccountRole | None:
    """Return the role that the groups of a person give; None if roles are set on this server."""
    if not provider.admin_groups:
        return None
    return "admin" if set(provider.admin_groups) & read_groups(provider, claims) else "user"
