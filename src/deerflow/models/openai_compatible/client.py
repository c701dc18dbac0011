"""Chat model for endpoints that implement the OpenAI chat completions API."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
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
from deerflow.models.openai_compatible.vendors import VENDOR_NAMES, Vendor, find_vendor

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
    stop: list[str] | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict, description="Merged into every request.")
    timeout: float = Field(120.0, gt=0, description="Seconds without data before a call fails.")
    stream_usage: bool = Field(True, description="Request token counts at the end of a stream.")
    stream_coalesce_ms: float = Field(20.0, ge=0, description="Merge deltas after the first for this time; 0: never.")

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
            body[self._vendor.token_limit_field] = body.pop("max_tokens")
        exclusive = self._vendor.no_reasoning_with_tools
        if "tools" in body and exclusive is not None and exclusive.match(body["model"]):
            body.setdefault("reasoning_effort", "none")
        once: dict[str, Any] = body.pop("extra_body", {})
        return body | self.extra_body | once

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        names = ("temperature", "top_p", "max_tokens", "stop", "seed", "reasoning_effort")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

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
        return Endpoint(url, key, self.default_headers, self.timeout)

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
