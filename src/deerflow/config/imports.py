"""Things that a configuration names as "module:Name"."""

import importlib
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
    """The object at `path`; with `expected`, one of that type.

    Raises:
        ConfigError: The module or the name does not exist, or names something else.
    """
    found = _find(path)
    if expected is not None and not isinstance(found, expected):
        raise ConfigError(f"{path!r} is {_article(found)}, not an instance of {expected.__name__}")
    return found


def load_extra(path: str, extra: str, key: str) -> object:
    """The object at `path`, which setting `key` needs and which comes with an extra of this package.

    Raises:
        ConfigError: The extra is not installed.
    """
    try:
        return load_object(path)
    except ConfigError as problem:
        raise ConfigError(f"{key}: {problem}; install it with: pip install 'deerflow[{extra}]'") from problem


def load_class(path: str, base: type[T]) -> type[T]:
    """The class at `path`, which must be `base` or derive from it; nothing is called.

    Raises:
        ConfigError: The module or the name does not exist, or names something else.
    """
    found = _find(path)
    if not isinstance(found, type) or not issubclass(found, base):
        raise ConfigError(f"{path!r} is {_article(found)}, not a subclass of {base.__name__}{_lacking(found, base)}")
    return found


def _find(path: str) -> object:
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(f'{path!r} must be written as "module:Name"')
    module = _import(module_name, path)
    try:
        return getattr(module, name)
    except AttributeError:
        raise ConfigError(f"module {module_name!r} has no {name!r}{_did_you_mean(name, module)}") from None


def _import(module_name: str, path: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        raise ConfigError(f"cannot load {path!r}: there is no module {missing!r}{_how_to_install(missing)}") from error
    except ImportError as error:
        raise ConfigError(f"cannot load {path!r}: {error}") from error


def _how_to_install(module_name: str) -> str:
    package = module_name.partition(".")[0]
    if not package.startswith("langchain_"):
        return ""
    return f"; it comes with: pip install {package.replace('_', '-')}"


def _did_you_mean(name: str, module: ModuleType) -> str:
    public = [known for known in dir(module) if not known.startswith("_")]
    near = get_close_matches(name, public, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _lacking(found: object, base: type[object]) -> str:
    """What a class would need to pass for `base`, which asks for methods and not for a parent."""
    is_protocol = isinstance(found, type) and getattr(base, "_is_protocol", False)
    missing = [name for name in vars(base) if not name.startswith("_") and not hasattr(found, name)]
    return f": it has no {', no '.join(missing)}" if is_protocol and missing else ""


def _article(found: object) -> str:
    kind = "class" if isinstance(found, type) else type(found).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
