"""Chat models from their entries in the configuration."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from pydantic import AliasChoices, ValidationError

from deerflow.config.imports import load_class
from deerflow.config.models import ModelConfig
from deerflow.domain.errors import ConfigError, NotFound
from deerflow.models.thinking import deep_merge, settings_for

logger = logging.getLogger(__name__)

ENTRY = "deerflow_model"
"""Where a model's metadata say which entry of the configuration it was made from."""


def create_chat_model(
    config: ModelConfig,
    *,
    thinking_enabled: bool = False,
    reasoning_effort: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> BaseChatModel:
    """The model an entry describes.

    Raises:
        ConfigError: The entry names no chat model, or a setting that the class does not take; or thinking is asked
            of a model that has none.
        InvalidRequest: There is no such reasoning effort.
    """
    try:
        chat_model = load_class(config.use, BaseChatModel)  # type: ignore[type-abstract]  # nothing abstract is created
    except ConfigError as error:
        raise ConfigError(f"model {config.name!r}: use: {error}") from error
    settings = settings_for(config, thinking_enabled=thinking_enabled, reasoning_effort=reasoning_effort)
    settings = _named_for(chat_model, deep_merge(settings, overrides or {}))
    _refuse_unknown(config, chat_model, settings)
    return _build(config, chat_model, settings)


class ModelCatalog:
    """The configured models by name; the first is the default. Each way of using one is built once."""

    def __init__(self, models: Sequence[ModelConfig]) -> None:
        self._configs = {config.name: config for config in models}
        if len(self._configs) < len(models):
            raise ConfigError(f"two models have the same name: {sorted(config.name for config in models)}")
        self._built: dict[tuple[str, bool, str | None], BaseChatModel] = {}

    @property
    def models(self) -> list[ModelConfig]:
        return list(self._configs.values())

    @property
    def default(self) -> ModelConfig:
        if not self._configs:
            raise ConfigError("no model is configured; add one under models:")
        return next(iter(self._configs.values()))

    def find(self, name: str) -> ModelConfig:
        """The entry called `name`.

        Raises:
            NotFound: There is none; the text gives similar names.
        """
        try:
            return self._configs[name]
        except KeyError:
            near = get_close_matches(name, self._configs, n=3) or list(self._configs)
            raise NotFound(f"no model is called {name!r}; there is {', '.join(near) or 'none'}") from None

    def resolve(self, name: str | None) -> ModelConfig:
        """The entry called `name`, or the default when there is none."""
        if name is None:
            return self.default
        try:
            return self.find(name)
        except NotFound as error:
            logger.warning("%s; the default %r is used", error, self.default.name)
            return self.default

    def create(
        self, name: str | None = None, *, thinking_enabled: bool = False, reasoning_effort: str | None = None
    ) -> BaseChatModel:
        """The model called `name`, or the default; one that cannot think is used as it is."""
        config = self.resolve(name)
        key = (config.name, thinking_enabled, reasoning_effort)
        if key not in self._built:
            if thinking_enabled and not config.supports_thinking:
                logger.warning("model %r cannot think; it is used without", config.name)
                thinking_enabled = False
            self._built[key] = create_chat_model(
                config, thinking_enabled=thinking_enabled, reasoning_effort=reasoning_effort
            )
        return self._built[key]

    async def aclose(self) -> None:
        """Close the connections of the models that were built."""
        built, self._built = self._built, {}
        for model in built.values():
            if isinstance(model, _Closable):
                await model.aclose()


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


def _build(config: ModelConfig, chat_model: type[BaseChatModel], settings: dict[str, Any]) -> BaseChatModel:
    try:
        model = chat_model(**{"model": config.model, **settings})
    except ValidationError as error:
        # Values stay out of the text: one of them may be a key.
        problems = [f"{'.'.join(map(str, each['loc'])) or config.use}: {each['msg']}" for each in error.errors()]
        raise ConfigError(f"model {config.name!r}: {'; '.join(problems)}") from None
    except Exception as error:  # the class is the vendor's and may raise anything
        raise ConfigError(f"model {config.name!r}: {config.use} cannot be set up: {error}") from error
    model.metadata = {**(model.metadata or {}), ENTRY: config.name}
    if config.context_window is not None:
        model.profile = {**(model.profile or {}), "max_input_tokens": config.context_window}
    return model


def _named_for(chat_model: type[BaseChatModel], settings: dict[str, Any]) -> dict[str, Any]:
    """The address under the name the class gives it: `api_base` and `base_url` are the same to the user."""
    known = _settings_of(chat_model)
    for given, other in (("api_base", "base_url"), ("base_url", "api_base")):
        if given in settings and given not in known and other in known:
            settings[other] = settings.pop(given)
    return settings


def _refuse_unknown(config: ModelConfig, chat_model: type[BaseChatModel], settings: Mapping[str, Any]) -> None:
    """Many classes swallow unknown settings, or send them to a vendor who refuses them: say it here."""
    known = _settings_of(chat_model)
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


def _settings_of(chat_model: type[BaseChatModel]) -> set[str]:
    names = {
        name for name in inspect.signature(chat_model.__init__).parameters if name not in ("self", "args", "kwargs")
    }
    for name, field in chat_model.model_fields.items():
        names.add(name)
        alias = field.validation_alias or field.alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        names |= {choice for choice in choices if isinstance(choice, str)}
    return names
