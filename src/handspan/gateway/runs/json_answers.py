"""Answers that fit a JSON Schema of the client: the model gives one by a last call (`agent/final_answer.py`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from handspan.agent.final_answer import FINAL_ANSWER, NO_ANSWER, final_answer_spec, strip_fence
from handspan.core.context import ToolContext
from handspan.core.errors import WireError
from handspan.core.principals import Origin, ToolScope
from handspan.core.schema import Validator
from handspan.core.tool import Handling
from handspan.core.values import Arguments, Json, JsonObject, strip_schema
from handspan.registry.registry import Registry
from handspan.sources.offers import OfferedSchema, OfferRules
from handspan.wire import strict_json

_WRAPPED: Final = "answer"
"""The parameter that holds an answer which is no JSON object."""


class JsonAnswer:
    """The tool that the model calls to give its answer, for one turn."""

    def __init__(self, schema: JsonObject, rules: OfferRules) -> None:
        """Raise `DefinitionError` for a schema that can't be used, or is larger than that of a tool may be."""
        self._is_wrapped = schema.get("type") != "object"
        parameters = strip_schema(_wrap(schema) if self._is_wrapped else schema)
        rules.check_schema(OfferedSchema(parameters, len(msgspec.json.encode(parameters))))
        self._validator = Validator(parameters)
        self.spec = final_answer_spec(parameters)
        self.handling = Handling("loop", validator=self._validator)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """Take the answer: the engine has found that it fits."""
        return "The answer was taken."

    def read(self, text: str) -> str | None:
        """Return the answer of a turn that ended with this text, as JSON; None if the text is none that fits.

        Some models write the JSON of the answer instead of calling the tool. That counts too.
        """
        if text == NO_ANSWER:
            return None
        try:
            value = strict_json.parse(strip_fence(text).encode())
        except WireError:
            return None
        is_arguments = not self._is_wrapped or (isinstance(value, dict) and [*value] == [_WRAPPED])
        arguments: Json = value if is_arguments else {_WRAPPED: value}
        if not isinstance(arguments, dict) or self._validator.problems(arguments):
            return None
        return msgspec.json.encode(arguments[_WRAPPED] if self._is_wrapped else arguments).decode()

    @contextmanager
    def registered(self, registry: Registry, session_id: str) -> Iterator[None]:
        """Open a block in which turns of this session have the tool."""
        origin = Origin("plugin", FINAL_ANSWER, session_id)
        registry.register(self, origin, ToolScope("turn", session_id), self.handling)
        try:
            yield
        finally:
            registry.unregister_by_source(origin)


def _wrap(schema: JsonObject) -> JsonObject:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    outer: JsonObject = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer
