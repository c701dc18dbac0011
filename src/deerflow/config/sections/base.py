"""The base class of all configuration sections, and the errors of their validators."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from deerflow.config.loader.document import KeyPath
from deerflow.config.loader.validation import CUSTOM_ERROR, mask

T = TypeVar("T", covariant=True)


class Section(BaseModel):
    """A frozen group of settings that rejects unknown keys and does not coerce types."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    needs_restart: ClassVar[bool] = False
    """True if a change in the file takes effect at the next start of the server."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # Logs are read by others, so they must not contain secrets.
        for name, value in super().__repr_args__():
            yield name, mask(value, path=(name or "",))


class Settings(Generic[T]):
    """One part of the configuration, for services that live longer than a version of the configuration.

    Created with `ConfigSource.settings(lambda loaded: loaded.config.sharing)`.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read

    @property
    def current(self) -> T:
        """The value as configured now; changed files are read again first."""
        return self._read()


def make_error(message: str, hint: str = "") -> PydanticCustomError:
    """Return the error that a validator raises; only `hint` may contain the value, since it is left out for secrets."""
    return PydanticCustomError(CUSTOM_ERROR, "{message}{hint}", {"message": message, "hint": hint})


def make_validation_error(
    section: str, messages: Mapping[KeyPath, str], others: Iterable[ErrorDetails] = ()
) -> ValidationError:
    """Return the error for single keys below a validator, each with its own message, and for other errors."""
    own = [InitErrorDetails(type=make_error(text), loc=key, input=None) for key, text in messages.items()]
    return ValidationError.from_exception_data(section, own + [_copy_error(error) for error in others])


def _copy_error(error: ErrorDetails) -> InitErrorDetails:
    context = error.get("ctx", {})
    kind = make_error(**context) if error["type"] == CUSTOM_ERROR else error["type"]
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"], ctx=context)


def check_object_path(use: str, form: str, example: str) -> str:
    """Return `use` if it is written as "module:name", else raise an error with an example."""
    module, colon, name = use.partition(":")
    if colon and name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return use
    module, dot, name = use.rpartition(".")
    hint = f"; did you mean '{module}:{name}'?" if dot and ":" not in use else ""
    raise make_error(f'must be "{form}", for instance "{example}"', hint)
