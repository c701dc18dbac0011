"""The description of the API: what the framework knows, and an example for every part of a path."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from deerflow.gateway.errors import Problem
from deerflow.gateway.examples import PATH_EXAMPLES
from deerflow.gateway.late import settle_all


def describe(app: FastAPI) -> None:
    """Have the application describe itself with examples."""

    def description() -> dict[str, Any]:
        if app.openapi_schema is None:
            settle_all(app)
            app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            shapes = {**app.openapi_schema["components"]["schemas"], Problem.__name__: Problem.model_json_schema()}
            app.openapi_schema["components"]["schemas"] = dict(sorted(shapes.items()))
            for method, path, parameter in path_parameters(app.openapi_schema):
                name, place = parameter["name"], path_up_to(path, parameter["name"])
                value = next(filter(None, map(PATH_EXAMPLES.get, (f"{method} {place}", place, name))), None)
                if value is not None and "example" not in parameter:
                    parameter["example"] = value
        return app.openapi_schema

    app.openapi = description  # type: ignore[method-assign]  # the framework's documented way


def path_parameters(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The parts of all paths that vary, each with its method and path."""
    found = (
        (method.upper(), path, parameter)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
    )
    return (each for each in found if each[2]["in"] == "path")


def path_up_to(path: str, name: str) -> str:
    """The path as far as the part of that name."""
    return path[: path.index(f"{{{name}}}") + len(name) + 2]
