"""Which keys a part of the configuration has."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from deerflow.config.reading.problems import KeyPath


def fields_at(model: type[BaseModel], path: KeyPath) -> Mapping[str, FieldInfo]:
    """The fields of the settings at `path`, by the keys people write for them; none where any key may stand."""
    annotation: Any = model
    for key in path:
        annotation = _inside(annotation, key)
    found = _model(annotation)
    return {} if found is None else {_key(name, field): field for name, field in found.model_fields.items()}


def _inside(annotation: Any, key: str | int) -> Any:
    """The type of what stands under `key`."""
    model = _model(annotation)
    if model is not None:
        return next((field.annotation for name, field in model.model_fields.items() if _key(name, field) == key), None)
    for choice in _choices(annotation):
        if get_origin(choice) in (list, tuple, dict):
            return get_args(choice)[1 if get_origin(choice) is dict else 0]
    return None


def _model(annotation: Any) -> type[BaseModel] | None:
    models = (choice for choice in _choices(annotation) if isinstance(choice, type) and issubclass(choice, BaseModel))
    return next(models, None)


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [choice for choice in get_args(annotation) if choice is not NoneType]
    return [annotation]


def _key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else name
