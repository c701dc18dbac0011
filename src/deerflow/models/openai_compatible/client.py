"""Chat model for endpoints that implement the OpenAI chat completions API; also with settings of `ChatOpenAI`."""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Literal, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils import from_env
from pydantic import AliasChoices, ConfigDict, Field, SecretStr, field_validator

from deerflow.domain.errors import InvalidRequest
from deerflow.models import iterate_sync, run_sync
from deerflow.models.openai_compatible.accumulator import MODEL_PROVIDER, StreamAccumulator, parse_response
from deerflow.models.openai_compatible.endpoint import Endpoint
from deerflow.models.openai_compatible.messages import (
    OutputMethod,
    OutputSchema,
    ToolLike,
    ToolSchemaCache,
    add_parser,
    get_schema_name,
    make_answer_parser,
    make_call_parser,
    to_json,
    to_response_format,
    to_wire_messages,
)
from deerflow.models.openai_compatible.stream import parse_answer, stream_answer
from deerflow.models.openai_compatible.vendors import DEFAULT_VENDOR, VENDOR_NAMES, Vendor, find_vendor

ToolChoice: TypeAlias = dict[str, Any] | str | bool | None


class OpenAICompatibleChatModel(BaseChatModel):
    """OpenAI-compatible client that streams at a fraction of the cost of the vendor's SDK.

    Reasoning is in `additional_kwargs["reasoning_content"]`, separate from the answer. Errors are the `ModelError`s of
    `deerflow.domain.errors`; nothing is retried here.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True, arbitrary_types_allowed=True)

    model: str = Field(min_length=1, description="Model name at the endpoint.")
    base_url: str = Field(
        "https://api.openai.com/v1",
        validation_alias=AliasChoices("base_url", "api_base"),
        description="URL before `/chat/completions`.",
    )
    api_key: SecretStr | None = Field(None, description="Sent as a bearer token.")
    default_headers: dict[str, str] = Field(default_factory=dict, repr=False, description="Sent with every request.")
    vendor: str | None = Field(None, description="Vendor of the endpoint; default: by host.")
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = Field(None, gt=0)
    token_limit_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        None, description="Name of `max_tokens` in requests; default: by vendor."
    )
    stop: list[str] | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict, description="Further parameters; those of a call win.")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Merged into every request.")
    timeout: float = Field(120.0, gt=0, description="Seconds without data before a call fails.")
    streaming: bool = Field(False, description="Stream every answer; false as a setting: stream none.")
    stream_usage: bool = Field(True, description="Request token counts at the end of a stream.")
    public_addresses_only: bool = Field(False, description="Refuse hosts with private addresses.")
    stream_coalesce_ms: float = Field(40.0, ge=0, description="Merge deltas after the first for this time; 0: never.")

    @field_validator("vendor")
    @classmethod
    def _check_vendor(cls, vendor: str | None) -> str | None:
        if vendor is not None and vendor not in VENDOR_NAMES:
            raise ValueError(f"must be one of {', '.join(sorted(VENDOR_NAMES))}")
        return vendor

    async def aclose(self) -> None:
        """Close the connections; the model can still be used and then opens new ones."""
        await self._endpoint.aclose()

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: ToolChoice = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: OutputSchema | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with tools it may call.

        Args:
            tools: Anything LangChain can convert to a tool.
            tool_choice: A tool's name, "auto", "none", "any" or True for at least one call, or the wire format.
            strict: Require calls to follow the schema exactly, if the endpoint can enforce it.
            parallel_tool_calls: Allow several calls in one answer.
            response_format: A schema for the answer that calls no tool.
        """
        wire_tools = [self._tool_schemas.get_schema(tool, strict) for tool in tools]
        options: dict[str, Any] = {
            "tools": wire_tools,
            "tool_choice": _to_tool_choice(tool_choice, wire_tools),
            "parallel_tool_calls": parallel_tool_calls,
            "response_format": None if response_format is None else to_response_format(response_format, strict),
        }
        return self.bind(**{name: value for name, value in options.items() if value is not None}, **kwargs)

    def with_structured_output(
        self,
        schema: OutputSchema | None = None,
        *,
        include_raw: bool = False,
        method: OutputMethod | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model with answers parsed into `schema`: a pydantic class, a TypedDict or a JSON schema.

        Args:
            schema: The schema of an answer; optional in JSON mode.
            include_raw: Return `{"raw", "parsed", "parsing_error"}` and never raise for an invalid answer.
            method: "json_schema", "function_calling" or "json_mode"; default: the best one for the vendor.
            strict: Require the endpoint to enforce the schema.
        """
        method = method or ("json_schema" if self._vendor.takes_json_schema else "function_calling")
        traced: dict[str, Any] = {"ls_structured_output_format": {"kwargs": {"method": method}, "schema": schema}}
        if method == "json_mode":
            model = self.bind(response_format={"type": "json_object"}, **traced, **kwargs)
            return add_parser(model, make_answer_parser(schema), include_raw=include_raw)
        if schema is None:
            raise InvalidRequest(f"structured output by {method!r} needs a schema")
        if method == "json_schema":
            model = self.bind(response_format=to_response_format(schema, strict), **traced, **kwargs)
            return add_parser(model, make_answer_parser(schema), include_raw=include_raw)
        one_call: dict[str, Any] = {"tool_choice": get_schema_name(schema), "parallel_tool_calls": False}
        caller = self.bind_tools([schema], strict=strict, **one_call, **traced, **kwargs)
        return add_parser(caller, make_call_parser(schema), include_raw=include_raw)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk, None]:
        body = self._build_body(messages, stop, kwargs)
        body["stream"] = True
        if self.stream_usage and self._vendor.takes_stream_options:
            body.setdefault("stream_options", {"include_usage": True})
        accumulator = StreamAccumulator(self._vendor)
        async with self._endpoint.post(to_json(body)) as response:
            if response.is_json:  # some servers never stream
                accumulator.add(parse_answer(await response.read_all()))
                yield ChatGenerationChunk(message=accumulator.finish())
                return
            async for chunk in stream_answer(response, accumulator, self.stream_coalesce_ms / 1000):
                yield ChatGenerationChunk(message=chunk)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        async with self._endpoint.post(to_json(self._build_body(messages, stop, kwargs))) as response:
            payload = parse_answer(await response.read_all())
        return ChatResult(generations=[ChatGeneration(message=parse_response(payload, self._vendor))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from iterate_sync(self._astream(messages, stop, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return run_sync(self._agenerate(messages, stop, **kwargs))

    def _build_body(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": to_wire_messages(messages, self._vendor)}
        body |= self._parameters
        body |= {name: value for name, value in options.items() if value is not None}
        if stop is not None:
            body["stop"] = stop
        if "max_tokens" in body:
            body[self.token_limit_field or self._vendor.token_limit_field] = body.pop("max_tokens")
        exclusive = self._vendor.no_reasoning_with_tools
        if "tools" in body and exclusive is not None and exclusive.match(body["model"]):
            body.setdefault("reasoning_effort", "none")
        once: dict[str, Any] = body.pop("extra_body", {})
        return body | self.extra_body | once

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        names = ("temperature", "top_p", "max_tokens", "stop", "seed", "reasoning_effort")
        return {name: value for name in names if (value := getattr(self, name)) is not None} | self.model_kwargs

    @cached_property
    def _vendor(self) -> Vendor:
        return find_vendor(self.base_url, self.vendor)

    @cached_property
    def _tool_schemas(self) -> ToolSchemaCache:
        return ToolSchemaCache()

    @cached_property
    def _endpoint(self) -> Endpoint:
        key = self.api_key.get_secret_value().strip() if self.api_key else None
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        return Endpoint(url, key, self.default_headers, self.timeout, self.public_addresses_only)

    @property
    def _llm_type(self) -> str:
        return MODEL_PROVIDER

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model": self.model, "base_url": self.base_url} | self._parameters

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = self._vendor.name
        return params


def _to_tool_choice(choice: ToolChoice, tools: list[dict[str, Any]]) -> dict[str, Any] | str | None:
    if choice is True or choice == "any":
        return "required"
    if isinstance(choice, str) and any(choice == tool.get("function", {}).get("name") for tool in tools):
        return {"type": "function", "function": {"name": choice}}
    return choice or None


RENAMED_SETTINGS = {
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "api_base": "base_url",
    "openai_organization": "organization",
    "request_timeout": "timeout",
    "max_completion_tokens": "max_tokens",
    "stop_sequences": "stop",
}
"""Settings of `ChatOpenAI` with a second name."""
OWN_SETTINGS = ("model", "vendor", "token_limit_field", "stream_coalesce_ms", "output_version")
SAME_SETTINGS = frozenset(OpenAICompatibleChatModel.model_fields) - {*OWN_SETTINGS} | {"organization"}
REQUEST_PARAMETERS = frozenset(
    ("presence_penalty", "frequency_penalty", "logit_bias", "service_tier", "store", "verbosity")
)
WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "max_retries": (0, 1, 2),  # the harness retries twice
    "use_responses_api": (False,),
    "use_previous_response_id": (False,),
    "include_response_headers": (False,),
    "logprobs": (False,),
    "n": (1,),
    "output_version": ("v0",),
}
"""Settings of `ChatOpenAI` with the values for which there is nothing to do."""
MAPPING_SETTINGS = ("default_headers", "extra_body", "model_kwargs")
NO_PARAMETERS = frozenset(
    ("extra_headers", "extra_query", "context_management", "include", "previous_response_id", "reasoning", "text")
) | {"truncation"}
"""Names in `model_kwargs` that are options of the SDK or select the Responses API."""
ORGANIZATION_VARIABLES = ("OPENAI_ORG_ID", "OPENAI_ORGANIZATION")
VARIABLES_OF_CHAT_OPENAI = (
    "OPENAI_PROXY",
    "OPENAI_CUSTOM_HEADERS",
    "LC_OUTPUT_VERSION",
    "LANGCHAIN_OPENAI_STREAM_CHUNK_TIMEOUT_S",
    "LANGCHAIN_OPENAI_TCP_KEEPALIVE",
    "LANGCHAIN_OPENAI_TCP_KEEPIDLE",
    "LANGCHAIN_OPENAI_TCP_KEEPINTVL",
    "LANGCHAIN_OPENAI_TCP_KEEPCNT",
    "LANGCHAIN_OPENAI_TCP_USER_TIMEOUT_MS",
)
RESPONSES_MODELS = re.compile(r"gpt-5.*-(pro|sol)|gpt-[6-9]|o\d|.*codex")
"""Models that `ChatOpenAI` reaches by the Responses API, or with other roles of messages."""


def find_unsupported_setting(settings: Mapping[str, Any]) -> str | None:
    """Return the first setting of `ChatOpenAI`, or variable that it reads, which this client does not support."""
    known = SAME_SETTINGS | REQUEST_PARAMETERS | WITHOUT_EFFECT.keys()
    for given, value in settings.items():
        name = RENAMED_SETTINGS.get(given, given)
        if name not in known or (value is not None and not _is_supported(name, value, known)):
            return given
    return next((name for name in VARIABLES_OF_CHAT_OPENAI if _read_variable(name)), None)


def find_need_of_chat_openai(model: str, settings: Mapping[str, Any]) -> str | None:
    """Return the reason why `ChatOpenAI` is needed, which has nothing to do with its settings."""
    translated = translate_settings(settings)
    if translated.get("base_url") is None or find_vendor(translated["base_url"]).name == "openai":
        return "the address is that of OpenAI"
    if translated.get("api_key") is None:
        return "there is no api_key"
    return f"it may use another API for {model!r}" if RESPONSES_MODELS.match(model) else None


def translate_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `ChatOpenAI`, and the variables it reads, as settings of this client."""
    given = {RENAMED_SETTINGS.get(name, name): value for name, value in settings.items() if value is not None}
    translated = {name: value for name, value in given.items() if name in SAME_SETTINGS}
    base_url = given.get("base_url") or _read_variable("OPENAI_API_BASE", "OPENAI_BASE_URL")
    headers = {
        "OpenAI-Organization": translated.pop("organization", None) or _read_variable(*ORGANIZATION_VARIABLES),
        "OpenAI-Project": _read_variable("OPENAI_PROJECT_ID"),
    }
    translated |= {
        "base_url": base_url,
        "api_key": given.get("api_key", _read_variable("OPENAI_API_KEY")),
        "default_headers": {name: value for name, value in headers.items() if value}
        | dict(given.get("default_headers", {})),
        "model_kwargs": {name: value for name, value in given.items() if name in REQUEST_PARAMETERS}
        | dict(given.get("model_kwargs", {})),
    }
    if isinstance(given.get("stop"), str):
        translated["stop"] = [given["stop"]]
    if base_url and find_vendor(base_url) is DEFAULT_VENDOR:
        translated["token_limit_field"] = "max_completion_tokens"
    return {name: value for name, value in translated.items() if value is not None}


def _is_supported(name: str, value: Any, known: Set[str]) -> bool:
    if name in WITHOUT_EFFECT:
        return value in WITHOUT_EFFECT[name]
    if name == "timeout":
        return isinstance(value, int | float)
    if name == "model_kwargs" and isinstance(value, Mapping):
        return not value.keys() & (known | RENAMED_SETTINGS.keys() | NO_PARAMETERS)
    return isinstance(value, Mapping) if name in MAPPING_SETTINGS else name != "base_url" or isinstance(value, str)


def _read_variable(*names: str) -> str | None:
    """Return the first of these variables that is set, read in the same way as `ChatOpenAI` does."""
    return next((value for name in names if (value := from_env(name, default=None)())), None)
