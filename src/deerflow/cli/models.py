"""`deerflow models`: connect, list, test and remove models."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from deerflow.agents.pool import is_scripted
from deerflow.cli.runs import ConfigOption
from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import InvalidRequest, NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness.core import find_fallback_models, merge_models, open_saved_models
from deerflow.harness.resources import create_model_connections
from deerflow.models.check import CheckReport
from deerflow.models.connection import ConnectionProvider, ObservedCapabilities, find_provider
from deerflow.models.detection import get_key_status
from deerflow.persistence.engine import open_database
from deerflow.services.model_connections import ModelConnection, ModelConnections, ModelToSave
from deerflow.services.saved_models import SavedModels

app = typer.Typer(help="Connect, list, test and remove models.", no_args_is_help=True)

MARKS = {True: "✓", False: "✗", None: "–"}
SEVERITY_MARKS = {"error": "✗", "warning": "!", "note": "·"}
ProviderArgument = Annotated[str, typer.Argument(help="Provider, such as openai, anthropic, ollama or custom.")]
UrlOption = Annotated[str | None, typer.Option("--url", help="Address of the API; default: the provider's.")]
ModelOption = Annotated[
    list[str] | None, typer.Option("--model", help="Model to save; may be repeated. Default: the recommended one.")
]
KeyEnvOption = Annotated[
    str | None, typer.Option("--key-env", metavar="NAME", help="Environment variable that has the key.")
]
ShareOption = Annotated[bool, typer.Option("--share", help="Let all users of the server use the models.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Save even if the model does not answer.")]


@app.callback()
def options() -> None:
    """Connect, list, test and remove models."""


@app.command()
def add(
    provider: ProviderArgument,
    url: UrlOption = None,
    model: ModelOption = None,
    key_env: KeyEnvOption = None,
    force: ForceOption = False,
    share: ShareOption = False,
    config: ConfigOption = None,
) -> None:
    """Check a provider and save models of it.

    The key is read from a prompt without echo, from standard input, or from a variable; it is never an argument.
    """
    asyncio.run(add_models(provider, url, model or [], key_env, config, force=force, share=share))


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, config: ConfigOption = None
) -> None:
    """List the models, the default first."""
    asyncio.run(print_models(config, as_json=as_json))


@app.command()
def test(name: Annotated[str, typer.Argument(help="Name of a saved model.")], config: ConfigOption = None) -> None:
    """Test a saved model with its saved key; exit with code 1 if it does not answer."""
    sys.exit(asyncio.run(test_model(name, config)))


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Name of a saved model.")], config: ConfigOption = None) -> None:
    """Remove a saved model; the last one of a provider removes the key too."""
    asyncio.run(remove_model(name, config))


@dataclass(frozen=True, slots=True)
class OpenConnections:
    """Saved connections with their models, and the configuration."""

    source: ConfigSource
    saved: SavedModels
    service: ModelConnections


@asynccontextmanager
async def open_connections(config: Path | None) -> AsyncIterator[OpenConnections]:
    """Open the database and yield the saved connections."""
    source = open_source(config)
    loaded = source.current
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with open_database(loaded.config.database.get_location(loaded.home), loaded.home) as database:
        saved = open_saved_models(source, database)
        await saved.refresh()
        yield OpenConnections(source, saved, create_model_connections(source, saved))


async def add_models(
    name: str,
    url: str | None,
    models: Sequence[str],
    key_env: str | None,
    config: Path | None,
    *,
    force: bool,
    share: bool = False,
) -> None:
    """Check the first of the models, or the recommended one, and save all of them.

    Raises:
        InvalidRequest: There is no key, or the model does not answer and `force` is not set.
    """
    async with open_connections(config) as opened:
        environment = opened.source.current.environment
        provider = find_provider(name, environment)
        url = url or await find_local_address(opened.service, provider)
        key = read_key(provider, environment.get(key_env) if key_env else None, key_env)
        typer.echo(f"Checking {provider.title} …", err=True)
        report = await opened.service.check(LOCAL_USER, provider.id, url, key, models[0] if models else None)
        print_report(report)
        chosen = list(models) or ([report.tested] if report.tested else [])
        if not report.works and not force:
            raise InvalidRequest("nothing was saved; see above, or use --force")
        if not chosen:
            raise InvalidRequest("nothing was saved: name a model with --model")
        to_save = [
            ModelToSave(each, report.observed if each == report.tested else ObservedCapabilities()) for each in chosen
        ]
        saved = await opened.service.save(LOCAL_USER, provider.id, report.base_url, key, to_save)
        if share:
            await opened.service.share(LOCAL_USER, saved.connection_id, is_shared=True)
        print_saved(saved, chosen, len(report.models))
        if share:
            typer.echo("All users of the server may use these models.")


async def find_local_address(service: ModelConnections, provider: ConnectionProvider) -> str | None:
    """Return the address of a local server of this kind that answers; None for other providers."""
    if provider.base_url is not None:
        return None
    return next((each.base_url for each in await service.find_local_servers() if each.provider == provider.id), None)


def read_key(provider: ConnectionProvider, value: str | None, variable: str | None) -> str | None:
    """Return the key from the named variable, standard input or a prompt.

    Raises:
        InvalidRequest: The variable is not set, or the provider needs a key and there is none.
    """
    if variable is not None:
        if not value:
            raise InvalidRequest(f"the environment variable {variable!r} is not set")
        return value
    needs_key = provider.base_url is not None
    if not sys.stdin.isatty():
        key = sys.stdin.readline().strip()
    else:
        hint = f" (create one at {provider.key_url})" if provider.key_url else "" if needs_key else " (empty: none)"
        key = typer.prompt(f"API key{hint}", default="", show_default=False, hide_input=True, err=True).strip()
    if not key and needs_key:
        raise InvalidRequest("no key; enter one at the prompt, pipe it to standard input, or use --key-env NAME")
    return key or None


def print_report(report: CheckReport) -> None:
    """Print what was observed, and the problems with their remedies."""
    if report.tested is not None:
        seen = report.observed
        tests = {
            "answer": seen.answer,
            "streaming": seen.streaming,
            "tool calls": seen.tools,
            "token counts": seen.usage,
        }
        typer.echo(f"{report.tested}: " + "  ".join(f"{MARKS[value]} {name}" for name, value in tests.items()))
    for problem in report.problems:
        typer.echo(f"{SEVERITY_MARKS[problem.severity]} {problem.message}\n  → {problem.remedy}", err=True)
        if problem.detail:
            typer.echo(f"  {problem.detail}", err=True)
    if not report.works:
        for attempt in report.attempts:
            typer.echo(f"  tried {attempt.url}: {attempt.outcome}", err=True)


def print_saved(saved: ModelConnection, chosen: Sequence[str], offered: int) -> None:
    """Print the names of the saved models."""
    added = [model for model in saved.models if model.model in chosen]
    typer.echo(f"Saved {', '.join(model.name for model in added)} ({saved.base_url}).")
    for model in added:
        if model.is_shadowed:
            typer.echo(f"! config.yaml has a model named {model.name!r}, which is used instead.", err=True)
    if offered > len(added):
        typer.echo(f"{offered} models are offered; save others with --model NAME.", err=True)


async def print_models(config: Path | None, *, as_json: bool) -> None:
    """Print all models with their origin and the status of their key."""
    async with open_connections(config) as opened:
        loaded = opened.source.current
        saved = opened.saved.get(LOCAL_USER.user_id)
        models = merge_models(loaded.config.models, saved, await find_fallback_models(loaded))
        configured = {model.name for model in loaded.config.models}
        titles = {model.name: each.title for each in await opened.service.list(LOCAL_USER) for model in each.models}
        hidden = sorted(configured & titles.keys())
        found = [
            {
                "name": model.name,
                "model": model.model,
                "origin": "config.yaml"
                if model.name in configured
                else f"saved ({titles[model.name]})"
                if model.name in titles
                else "built in"
                if is_scripted(model)
                else "detected",
                "key": get_key_status(model, loaded.environment),
                "is_default": place == 0,
            }
            for place, model in enumerate(models)
        ]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    width = max(len(str(each["name"])) for each in found)
    for each in found:
        default = "  (default)" if each["is_default"] else ""
        typer.echo(f"{each['name']!s:<{width}}  {each['origin']}, key {each['key']}{default}")
    for name in hidden:
        typer.echo(f"! saved model {name!r} is not used: config.yaml has a model of the same name", err=True)


async def test_model(name: str, config: Path | None) -> int:
    """Check the connection of a saved model with this model, print the result and return the exit code."""
    async with open_connections(config) as opened:
        connection, model = await find_saved(opened, name)
        report = await opened.service.check_saved(LOCAL_USER, connection.connection_id, model)
    print_report(report)
    return 0 if report.works else 1


async def remove_model(name: str, config: Path | None) -> None:
    """Remove a saved model."""
    async with open_connections(config) as opened:
        await find_saved(opened, name)
        await opened.service.remove_model(LOCAL_USER, name)
    typer.echo(f"Removed {name}.")


async def find_saved(opened: OpenConnections, name: str) -> tuple[ModelConnection, str]:
    """Return the connection of a saved model, and its name at the provider.

    Raises:
        NotFound: It is not a saved model.
    """
    for connection in await opened.service.list(LOCAL_USER):
        for model in connection.models:
            if model.name == name:
                return connection, model.model
    if any(model.name == name for model in opened.source.current.config.models):
        raise NotFound(f"{name!r} is a model of config.yaml: change it there; `deerflow doctor` tests the default")
    raise NotFound(f"no saved model {name!r}; see: deerflow models list")
