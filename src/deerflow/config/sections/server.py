"""Sections for the server: address, gateway limits, logging and share links."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from deerflow.config.sections.base import Section, make_error
from deerflow.config.sections.runs import Amount

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
PROVIDER_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"


class ServerConfig(Section):
    """Listen address."""

    needs_restart: ClassVar[bool] = True

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on; default: loopback only.")
    port: int = Field(default=2026, ge=0, le=65535, description="Port to listen on; 0: any free port.")
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Networks of reverse proxies, as 10.0.0.0/8, whose X-Forwarded-For and X-Forwarded-Proto are used.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _check_trusted_proxies(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(check_network, networks))


class GatewayConfig(Section):
    """Request limits and allowed origins."""

    needs_restart: ClassVar[bool] = True

    public_url: str | None = Field(
        default=None,
        description="Public URL of the server, as https://host; used for OAuth redirects.",
    )
    cors_origins: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Allowed CORS origins, as https://host; default: none.",
    )
    max_body_mb: float = Field(
        default=20.0, gt=0, le=1024, description="Maximum request body size; uploads have their own limits."
    )
    body_idle_seconds: float = Field(
        default=15.0, gt=0, description="Seconds without data before reading a request body is aborted."
    )
    body_total_seconds: float = Field(
        default=120.0, gt=0, description="Maximum seconds for a request body; not applied to uploads."
    )
    min_free_disk_mb: float = Field(default=200.0, ge=0, description="Free disk space below which /ready fails.")

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str | None) -> str | None:
        return None if url is None else check_origin(url)

    @field_validator("cors_origins")
    @classmethod
    def _check_cors_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(check_origin, origins))


def check_origin(text: str) -> str:
    """Return `text` if it is a web origin, else raise an error."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or text != f"{parts.scheme}://{parts.netloc}":
        raise make_error(f"{text!r} is not an origin; write https://host or https://host:port, without a path")
    return text


def check_network(text: str) -> str:
    """Return `text` if it is a network of IP addresses, else raise an error."""
    try:
        return str(ip_network(text))
    except ValueError:
        raise make_error(f"{text!r} is not a network; write an address, or a range such as 10.0.0.0/8") from None


class QuotasConfig(Section):
    """Limits of every person; null for none. An administrator can set others for a person."""

    storage_mb: int | None = Field(
        default=None, ge=1, description="Maximum size of the files of a person, in all threads and projects."
    )
    concurrent_runs: int | None = Field(
        default=None, ge=1, le=10_000, description="Maximum number of threads of a person with an active run."
    )
    requests_per_second: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="Maximum requests of a person per second, in each server process; bursts of two seconds at most.",
    )
    tokens_per_day: int | None = Field(
        default=None, ge=1000, description="Maximum input and output tokens of a person in a day (UTC)."
    )
    cost_per_day: Amount | None = Field(
        default=None, description="Maximum cost of a person in a day (UTC); requires `pricing` for every model."
    )
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3,8}$", description="Currency of `cost_per_day`.")


class SsoProviderConfig(Section):
    """OpenID provider at which people log in."""

    issuer: str = Field(description="Issuer URL, exactly as the provider states it; https, or http on this machine.")
    client_id: str = Field(min_length=1, description="Client id that the provider has given to this server.")
    client_secret: str | None = Field(default=None, min_length=1, description="Client secret; null: a public client.")
    label: str | None = Field(default=None, max_length=60, description="Name on the login button; default: the key.")
    scopes: tuple[str, ...] = Field(
        default=("openid", "email", "profile"),
        strict=False,
        description="Requested scopes; openid is always one.",
    )
    allowed_domains: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description='Domains of verified e-mail addresses that may log in; ["*"]: any. Required with create_accounts, '
        "unless there are allowed_groups.",
    )
    groups_claim: str = Field(default="groups", min_length=1, description="Claim with the groups or roles of a person.")
    allowed_groups: tuple[str, ...] = Field(
        default=(), strict=False, description="Groups that may log in; default: no limit."
    )
    admin_groups: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Groups whose members are administrators, all others are not; default: roles are set here.",
    )
    create_accounts: bool = Field(default=True, description="Create an account at the first login of a person.")

    @field_validator("issuer")
    @classmethod
    def _check_issuer(cls, url: str) -> str:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
        if not is_secure or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise make_error("must be an https URL without query, such as https://login.example.com")
        return url

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.create_accounts and not self.allowed_domains and not self.allowed_groups:
            raise make_error(
                'create_accounts needs allowed_domains or allowed_groups; allowed_domains: ["*"] allows all'
            )
        return self


class UsersConfig(Section):
    """Accounts of people: sessions, links and cookies. Without an account, no login is required on this machine."""

    session_idle_hours: float = Field(
        default=168.0, gt=0, le=8760, description="Hours without a request after which a session ends."
    )
    session_days: float = Field(default=30.0, gt=0, le=365, description="Days after a login when the session ends.")
    link_hours: float = Field(
        default=72.0, gt=0, le=720, description="Hours for which invitations and links for a new password are valid."
    )
    deleted_usage: Literal["delete", "anonymous"] = Field(
        default="delete",
        description="Token usage of deleted users: delete it, or keep it without the user for the sums of the server.",
    )
    team_creation: Literal["everyone", "admins"] = Field(
        default="everyone", description="Who may create teams. Their creators own them; administrators manage all."
    )
    secure_cookies: Literal["auto", "always"] = Field(
        default="auto",
        description="always: send the session cookie over TLS only; auto: if the login came over TLS.",
    )
    quotas: QuotasConfig = Field(default=QuotasConfig(), description="Limits of every person; null for none.")
    sso: Mapping[Annotated[str, Field(pattern=PROVIDER_NAME)], SsoProviderConfig] = Field(
        default_factory=dict,
        max_length=20,
        description="OpenID providers for single sign-on by a name of your choice, which is part of the callback URL.",
    )


LogFormat = Literal["text", "json"]


class LoggingConfig(Section):
    """Log format; the level is `log_level`."""

    needs_restart: ClassVar[bool] = True

    format: LogFormat = Field(default="text", description="text, or json for one object per line.")


class SharingConfig(Section):
    """Public share links to threads."""

    enabled: bool = Field(default=False, description="Allow public share links; false also disables existing links.")
    max_days: int | None = Field(
        default=None, ge=1, le=3650, description="Maximum validity of a link in days; null: until it is revoked."
    )
