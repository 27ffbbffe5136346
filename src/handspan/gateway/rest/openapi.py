"""The OpenAPI document, generated from the declarations of the routes."""

import inspect
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, structs

from handspan.core.values import JsonObject
from handspan.core.version import VERSION
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.routing import JSON
from handspan.gateway.http.streams import STREAM_KINDS
from handspan.gateway.rest.route import Operation
from handspan.wire.rest.fields import ErrorBody

_REF: Final = "#/components/schemas/{name}"
_MEANINGS: Final = {
    200: "It is done.",
    201: "It was made.",
    202: "It goes on; the result comes later.",
    206: "The part that `Range` names.",
    303: "Go on there.",
    400: "The body can't be read.",
    401: "There is no valid token.",
    403: "The token lacks a scope, or the request came from a place that is not known.",
    404: "There is no such thing, or it has another owner.",
    408: "The body came too slowly.",
    409: "It can't be done as things are now.",
    413: "The body is too large.",
    415: "The body is not of the kind that is wanted.",
    416: "There is nothing in that range.",
    421: "This node runs no turns: ask another one.",
    422: "The request is not as it has to be.",
    429: "Too many of them: wait.",
    500: "It failed.",
    502: "Another server failed, or refused.",
    503: "Not now.",
}


@lru_cache(maxsize=4)
def encoded_document(operations: tuple[Operation, ...], prefix: str = "") -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(document(operations, prefix))


def document(operations: Sequence[Operation], prefix: str = "") -> JsonObject:
    """Return the OpenAPI 3.1 document of these operations, below this path."""
    types = _types(operations)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    _require_sent_fields(operations, components)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Handspan", "version": VERSION},
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(operations: Sequence[Operation]) -> list[Any]:
    """Return every type that a request or an answer has. Types with the same repr count as one."""
    found: dict[str, Any] = {repr(ErrorBody): ErrorBody}
    for operation in operations:
        form = operation.form
        for one in (form.query, form.headers, form.body, form.answer, *operation.also.values(), operation.streams):
            if one is not None and one is not AsgiResponse:
                found.setdefault(repr(one), one)
    return list(found.values())


def _require_sent_fields(operations: Sequence[Operation], components: dict[str, Any]) -> None:
    """Mark the fields that every answer has as required. A type that requests have too keeps its optional fields."""
    given, sent = set[type[Struct]](), set[type[Struct]]()
    for operation in operations:
        form = operation.form
        given |= _structs_in(form.query, form.headers, form.body)
        sent |= _structs_in(form.answer, *operation.also.values(), operation.streams)
    for one in sent - given:
        if not one.__struct_config__.omit_defaults:
            fields = [each.encode_name for each in structs.fields(one) if each.default is not UNSET]
            tag = one.__struct_config__.tag_field
            components[one.__name__]["required"] = [tag, *fields] if tag else fields


def _structs_in(*types: Any) -> set[type[Struct]]:
    """Return the Structs that these types are made of."""
    found: set[type[Struct]] = set()
    waiting: list[Any] = [msgspec.inspect.type_info(one) for one in types if one not in (None, AsgiResponse)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls in found:
                continue
            found.add(one.cls)
        if isinstance(one, tuple):
            waiting += one
        elif isinstance(one, msgspec.inspect.Type | msgspec.inspect.Field):
            waiting += structs.astuple(one)
    return found


def _operation(operation: Operation, schema_of: dict[str, Any], components: dict[str, Any]) -> JsonObject:
    """Return the description of one route. Its words are those of the function's docstring."""
    summary, _, details = inspect.cleandoc(operation.work.__doc__ or "").partition("\n")
    described: JsonObject = {
        "operationId": operation.work.__name__,
        "summary": summary,
        "tags": [operation.tag],
        "security": [] if operation.right == "open" else [{"token": []}],
        "parameters": _parameters(operation, components),
        "responses": _responses(operation, schema_of),
    }
    if details.strip():
        described["description"] = " ".join(details.split())
    if operation.form.body is not None:
        schema = schema_of[repr(operation.form.body)]
        described["requestBody"] = {"required": not operation.lenient, "content": {JSON: {"schema": schema}}}
    elif operation.takes != JSON:
        described["requestBody"] = {"required": False, "content": {operation.takes: {"schema": {}}}}
    return described


def _parameters(operation: Operation, components: dict[str, Any]) -> list[Any]:
    """Return the parameters of one route in its path, query and headers."""
    form = operation.form
    path: list[Any] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    for place, struct in (("query", form.query), ("header", form.headers)):
        if struct is not None:
            schema = components[struct.__name__]
            path += [
                _parameter(name, place, of_field, required=name in schema.get("required", ()))
                for name, of_field in schema["properties"].items()
            ]
    return path


def _parameter(name: str, place: str, schema: dict[str, Any], *, required: bool) -> JsonObject:
    listed_name = "-".join(word.capitalize() for word in name.split("-")) if place == "header" else name
    plain = {key: value for key, value in schema.items() if key != "description"}
    parameter: JsonObject = {"name": listed_name, "in": place, "required": required, "schema": plain}
    if "description" in schema:
        parameter["description"] = schema["description"]
    return parameter


def _responses(operation: Operation, schema_of: dict[str, Any]) -> JsonObject:
    """Return the responses by status. A redirect has no content."""
    content: dict[int, JsonObject] = {
        status: {} if 300 <= status < 400 else {operation.media_type: {"schema": _schema(operation, answer, schema_of)}}
        for status, answer in {operation.status: operation.form.answer, **operation.also}.items()
    }
    if operation.streams is not None:
        event = {
            "schema": schema_of[repr(operation.streams)]
        }  # the schema of one event: OpenAPI can't describe a stream of them
        content[operation.status] |= dict.fromkeys(STREAM_KINDS, event)
    for status in operation.refuses:
        content.setdefault(status, {})[JSON] = {"schema": schema_of[repr(ErrorBody)]}
    return {
        str(status): {"description": _MEANINGS[status], **({"content": of_status} if of_status else {})}
        for status, of_status in sorted(content.items())
    }


def _schema(operation: Operation, answer: Any, schema_of: dict[str, Any]) -> JsonObject:
    if answer is not AsgiResponse:
        schema: JsonObject = schema_of[repr(answer)]
        return schema
    return {"type": "string"} if operation.media_type.startswith("text/") else {}
