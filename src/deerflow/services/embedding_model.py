"""Connection to the embedding model of the server: checked, stored with an encrypted key, used by all projects."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import MINILM, WORDLLAMA, EmbeddingConfig
from deerflow.domain.errors import AddressRefused, Conflict, Forbidden, InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.models.check import run_step
from deerflow.models.check_problems import CheckProblem, classify_error, make_problem
from deerflow.models.connection import ConnectionProvider, normalize_address
from deerflow.models.embeddings import INSTALL_COMMAND, MiniLMEmbedder, WordLlamaEmbedder, create_embedder, find_minilm
from deerflow.models.listing import ApiSearch, FoundProblem
from deerflow.persistence.queries import model_connections as rows
from deerflow.persistence.queries.model_connections import EMBEDDING_OWNER
from deerflow.services.model_connections import ModelConnections, check_host, clean_key, require_address

EMBEDDING_NAME = re.compile(r"embed|\bbge\b|\be5\b|\bgte\b|minilm|mpnet|arctic|voyage", re.IGNORECASE)
LOCAL_MODELS: Mapping[str, str] = MappingProxyType({MINILM: MiniLMEmbedder.name, WORDLLAMA: WordLlamaEmbedder.name})
"""Names of the models on this machine, by provider."""
TEST_TEXT = "The quick brown fox jumps over the lazy dog."
Origin = Literal["config", "saved"]


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Embedding model of the server; of the key, only whether there is one."""

    origin: Origin | None
    """`config`: from config.yaml, which wins; None: there is no model."""
    provider: str | None
    base_url: str | None
    model: str | None
    has_key: bool
    can_change: bool
    is_local_installed: bool
    install_command: str = INSTALL_COMMAND


@dataclass(frozen=True, slots=True)
class EmbeddingCheck:
    """Result of a check: the embedding models of the endpoint, and the size of a vector of the tested one."""

    base_url: str
    models: Sequence[str] = ()
    tested: str | None = None
    dimensions: int | None = None
    problem: CheckProblem | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingConnection:
    """Embedding model of the server. Only administrators can change it."""

    connections: ModelConnections
    configured: Settings[EmbeddingConfig | None]
    """The model in `config.yaml`, which wins."""
    saved: Callable[[], EmbeddingConfig | None]
    """Returns the saved model with its key."""
    on_change: Callable[[], None]
    """Wakes the indexer."""

    def list_providers(self) -> list[ConnectionProvider]:
        """Return the providers with an OpenAI-compatible API."""
        return [each for each in self.connections.list_providers() if each.protocol == "openai"]

    def get(self, who: Principal) -> EmbeddingModel:
        """Return the embedding model in use."""
        configured = self.configured.current
        used = configured or self.saved()
        origin: Origin | None = "config" if configured else "saved" if used else None
        return EmbeddingModel(
            origin,
            used.provider if used else None,
            used.base_url if used and who.is_admin else None,
            LOCAL_MODELS.get(used.provider, used.model) if used else None,
            bool(used and used.api_key),
            who.is_admin and configured is None,
            find_minilm() is not None,
        )

    async def check(
        self, who: Principal, provider: str, base_url: str | None, key: str | None, model: str | None = None
    ) -> EmbeddingCheck:
        """List the models of an endpoint and embed a sentence with `model`, or the first that looks like one.

        Raises:
            Forbidden: The user is no administrator.
            InvalidRequest: The provider is unknown, or has no address.
        """
        require_admin(who)
        known = self._find_provider(provider)
        address = normalize_address(require_address(known, base_url))
        secret = clean_key(key) or await self._find_key(address)
        if problem := await self._find_refusal(known, address):
            return EmbeddingCheck(address, problem=problem)
        search = ApiSearch(known, secret, self.connections.limits.listing_s)
        listing = await search.find(address)
        models = rank_embedding_models(listing.models)
        tested = model or next(iter(models), None)
        if tested is None:
            found = listing.finding or FoundProblem("no_listing")
            return EmbeddingCheck(listing.base_url, models, problem=describe(known, address, found))
        return await self._test(known, search, EmbeddingCheck(listing.base_url, models, tested), secret)

    async def save(
        self, who: Principal, provider: str, base_url: str | None, key: str | None, model: str | None
    ) -> EmbeddingModel:
        """Save the embedding model; passages are embedded with it from now on.

        Raises:
            Forbidden: The user is no administrator.
            Conflict: `config.yaml` has an embedding model, or the package of the local one is missing.
            InvalidRequest: The provider is unknown, the address invalid or not allowed, or no model is given.
        """
        self._require_change(who)
        if provider == MINILM:
            if find_minilm() is None:
                raise Conflict(f"the model on this machine is not installed; run {INSTALL_COMMAND}")
            await self._store(MINILM, "", None, MINILM)
            return self.get(who)
        known = self._find_provider(provider)
        address = normalize_address(require_address(known, base_url))
        await check_host_if_known(self.connections.resolve, address)
        if not model or not model.strip() or len(model) > 255 or not model.isprintable():
            raise InvalidRequest("choose an embedding model")
        secret = clean_key(key) or await self._find_key(address)
        sealed = None
        if secret is not None:
            data = rows.associated_data(EMBEDDING_OWNER, address)
            sealed = await asyncio.to_thread(self.connections.cipher.encrypt, secret.encode(), data)
        await self._store(known.id, address, sealed, model.strip())
        return self.get(who)

    async def remove(self, who: Principal) -> EmbeddingModel:
        """Remove the saved embedding model with its key; passages are then found by their words only."""
        self._require_change(who)
        await self.connections.database.write(partial(rows.delete_owner, owner=EMBEDDING_OWNER))
        await self.connections.publish()
        return self.get(who)

    async def _test(
        self, provider: ConnectionProvider, search: ApiSearch, check: EmbeddingCheck, key: str | None
    ) -> EmbeddingCheck:
        limit_s = self.connections.limits.test_s
        tested = check.tested or ""
        settings = EmbeddingConfig(base_url=check.base_url, model=tested, api_key=key, timeout_seconds=limit_s)
        embedder = create_embedder(settings)
        vectors = await run_step(embedder.embed([TEST_TEXT]), limit_s)
        await embedder.aclose()
        if not isinstance(vectors, BaseException):
            return EmbeddingCheck(check.base_url, check.models, tested, len(vectors[0]))
        found = FoundProblem(classify_error(vectors), search.redact(str(vectors) or type(vectors).__name__))
        problem = describe(provider, check.base_url, found, tested)
        return EmbeddingCheck(check.base_url, check.models, tested, problem=problem)

    async def _store(self, provider: str, address: str, sealed: bytes | None, model: str) -> None:
        now = datetime.now(UTC)
        row = rows.SavedModelRow(model, model, {})
        save = partial(rows.save_connection, owner=EMBEDDING_OWNER, provider=provider, base_url=address)
        replace_all = partial(rows.replace_owner, save=partial(save, sealed=sealed, added=[row], now=now))
        await self.connections.database.write(partial(replace_all, owner=EMBEDDING_OWNER))
        await self.connections.publish()
        self.on_change()

    async def _find_key(self, address: str) -> str | None:
        for row in await self.connections.database.read(partial(rows.list_connections, owner=EMBEDDING_OWNER)):
            if row.base_url == address:
                return await asyncio.to_thread(rows.decrypt_key, self.connections.cipher, row)
        return None

    async def _find_refusal(self, provider: ConnectionProvider, address: str) -> CheckProblem | None:
        try:
            async with asyncio.timeout(self.connections.limits.listing_s):
                await check_host(self.connections.resolve, urlsplit(address).hostname or "", allows_private=True)
        except AddressRefused as refused:
            return describe(provider, address, FoundProblem("blocked_address", str(refused)))
        except TimeoutError:
            return describe(provider, address, FoundProblem("timeout"))
        except OSError as failure:
            return describe(provider, address, FoundProblem("dns", str(failure)))
        return None

    def _find_provider(self, name: str) -> ConnectionProvider:
        for provider in self.list_providers():
            if provider.id == name:
                return provider
        raise InvalidRequest(f"unknown provider of embedding models {name!r}")

    def _require_change(self, who: Principal) -> None:
        require_admin(who)
        if self.configured.current is not None:
            raise Conflict("config.yaml has an embedding model, which is used; change it there")


def require_admin(who: Principal) -> None:
    """Raise `Forbidden` unless the user is an administrator."""
    if not who.is_admin:
        raise Forbidden("only an administrator can change the embedding model")


async def check_host_if_known(resolve: Callable[[str], Awaitable[Sequence[str]]], address: str) -> None:
    """Refuse addresses at which no models may be; a name that is unknown now may be known later."""
    try:
        await check_host(resolve, urlsplit(address).hostname or "", allows_private=True)
    except AddressRefused:
        raise
    except OSError:
        return


def rank_embedding_models(names: Sequence[str]) -> list[str]:
    """Return the models whose names say that they embed text; all if there is none."""
    unique = list(dict.fromkeys(names))
    return [name for name in unique if EMBEDDING_NAME.search(name)] or unique


def describe(provider: ConnectionProvider, address: str, found: FoundProblem, model: str = "") -> CheckProblem:
    """Return a problem with its texts."""
    host = provider.title if address == provider.base_url else urlsplit(address).netloc
    return make_problem(found.code, host=host, model=model, command="", detail=found.detail)
