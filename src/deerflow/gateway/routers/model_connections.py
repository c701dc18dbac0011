"""Connections to model providers: /model-providers and /model-connections."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.types import JsonValue

from deerflow.gateway.dependencies import CurrentUser, HarnessDep, get_credential
from deerflow.gateway.errors import declared_errors
from deerflow.gateway.examples import CONNECTED_MODEL, MODEL_ADDRESS, with_examples
from deerflow.models.check import CheckReport
from deerflow.models.check_problems import ProblemCode, Severity
from deerflow.models.connection import ConnectionProvider, ObservedCapabilities
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.services.audit import audited
from deerflow.services.model_connections import KeyState, ModelToSave
from deerflow.services.model_connections import ModelConnection as Saved

router = APIRouter(tags=["models"], responses=declared_errors((403, 404, 409, 422)))

ENDPOINT_EXAMPLE: dict[str, JsonValue] = {"provider": "custom", "base_url": MODEL_ADDRESS, "key": "sk-0123456789"}
Name = Annotated[str, Field(min_length=1, max_length=255)]
Address = Annotated[str | None, Field(max_length=500, description="Address of the API; default: the provider's.")]
Key = Annotated[SecretStr | None, Field(max_length=4096, description="API key; it is never returned.")]


class FromDomain(BaseModel):
    """Response that is built from a domain object."""

    model_config = ConfigDict(from_attributes=True)


class ModelProvider(FromDomain):
    """Provider that can be connected."""

    id: str
    title: str
    base_url: str | None
    """Null: the user enters the address."""
    key_url: str | None
    """Page on which keys are created."""
    key_prefixes: list[str]
    """Beginnings of keys that only this provider has."""
    install_command: str | None
    """Command that installs a missing package. Null if nothing is missing."""

    @classmethod
    def from_domain(cls, provider: ConnectionProvider) -> "ModelProvider":
        return cls.model_validate(provider)


class LocalModelServer(FromDomain):
    """Model server that was found on this machine."""

    provider: str
    title: str
    base_url: str
    model_count: int


class ModelProviders(BaseModel):
    """Providers, and the model servers on this machine."""

    providers: list[ModelProvider]
    local: list[LocalModelServer]


class CheckModelConnection(BaseModel):
    """Endpoint to check."""

    model_config = ConfigDict(json_schema_extra=with_examples({**ENDPOINT_EXAMPLE, "model": CONNECTED_MODEL}))

    provider: Name
    base_url: Address = None
    key: Key = None
    model: Annotated[Name | None, Field(description="Model to test; default: the best of the list.")] = None


class CheckSavedConnection(BaseModel):
    """Model of a saved connection to test."""

    model_config = ConfigDict(json_schema_extra=with_examples({"model": CONNECTED_MODEL}))

    model: Name | None = None


class CheckAttempt(FromDomain):
    """Request that was sent to find the API, and its HTTP status or problem."""

    url: str
    outcome: str


class ModelPrices(BaseModel):
    """Price per million tokens in US dollars."""

    input: float
    output: float


class CheckedModel(BaseModel):
    """Model of an endpoint. Capabilities are null if they are unknown."""

    model: str
    display_name: str | None
    context_window: int | None
    tools: bool | None
    reasoning: bool | None
    vision: bool | None
    prices: ModelPrices | None
    is_recommended: bool


class Observed(FromDomain):
    """Results of the test of one model; null where it was not tested."""

    answer: bool | None = None
    streaming: bool | None = None
    tools: bool | None = None
    usage: bool | None = None
    reasoning: bool | None = None


class ProblemValues(BaseModel):
    """Parts of the sentences, for translations; empty where they are not mentioned."""

    host: str
    model: str
    command: str


class ModelProblem(FromDomain):
    """Problem of an endpoint or a model, with a remedy."""

    code: ProblemCode
    severity: Severity
    message: str
    remedy: str
    detail: str | None
    """Answer of the provider."""
    values: ProblemValues


class ModelCheck(BaseModel):
    """Result of a check. `base_url` is the address as it is saved."""

    works: bool
    base_url: str
    attempts: list[CheckAttempt]
    models: list[CheckedModel]
    tested: str | None
    observed: Observed
    problems: list[ModelProblem]
    seconds: float

    @classmethod
    def from_domain(cls, report: CheckReport) -> "ModelCheck":
        models = [
            CheckedModel(
                model=each.model,
                display_name=each.facts.display_name,
                context_window=each.facts.context_window,
                tools=each.facts.tools,
                reasoning=each.facts.reasoning,
                vision=each.facts.vision,
                prices=ModelPrices.model_validate(each.facts.pricing) if each.facts.pricing else None,
                is_recommended=each.is_recommended,
            )
            for each in report.models
        ]
        return cls(
            works=report.works,
            base_url=report.base_url,
            attempts=[CheckAttempt.model_validate(each) for each in report.attempts],
            models=models,
            tested=report.tested,
            observed=Observed.model_validate(report.observed),
            problems=[ModelProblem.model_validate(each) for each in report.problems],
            seconds=report.seconds,
        )


class ChosenModel(BaseModel):
    """Model to save, with the results of its test."""

    model: Name
    observed: Observed = Observed()

    def to_domain(self) -> ModelToSave:
        return ModelToSave(self.model, ObservedCapabilities(**self.observed.model_dump()))


class SaveModelConnection(BaseModel):
    """Models of a provider to save."""

    model_config = ConfigDict(
        json_schema_extra=with_examples({**ENDPOINT_EXAMPLE, "models": [{"model": CONNECTED_MODEL}]})
    )

    provider: Name
    base_url: Address = None
    key: Key = None
    models: Annotated[list[ChosenModel], Field(min_length=1, max_length=100)]


class ReplaceModelKey(BaseModel):
    """New key of a connection."""

    model_config = ConfigDict(json_schema_extra=with_examples({"key": "sk-0123456789"}))

    key: Annotated[SecretStr, Field(min_length=1, max_length=4096)]


class ShareModelConnection(BaseModel):
    """Whether all users may use the models of a connection."""

    model_config = ConfigDict(json_schema_extra=with_examples({"shared": True}))

    shared: bool


class SavedModelInfo(FromDomain):
    """Saved model."""

    name: str
    model: str
    display_name: str
    supports_tools: bool | None
    supports_thinking: bool
    supports_vision: bool
    context_window: int | None
    is_shadowed: bool
    """A model in `config.yaml` has the same name and is used instead."""


class ModelConnectionInfo(FromDomain):
    """Saved connection. Of the key, only its state is shown."""

    connection_id: str
    provider: str
    title: str
    base_url: str
    key: KeyState
    updated_at: datetime
    models: list[SavedModelInfo]
    is_shared: bool
    """All users may use the models."""
    is_own: bool
    """False: another user shares it. Its address is not shown."""
    can_share: bool = False
    """The current user can share it: an admin, on a server with login."""

    @classmethod
    def from_domain(cls, saved: Saved, *, can_share: bool) -> "ModelConnectionInfo":
        return cls.model_validate(saved).model_copy(update={"can_share": saved.is_own and can_share})


class ModelConnectionList(BaseModel):
    """Saved connections."""

    connections: list[ModelConnectionInfo]


async def may_share(request: Request, user: CurrentUser) -> bool:
    """Return whether the current user can share models. Without a login there are no other users."""
    return user.is_admin and get_credential(request) is not None


CanShare = Annotated[bool, Depends(may_share)]


@router.get("/model-providers", summary="List model providers")
async def list_model_providers(harness: HarnessDep, user: CurrentUser) -> ModelProviders:
    """List the providers that can be connected, and the model servers that answer on this machine."""
    service = harness.resources.model_connections
    local = await service.find_local_servers() if user.is_admin else []
    return ModelProviders(
        providers=[ModelProvider.from_domain(each) for each in service.list_providers()],
        local=[LocalModelServer.model_validate(each) for each in local],
    )


@router.post("/model-connections/check", summary="Check a model endpoint")
async def check_model_connection(body: CheckModelConnection, harness: HarnessDep, user: CurrentUser) -> ModelCheck:
    """List the models of an endpoint and test one: an answer, streaming, a tool call and token counts.

    Nothing is saved. Failures of the endpoint are in `problems`, each with a code.
    """
    report = await harness.resources.model_connections.check(
        user, body.provider, body.base_url, reveal(body.key), body.model
    )
    return ModelCheck.from_domain(report)


@router.get("/model-connections", summary="List saved model connections")
async def list_model_connections(harness: HarnessDep, user: CurrentUser, can_share: CanShare) -> ModelConnectionList:
    """List the saved connections of the current user with their models."""
    found = await harness.resources.model_connections.list(user)
    connections = [ModelConnectionInfo.from_domain(each, can_share=can_share) for each in found]
    return ModelConnectionList(connections=connections)


@router.post("/model-connections", summary="Save models of a provider")
async def save_model_connection(
    body: SaveModelConnection, harness: HarnessDep, user: CurrentUser, can_share: CanShare
) -> ModelConnectionInfo:
    """Save models of a provider; the next run can use them. The key is encrypted and never returned.

    Models that are saved for the same address stay. Without a key, the saved key of the address stays.
    """
    chosen = [each.to_domain() for each in body.models]
    service = audited(harness.resources.model_connections, describe_change(user, "save", body.provider))
    saved = await service.save(user, body.provider, body.base_url, reveal(body.key), chosen)
    return ModelConnectionInfo.from_domain(saved, can_share=can_share)


@router.post("/model-connections/{connection_id}/check", summary="Check a saved model connection")
async def check_saved_connection(
    connection_id: str, body: CheckSavedConnection, harness: HarnessDep, user: CurrentUser
) -> ModelCheck:
    """Check a saved connection with its saved key."""
    service = harness.resources.model_connections
    return ModelCheck.from_domain(await service.check_saved(user, connection_id, body.model))


@router.put("/model-connections/{connection_id}/key", summary="Replace the key of a model connection")
async def replace_model_key(
    connection_id: str, body: ReplaceModelKey, harness: HarnessDep, user: CurrentUser, can_share: CanShare
) -> ModelConnectionInfo:
    """Replace the key of a saved connection."""
    service = audited(harness.resources.model_connections, describe_change(user, "replace_key", connection_id))
    changed = await service.replace_key(user, connection_id, body.key.get_secret_value())
    return ModelConnectionInfo.from_domain(changed, can_share=can_share)


@router.put("/model-connections/{connection_id}/shared", summary="Share a model connection")
async def share_model_connection(
    connection_id: str, body: ShareModelConnection, harness: HarnessDep, user: CurrentUser, can_share: CanShare
) -> ModelConnectionInfo:
    """Let all users use the models of a saved connection, or no longer. They see neither key nor address."""
    action = "share" if body.shared else "unshare"
    service = audited(harness.resources.model_connections, describe_change(user, action, connection_id))
    shared = await service.share(user, connection_id, body.shared)
    return ModelConnectionInfo.from_domain(shared, can_share=can_share)


@router.delete("/model-connections/{connection_id}", status_code=204, summary="Remove a model connection")
async def remove_model_connection(connection_id: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Remove a connection with its key and models. Runs in progress keep what they began with."""
    service = audited(harness.resources.model_connections, describe_change(user, "remove", connection_id))
    await service.remove(user, connection_id)


@router.delete("/saved-models/{name:path}", status_code=204, summary="Remove a saved model")
async def remove_saved_model(name: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Remove a saved model; the last one of a connection removes the connection with its key."""
    service = audited(harness.resources.model_connections, describe_change(user, "remove_model", name))
    await service.remove_model(user, name)


def describe_change(user: CurrentUser, action: str, name: str) -> AuditEvent:
    """Return the event of a change of connections or models."""
    return AuditEvent("configuration.model", user.user_id, user.user_id, details={"action": action, "name": name})


def reveal(key: SecretStr | None) -> str | None:
    """Return the text of a key."""
    return key.get_secret_value() if key is not None else None
