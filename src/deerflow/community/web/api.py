"""How the programs of providers are asked: a request, and an answer in JSON of which the needed part is known."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, SecretStr, ValidationError

from deerflow.community.web.http import Ask, Http, Reply
from deerflow.community.web.problems import MissingKey, RateLimited, Rejected, Unreadable

MAX_API_BYTES = 4_000_000
MAX_SAID_CHARS = 200
SHOWN_ERROR = 400

Answer = TypeVar("Answer", bound=BaseModel)
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A text that may be missing or null."""


async def ask_api(http: Http, provider: str, ask: Ask, answer: type[Answer]) -> Answer:
    """What a provider answers.

    Raises:
        WebProblem: It does not; the text says why and what to do.
    """
    reply = await http.send(ask)
    check_status(provider, reply)
    try:
        return answer.model_validate_json(reply.body)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "its whole answer"
        raise Unreadable(f"{provider} answered in a form that is not known here ({where}: {first['msg']})") from problem


def check_status(provider: str, reply: Reply) -> None:
    """Raise what a status means, unless it means that all is well."""
    status = reply.status
    if status in (401, 403):
        raise MissingKey(f"{provider} does not take the key it was given: check `api_key` of the tool in config.yaml")
    if status in (402, 432, 433):
        raise RateLimited(f"the quota of {provider} is used up; the user has to see to it, so go on without it")
    if status == 429:
        after = reply.headers.get("retry-after", "")
        when = f"in {after} s" if after.isdigit() else "in a while"
        raise RateLimited(f"{provider} asks to slow down; go on with what you have, or try again {when}")
    if status >= SHOWN_ERROR:
        said = " ".join(reply.body[: MAX_SAID_CHARS * 4].decode(errors="replace").split())[:MAX_SAID_CHARS]
        raise Rejected(f"{provider} answered with status {status}: {said or 'it said nothing'}")
    if status != 200:
        raise Rejected(f"{provider} answered with status {status}, which it should not")


def need_key(provider: str, key: SecretStr | None, variable: str) -> str:
    """The key.

    Raises:
        MissingKey: There is none.
    """
    if key is None or not key.get_secret_value():
        raise MissingKey(
            f"{provider} needs a key: write `api_key: ${variable}` into the entry of this tool in config.yaml, "
            f"and set {variable} in the environment or in .env"
        )
    return key.get_secret_value()
