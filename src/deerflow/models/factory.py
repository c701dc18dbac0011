"""Construction of chat models from their configuration entries."""

import inspect
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import AliasChoices, ValidationError

from deerflow.config.imports import load_class
from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import ConfigError, InvalidRequest, ModelUnavailable, NotFound
from deerflow.models.openai_compatible.tool_calls import join_argument_chunks
from deerflow.models.openai_compatible.vendors import limit_responses

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def build_settings(config: ModelConfig, *, thinking_enabled: bool, reasoning_effort: str | None) -> dict[str, Any]:
    """Return the settings that are passed to the model class besides `model`.

    Raises:
        ConfigError: Thinking is requested from a model that does not support it.
        InvalidRequest: The reasoning effort does not exist.
    """
    if thinking_enabled and not config.supports_thinking:
        raise ConfigError(f"model {config.name!r} does not support thinking; set supports_thinking: true if it does")
    if reasoning_effort is not None and reasoning_effort not in REASONING_EFFORTS:
        raise InvalidRequest(
            f"reasoning effort must be one of {', '.join(REASONING_EFFORTS)}, not {reasoning_effort!r}"
        )
    settings = config.provider_settings
    if reasoning_effort is not None and config.supports_reasoning_effort:
        settings["reasoning_effort"] = reasoning_effort
    change = _get_enabled_settings(config) if thinking_enabled else _get_disabled_settings(config)
    return deep_merge(settings, change)


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings merged recursively; values of `above` win."""
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = deep_merge(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def _get_enabled_settings(config: ModelConfig) -> dict[str, Any]:
    shortcut = {"thinking": config.thinking} if config.thinking else {}
    return deep_merge(config.when_thinking_enabled or {}, shortcut)


def _get_disabled_settings(config: ModelConfig) -> dict[str, Any]:
    """Return the configured settings, else the opposite of those for thinking, in the formats that vendors use."""
    if config.when_thinking_disabled is not None:
        return config.when_thinking_disabled
    enabled = _get_enabled_settings(config)
    body = enabled.get("extra_body", {})
    if "type" in body.get("thinking", {}):
        off: dict[str, Any] = {"extra_body": {"thinking": {"type": "disabled"}}}
        return off | {"reasoning_effort": "minimal"} if config.supports_reasoning_effort else off
    if switches := {"thinking", "enable_thinking"} & body.get("chat_template_kwargs", {}).keys():
        return {"extra_body": {"chat_template_kwargs": dict.fromkeys(sorted(switches), False)}}
    if "enable_thinking" in body:
        return {"extra_body": {"enable_thinking": False}}
    if "type" in enabled.get("thinking", {}):
        return {"thinking": {"type": "disabled"}}
    return {}


logger = logging.getLogger(__name__)

ENTRY_KEY = "deerflow_model"
"""The metadata key with the name of the configuration entry."""


CHAT_OPENAI = "langchain_openai:ChatOpenAI"


@dataclass(frozen=True, slots=True)
class ModelClass:
    """The class of a model and its settings; `note` explains the choice where there was one."""

    chat_model: "type[BaseChatModel]"
    settings: Mapping[str, Any]
    note: str | None = None


def create_chat_model(
    config: ModelConfig,
    *,
    thinking_enabled: bool = False,
    reasoning_effort: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> "BaseChatModel":
    """Return the chat model for a configuration entry.

    Raises:
        ConfigError: `use` is not a chat model, a setting is unknown to the class, or thinking is requested from a model
            that does not support it.
        InvalidRequest: The reasoning effort does not exist.
    """
    settings = build_settings(config, thinking_enabled=thinking_enabled, reasoning_effort=reasoning_effort)
    model, _ = _create(config, deep_merge(settings, overrides or {}))
    return model


def choose_class(config: ModelConfig, settings: Mapping[str, Any]) -> ModelClass:
    """Return the class for an entry: `use`, or our client in place of `ChatOpenAI` where it does the same.

    Raises:
        ConfigError: `use` is not a chat model, or `native: true` is not possible.
    """
    reason = None
    if config.use == CHAT_OPENAI and config.native is not False:
        from deerflow.models.openai_compatible import client

        if unsupported := client.find_unsupported_setting(settings):
            reason = f"DeerFlow's client does not support {unsupported}"
        elif not config.native:
            reason = client.find_need_of_chat_openai(config.model, settings)
        if reason is None:
            replaced = f"DeerFlow's client replaces {CHAT_OPENAI}; native: false keeps that class"
            return ModelClass(client.OpenAICompatibleChatModel, client.translate_settings(settings), replaced)
    elif config.native and not config.use.startswith(OWN_CLASSES):
        reason = f"it is for {CHAT_OPENAI} only"
    if config.native and reason is not None:
        raise ConfigError(f"native: true is not possible: {reason}")
    from langchain_core.language_models import BaseChatModel

    named = load_class(config.use, BaseChatModel)  # type: ignore[type-abstract]  # nothing abstract is created
    note = None if reason is None else f"{CHAT_OPENAI} is used as it is: {reason}"
    return ModelClass(named, _rename_url_setting(named, dict(settings)), note)


class ModelCatalog:
    """The configured models by name; the first is the default. Each variant of a model is built once."""

    def __init__(self, models: Sequence[ModelConfig]) -> None:
        self._configs = {config.name: config for config in models}
        if len(self._configs) < len(models):
            raise ConfigError(f"two models have the same name: {sorted(config.name for config in models)}")
        self._built: dict[tuple[str, bool, str | None], BaseChatModel] = {}
        self._explained: set[str] = set()  # entries whose class was logged

    @property
    def models(self) -> list[ModelConfig]:
        return list(self._configs.values())

    @property
    def default(self) -> ModelConfig:
        if not self._configs:
            raise ConfigError("no model is configured; add one under models:")
        return next(iter(self._configs.values()))

    def find(self, name: str) -> ModelConfig:
        """Return the entry with this name.

        Raises:
            NotFound: It does not exist; the text lists similar names.
        """
        try:
            return self._configs[name]
        except KeyError:
            near = get_close_matches(name, self._configs, n=3) or list(self._configs)
            raise NotFound(f"there is no model {name!r}; available: {', '.join(near) or 'none'}") from None

    def resolve(self, name: str | None) -> ModelConfig:
        """Return the entry with this name, or the default when it does not exist."""
        if name is None:
            return self.default
        try:
            return self.find(name)
        except NotFound as error:
            logger.warning("%s; using the default %r", error, self.default.name)
            return self.default

    def create(
        self, name: str | None = None, *, thinking_enabled: bool = False, reasoning_effort: str | None = None
    ) -> "BaseChatModel":
        """Return the model with this name, or the default; `thinking_enabled` is ignored if it is not supported."""
        config = self.resolve(name)
        key = (config.name, thinking_enabled, reasoning_effort)
        if (built := self._built.get(key)) is not None:
            return built
        if thinking_enabled and not config.supports_thinking:
            logger.warning("model %r does not support thinking; using it without", config.name)
            thinking_enabled = False
        settings = build_settings(config, thinking_enabled=thinking_enabled, reasoning_effort=reasoning_effort)
        model, note = _create(config, settings)
        if note is not None and config.name not in self._explained:
            self._explained.add(config.name)
            logger.info("model %r: %s", config.name, note)
        # Threads may build it at the same time. All use the first one, because only that one is closed.
        return self._built.setdefault(key, model)

    def is_built(self, name: str | None) -> bool:
        """Return whether the model with this name, or the default, was created before, without thinking."""
        return (name or next(iter(self._configs), ""), False, None) in self._built

    async def aclose(self) -> None:
        """Close the connections of the models that were built."""
        built, self._built = self._built, {}
        for model in built.values():
            if isinstance(model, _Closable):
                await model.aclose()
            for client in find_own_clients(model):
                await client.close()


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


def _create(config: ModelConfig, settings: Mapping[str, Any]) -> "tuple[BaseChatModel, str | None]":
    """Return the model and the note about its class."""
    try:
        chosen = choose_class(config, settings)
    except ConfigError as error:
        raise ConfigError(f"model {config.name!r}: use: {error}") from error
    _reject_unknown(config, chosen.chat_model, chosen.settings)
    return _build(config, chosen.chat_model, chosen.settings), chosen.note


def _build(config: ModelConfig, chat_model: "type[BaseChatModel]", settings: Mapping[str, Any]) -> "BaseChatModel":
    try:
        model = name_errors(chat_model)(**{"model": config.model, **separate_client(chat_model, settings)})
    except ValidationError as error:
        # Values are left out of the text: one of them may be a key.
        problems = [f"{'.'.join(map(str, each['loc'])) or config.use}: {each['msg']}" for each in error.errors()]
        raise ConfigError(f"model {config.name!r}: {'; '.join(problems)}") from None
    except Exception as error:  # the class is the vendor's and may raise anything
        raise ConfigError(f"model {config.name!r}: cannot create {config.use}: {error}") from error
    model.metadata = {**(model.metadata or {}), ENTRY_KEY: config.name}
    if config.context_window is not None:
        model.profile = {**(model.profile or {}), "max_input_tokens": config.context_window}
    limit_responses(model)
    return model


def separate_client(chat_model: "type[BaseChatModel]", settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for which `langchain_openai` creates an HTTP client for this model alone.

    It shares the clients of all models with the same URL and timeout, and a client works on one event loop only. A
    timeout as an object is not hashable, so such a client is not shared. Classes that are derived from it and create
    their clients themselves do not share them.
    """
    separated = dict(settings)
    creator = getattr(chat_model, "validate_environment", None)
    if getattr(creator, "__module__", None) == SHARING_MODULE and "http_async_client" not in settings:
        import openai  # its Timeout is that of the HTTP library which the SDK uses

        timeout = separated.pop("request_timeout", separated.get("timeout"))
        separated["timeout"] = openai.Timeout(tuple(timeout) if isinstance(timeout, list) else timeout)
    return separated


def find_own_clients(model: "BaseChatModel") -> Iterator[Any]:
    """Yield the SDK clients of a model that were created for it alone."""
    if getattr(model, "http_async_client", None) is None or getattr(model, "openai_proxy", None):
        attributes = vars(model) | (model.__pydantic_private__ or {})
        sdks = (attributes.get("root_async_client"), attributes.get(SDK_CLIENT))
        yield from (sdk for sdk in sdks if sdk is not None)


def _rename_url_setting(chat_model: "type[BaseChatModel]", settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with the base URL under the name that the class uses: `api_base` or `base_url`."""
    known = _list_settings(chat_model)
    for given, other in (("api_base", "base_url"), ("base_url", "api_base")):
        if given in settings and given not in known and other in known:
            settings[other] = settings.pop(given)
    return settings


def _reject_unknown(config: ModelConfig, chat_model: "type[BaseChatModel]", settings: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for unknown settings, which many classes ignore or send to the vendor."""
    known = _list_settings(chat_model)
    unknown = sorted(settings.keys() - known)
    if not unknown or chat_model.model_config.get("extra") == "allow":
        return
    near = get_close_matches(unknown[0], known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if not near and "model_kwargs" in known:
        hint = "; parameters of the request itself go under model_kwargs"
    elif not near and "extra_body" in known:
        hint = "; parameters of the request itself go under extra_body"
    raise ConfigError(f"model {config.name!r}: {config.use} has no setting {unknown[0]!r}{hint}")


def _list_settings(chat_model: "type[BaseChatModel]") -> set[str]:
    names = {
        name for name in inspect.signature(chat_model.__init__).parameters if name not in ("self", "args", "kwargs")
    }
    for name, field in chat_model.model_fields.items():
        names.add(name)
        alias = field.validation_alias or field.alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        names |= {choice for choice in choices if isinstance(choice, str)}
    return names


OWN_CLASSES = "deerflow."
SHARING_MODULE = "langchain_openai.chat_models.base"
"""Module whose classes share HTTP clients."""
SDK_CLIENT = "_async_client"
"""Client of the SDK in classes of Anthropic and Ollama; the former create it on first use and share it."""
PARSE_ERRORS = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, RecursionError, AssertionError)
"""Errors of client libraries for responses in a format that they do not expect."""


@cache  # building a pydantic class takes milliseconds
def name_errors(chat_model: "type[BaseChatModel]") -> "type[BaseChatModel]":
    """Return a subclass of a vendor's class that raises `ModelUnavailable` where it cannot read a response.

    Our own classes raise named errors themselves.
    """
    if chat_model.__module__.startswith(OWN_CLASSES):
        return chat_model

    class NamedErrors(chat_model):  # type: ignore[valid-type, misc]
        def invoke(self, *args: Any, **kwargs: Any) -> Any:
            with _translate_parse_errors(chat_model):
                return check_answer(super().invoke(*args, **kwargs))

        async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
            with _translate_parse_errors(chat_model):
                return check_answer(await super().ainvoke(*args, **kwargs))

        def stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with _translate_parse_errors(chat_model), closing(super().stream(*args, **kwargs)) as chunks:
                yield from chunks

        async def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with _translate_parse_errors(chat_model):
                async with aclosing(super().astream(*args, **kwargs)) as chunks:
                    async for chunk in chunks:
                        yield chunk

        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            async with aclosing(super()._astream(*args, **kwargs)) as chunks:
                async for chunk in join_argument_chunks(chunks):
                    yield chunk

    shares_client = isinstance(getattr(chat_model, SDK_CLIENT, None), cached_property)
    named: type[BaseChatModel] = give_own_client(NamedErrors) if shares_client else NamedErrors
    # Traces and stored messages name the class by these.
    named.__name__, named.__qualname__ = chat_model.__name__, chat_model.__qualname__
    named.__module__, named.__doc__ = chat_model.__module__, chat_model.__doc__
    return named


def give_own_client(chat_model: "type[BaseChatModel]") -> "type[BaseChatModel]":
    """Return a subclass whose models do not share the HTTP client of their SDK, as `langchain_anthropic` does."""

    class OwnClient(chat_model):  # type: ignore[valid-type, misc]
        @cached_property
        def _async_client(self) -> Any:
            sdk = super()._async_client
            shared, proxy = sdk._client, getattr(self, "anthropic_proxy", None)
            return sdk.copy(http_client=type(shared)(base_url=shared.base_url, timeout=shared.timeout, proxy=proxy))

    return OwnClient


@contextmanager
def _translate_parse_errors(chat_model: "type[BaseChatModel]") -> Iterator[None]:
    try:
        yield
    except PARSE_ERRORS as error:
        name = chat_model.__name__
        logger.warning("%s cannot read a response", name, exc_info=error)
        raise ModelUnavailable(f"{name} cannot read the response: {type(error).__name__}: {error}") from error


def check_answer(message: BaseMessage) -> AIMessage:
    """Return the message of a model; some classes return others for a role they do not know."""
    if not isinstance(message, AIMessage):
        raise TypeError(f"it is a message of the role {getattr(message, 'role', message.type)!r}")
    return message
