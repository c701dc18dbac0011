"""`models:` — the chat models."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)

from deerflow.config.loader.document import KeyPath, measure_similarity
from deerflow.config.sections.base import Section, check_object_path, make_validation_error


def to_decimal(value: object) -> object:
    """Return a number as a decimal with the digits it was written with; a float would have more."""
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


Price = Annotated[Decimal, BeforeValidator(to_decimal), Field(ge=0, max_digits=12, decimal_places=6)]


class PricingConfig(Section):
    """Price per million tokens."""

    currency: str = Field(default="USD", pattern=r"^[A-Z]{3,8}$", description="Currency code, such as USD or CNY.")
    input: Price = Field(description="Input tokens.")
    output: Price = Field(description="Output tokens.")
    cached_input: Price | None = Field(default=None, description="Cached input tokens; default: `input`.")
    cache_write: Price | None = Field(default=None, description="Tokens written to the cache; default: `input`.")
    reasoning: Price | None = Field(default=None, description="Reasoning tokens; default: `output`.")


class ModelConfig(Section):
    """An entry of `models:`. Keys that are not listed here are passed to the model class."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, description="Unique name of the model in requests and on the page.")
    use: str = Field(description='Chat model class, as "module:Class".')
    model: str = Field(min_length=1, description="The provider's name of the model.")
    native: bool | None = Field(
        default=None,
        description="Use DeerFlow's client in place of `langchain_openai:ChatOpenAI`; default: true if it supports "
        "all settings and the address is not that of OpenAI.",
    )
    display_name: str | None = Field(default=None, description="Displayed name; default: `name`.")
    description: str | None = Field(default=None, description="Short description for the model picker.")
    supports_thinking: bool = Field(default=False, description="True if the model can reason before it answers.")
    supports_reasoning_effort: bool = Field(default=False, description="True if the model supports `reasoning_effort`.")
    supports_vision: bool = Field(default=False, description="True if the model accepts images.")
    fallback: tuple[str, ...] = Field(
        default=(), strict=False, description="Models to fall back to, in order, when this one fails."
    )
    context_window: int | None = Field(default=None, gt=0, description="Context window in tokens.")
    pricing: PricingConfig | None = Field(
        default=None, description="Price per million tokens; without it, costs are unknown."
    )
    thinking: dict[str, Any] | None = Field(
        default=None, description="Short for `when_thinking_enabled: {thinking: …}`."
    )
    when_thinking_enabled: dict[str, Any] | None = Field(
        default=None, description="Settings added when thinking is on."
    )
    when_thinking_disabled: dict[str, Any] | None = Field(
        default=None, description="Settings added when thinking is off."
    )

    @property
    def provider_settings(self) -> dict[str, Any]:
        """Return the settings that are passed to the model class besides `model`."""
        return dict(self.model_extra or {})

    @model_validator(mode="wrap")
    @classmethod
    def _reject_near_misses(cls, data: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Reject `suports_vision`: as a provider setting it would be noticed only much later."""
        meant = find_near_misses(data) if isinstance(data, Mapping) else {}
        messages: dict[KeyPath, str] = {(key,): f"unknown key; did you mean {name!r}?" for key, name in meant.items()}
        try:
            entry = validate(data)
        except ValidationError as error:
            absent = {(name,) for name in meant.values()}
            others = [each for each in error.errors(include_url=False) if each["loc"] not in absent]
            raise make_validation_error(cls.__name__, messages, others) from None
        if messages:
            raise make_validation_error(cls.__name__, messages)
        return entry

    @field_validator("use")
    @classmethod
    def _check_class_path(cls, use: str) -> str:
        return check_object_path(use, "module:Class", "langchain_openai:ChatOpenAI")


def find_near_misses(data: Mapping[str, object]) -> dict[str, str]:
    """Return the keys that are probably misspelled fields, each with the absent field it resembles."""
    absent = {name: field for name, field in ModelConfig.model_fields.items() if name not in data}
    return {
        key: name
        for key in map(str, data)
        if key not in ModelConfig.model_fields
        for name, field in absent.items()
        # A required field that is absent was certainly intended, so the guess may be bolder.
        if measure_similarity(key, name) >= (0.75 if field.is_required() else 0.85)
    }
