"""`models:` — the chat models a user can pick."""

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

from deerflow.config.reading.likeness import likeness
from deerflow.config.reading.problems import KeyPath
from deerflow.config.section import Section, object_path, refusal


def as_written(value: object) -> object:
    """A number in the digits it was written with, of which a float has more."""
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


Price = Annotated[Decimal, BeforeValidator(as_written), Field(ge=0, max_digits=12, decimal_places=6)]


class PricingConfig(Section):
    """What a million tokens cost."""

    currency: str = Field(default="USD", pattern=r"^[A-Z]{3,8}$", description="The currency, as USD or CNY.")
    input: Price = Field(description="What is sent to the model.")
    output: Price = Field(description="What the model says.")
    cached_input: Price | None = Field(default=None, description="What it has read before; as `input` when absent.")
    cache_write: Price | None = Field(default=None, description="What it is to remember; as `input` when absent.")
    reasoning: Price | None = Field(default=None, description="What it thinks; as `output` when absent.")


class ModelConfig(Section):
    """One entry of `models:`. Keys that are not listed here go to the model class as they are."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, description="How the model is called in requests and in the page.")
    use: str = Field(description='The chat model class, as "module:Class".')
    model: str = Field(min_length=1, description="How the provider calls the model.")
    display_name: str | None = Field(default=None, description="How people see it; the name when absent.")
    description: str | None = Field(default=None, description="One line for the model picker.")
    supports_thinking: bool = Field(default=False, description="Whether the model can reason before it answers.")
    supports_reasoning_effort: bool = Field(default=False, description="Whether it takes `reasoning_effort`.")
    supports_vision: bool = Field(default=False, description="Whether it reads images.")
    fallback: tuple[str, ...] = Field(
        default=(), strict=False, description="Names of models that answer, in turn, when this one cannot."
    )
    context_window: int | None = Field(default=None, gt=0, description="How many tokens it reads at most.")
    pricing: PricingConfig | None = Field(
        default=None, description="What a million tokens cost; without it, costs are unknown."
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
        """What the model class receives besides `model`."""
        return dict(self.model_extra or {})

    @model_validator(mode="wrap")
    @classmethod
    def _no_key_is_a_near_miss(cls, data: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse `suports_vision`: taken for a provider's setting, it would only be found out much later."""
        meant = near_misses(data) if isinstance(data, Mapping) else {}
        sentences: dict[KeyPath, str] = {(key,): f"unknown key; did you mean {name!r}?" for key, name in meant.items()}
        try:
            entry = validate(data)
        except ValidationError as error:
            absent = {(name,) for name in meant.values()}
            others = [each for each in error.errors(include_url=False) if each["loc"] not in absent]
            raise refusal(cls.__name__, sentences, others) from None
        if sentences:
            raise refusal(cls.__name__, sentences)
        return entry

    @field_validator("use")
    @classmethod
    def _names_a_class(cls, use: str) -> str:
        return object_path(use, "module:Class", "langchain_openai:ChatOpenAI")


def near_misses(data: Mapping[str, object]) -> dict[str, str]:
    """The keys that are probably misspelt fields, each with that field, which is not given itself."""
    absent = {name: field for name, field in ModelConfig.model_fields.items() if name not in data}
    return {
        key: name
        for key in map(str, data)
        if key not in ModelConfig.model_fields
        for name, field in absent.items()
        # A required field that is absent was certainly meant to be there, so the guess may be bolder.
        if likeness(key, name) >= (0.75 if field.is_required() else 0.85)
    }
