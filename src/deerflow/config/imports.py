"""Objects that the configuration refers to as "module:Name"."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from types import ModuleType
from typing import TypeVar, overload

from deerflow.domain.errors import ConfigError

T = TypeVar("T")


@overload
def load_object(path: str, expected: None = None) -> object: ...
@overload
def load_object(path: str, expected: type[T]) -> T: ...
def load_object(path: str, expected: type[T] | None = None) -> T | object:
    """Return the object at `path`; with `expected`, an instance of that type.

    Raises:
        ConfigError: The module or the name does not exist, or the object has another type.
    """
    found = _load(path)
    if expected is not None and not isinstance(found, expected):
        raise ConfigError(f"{path!r} is {_describe_type(found)}, not an instance of {expected.__name__}")
    return found


@contextmanager
def require_extra(extra: str, key: str) -> Iterator[None]:
    """Import libraries in this context that setting `key` needs and an extra of this package provides.

    Raises:
        ConfigError: The extra is not installed.
    """
    try:
        yield
    except ImportError as problem:
        raise ConfigError(
            f"{key}: no module {problem.name!r}; install it with: pip install 'deerflow[{extra}]'"
        ) from problem


def load_class(path: str, base: type[T]) -> type[T]:
    """Return the class at `path`, which must be `base` or a subclass of it; it is not instantiated.

    Raises:
        ConfigError: The module or the name does not exist, or the object is something else.
    """
    found = _load(path)
    if not isinstance(found, type) or not issubclass(found, base):
        missing = _list_missing_methods(found, base)
        raise ConfigError(f"{path!r} is {_describe_type(found)}, not a subclass of {base.__name__}{missing}")
    return found


def _load(path: str) -> object:
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(f'{path!r} must be written as "module:Name"')
    module = _import(module_name, path)
    try:
        return getattr(module, name)
    except AttributeError:
        raise ConfigError(f"module {module_name!r} has no {name!r}{_suggest_name(name, module)}") from None


def _import(module_name: str, path: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        raise ConfigError(f"cannot load {path!r}: there is no module {missing!r}{_suggest_install(missing)}") from error
    except ImportError as error:
        raise ConfigError(f"cannot load {path!r}: {error}") from error


def _suggest_install(module_name: str) -> str:
    package = module_name.partition(".")[0]
    if not package.startswith("langchain_"):
        return ""
    return f"; install it with: pip install {package.replace('_', '-')}"


def _suggest_name(name: str, module: ModuleType) -> str:
    public = [known for known in dir(module) if not known.startswith("_")]
    near = get_close_matches(name, public, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _list_missing_methods(found: object, base: type[object]) -> str:
    """Return the methods that a class lacks if `base` is a protocol."""
    is_protocol = isinstance(found, type) and getattr(base, "_is_protocol", False)
    missing = [name for name in vars(base) if not name.startswith("_") and not hasattr(found, name)]
    return f": it has no {', no '.join(missing)}" if is_protocol and missing else ""


def _describe_type(found: object) -> str:
    kind = "class" if isinstance(found, type) else type(found).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
