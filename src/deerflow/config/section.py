"""What every part of the configuration has in common."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from deerflow.config.reading.problems import KeyPath
from deerflow.config.reading.secrets import masked


class Section(BaseModel):
    """A frozen group of settings that knows all its keys and takes no value of another type for one of its own."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    needs_restart: ClassVar[bool] = False
    """Whether a change in the file waits for the next start of the server."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # What is logged is read by others, so secrets are not in it.
        for name, value in super().__repr_args__():
            yield name, masked(value, path=(name or "",))


def objection(sentence: str, hint: str = "") -> PydanticCustomError:
    """What a validator raises; only `hint` may repeat the value, for it is left out where that could be a secret."""
    return PydanticCustomError("objection", "{sentence}{hint}", {"sentence": sentence, "hint": hint})


def refusal(section: str, sentences: Mapping[KeyPath, str], others: Iterable[ErrorDetails] = ()) -> ValidationError:
    """What a validator raises to object to single keys below it, each with its own sentence, and what else is wrong."""
    refused = [InitErrorDetails(type=objection(text), loc=key, input=None) for key, text in sentences.items()]
    return ValidationError.from_exception_data(section, refused + [_repeated(error) for error in others])


def _repeated(error: ErrorDetails) -> InitErrorDetails:
    context = error.get("ctx", {})
    kind = objection(**context) if error["type"] == "objection" else error["type"]
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"], ctx=context)


def object_path(use: str, form: str, example: str) -> str:
    """Return `use` if it is written as "module:name", else object in the words of whoever wrote it."""
    module, colon, name = use.partition(":")
    if colon and name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return use
    module, dot, name = use.rpartition(".")
    hint = f"; did you mean '{module}:{name}'?" if dot and ":" not in use else ""
    raise objection(f'must be "{form}", for instance "{example}"', hint)
