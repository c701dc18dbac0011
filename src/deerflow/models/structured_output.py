"""Answers that follow a schema."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_openai_function, convert_to_openai_tool
from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any] | type
Method: TypeAlias = Literal["json_schema", "function_calling", "json_mode"]


def wire_response_format(schema: Schema, strict: bool | None = None) -> dict[str, Any]:
    """The request field that makes an endpoint answer in a schema."""
    if isinstance(schema, Mapping):
        if schema.get("type") in ("json_schema", "json_object", "text"):
            return dict(schema)
        if "name" in schema and "schema" in schema:
            return {"type": "json_schema", "json_schema": dict(schema)}
    function = convert_to_openai_function(schema, strict=strict)
    function["schema"] = function.pop("parameters")
    return {"type": "json_schema", "json_schema": function}


def answer_parser(schema: Schema | None) -> Runnable[AIMessage, Any]:
    """Reads an answer whose text is JSON."""
    model = _pydantic_model(schema)
    return JsonOutputParser() if model is None else PydanticOutputParser(pydantic_object=model)


def call_parser(schema: Schema) -> Runnable[AIMessage, Any]:
    """Reads an answer that calls a tool named after the schema."""
    if model := _pydantic_model(schema):
        return PydanticToolsParser(tools=[model], first_tool_only=True)
    return JsonOutputKeyToolsParser(key_name=schema_name(schema), first_tool_only=True)


def schema_name(schema: Schema) -> str:
    """What the tool is called that answers in this schema."""
    name: str = convert_to_openai_tool(schema)["function"]["name"]
    return name


def parsed(
    model: Runnable[LanguageModelInput, AIMessage], parser: Runnable[AIMessage, Any], *, include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    """The model with its answer parsed; with `include_raw`, beside the message and the parsing error."""
    if not include_raw:
        return model | parser
    parse = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    give_up = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | parse.with_fallbacks([give_up], exception_key="parsing_error")


def _pydantic_model(schema: Schema | None) -> type[BaseModel] | None:
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
