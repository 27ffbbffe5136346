"""The codec of the Anthropic Messages API: what to send and how to read the answer.

`blocks.py` encodes messages one by one, `decoder.py` reads answers, `faults.py` explains errors. The API's version is
fixed here, because newer versions refuse fields that people set.
"""

from collections.abc import Sequence
from typing import Final, final

import msgspec
from msgspec import UNSET, UnsetType

from handspan.core.messages import Api, AssistantMessage, Message, ResultsMessage
from handspan.core.values import JsonObject
from handspan.models.anthropic.blocks import IMAGES, assistant_blocks, result_blocks, user_blocks, wire_ids
from handspan.models.anthropic.decoder import AnthropicDecoder, decode_answer
from handspan.models.anthropic.faults import fault_of_answer
from handspan.models.json_values import encode_json, json_object, json_objects
from handspan.models.model import LoweredTool, Prompt

API_VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 16_000

_USER: Final = b'{"role":"user","content":['
_ASSISTANT: Final = b'{"role":"assistant","content":['
_ROLE_AT: Final = len(b'{"role":"')
"""The place of the role's first letter in an item."""
_END: Final = b"]}"
_OURS: Final = frozenset(("model", "messages", "system", "tools", "stream"))
"""Fields of the request that no option replaces."""
_CACHE: Final[JsonObject] = {"cache_control": {"type": "ephemeral"}}
"""Marks an end up to which the prompt cache keeps the request."""
_NO_TOOL: Final[JsonObject] = {
    "name": "no_tools_left",
    "description": "There are no tools any more.",
    "input_schema": {"type": "object", "properties": {}},
}


@final
class AnthropicCodec:
    """The Messages API's format. With a `model`, thinking goes back only to it: another may refuse the signature."""

    api: Api = "anthropic"
    images = IMAGES
    decode = staticmethod(decode_answer)
    decoder = staticmethod(AnthropicDecoder)
    fault = staticmethod(fault_of_answer)

    def __init__(self, model: str = "") -> None:
        self._model = model

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """Return the message as one item of `messages`; no item when nothing of it can be sent."""
        match message:
            case AssistantMessage():
                ids = {} if before is UNSET else wire_ids(message)
                return _item(_ASSISTANT, assistant_blocks(message, ids, model=self._model))
            case ResultsMessage():
                ids = wire_ids(before) if type(before) is AssistantMessage else {}
                return _item(_USER, result_blocks(message, ids))
        return _item(_USER, user_blocks(message))

    def request(self, prompt: Prompt) -> bytes:
        """Return the body of the request.

        The parts that stay the same in the next request, and the end of the conversation, are marked for the prompt
        cache. The option `cache_control` replaces these marks; null turns them off. Other options that are null are
        left out. The option `tools` holds the vendor's own tools, which come after ours.
        """
        options = prompt.options
        marks = {} if "cache_control" in options else _CACHE
        budget = json_object(options.get("thinking")).get("budget_tokens")
        limit = DEFAULT_MAX_TOKENS + (budget if type(budget) is int else 0)  # above the budget for thinking
        head: JsonObject = {"model": prompt.model, "max_tokens": limit, "stream": prompt.stream}
        head |= {key: value for key, value in options.items() if value is not None and key not in _OURS}
        if prompt.instructions.strip():
            head["system"] = [{"type": "text", "text": prompt.instructions, **marks}]
        head |= _tool_fields(prompt, marks)
        if "tools" not in head:
            head.pop("tool_choice", None)
        if not _may_think(prompt):
            del head["thinking"]
        return encode_json(head)[:-1] + b',"messages":' + _conversation(prompt.items, marks) + b"}"

    def path(self, model: str, *, stream: bool) -> str:
        return "/v1/messages"  # the base URL ends before `/v1`

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key, if there is one, and with the API's version."""
        pinned = {"anthropic-version": API_VERSION}
        return {"x-api-key": key, **pinned} if key else pinned


def _item(opening: bytes, blocks: list[JsonObject]) -> list[bytes]:
    return [opening + encode_json([*blocks])[1:-1] + _END] if blocks else []


def _conversation(items: Sequence[bytes], marks: JsonObject) -> bytes:
    """Return the items as a JSON list in which roles alternate. `marks`: fields for the end of the last message.

    The API joins neighbours of one role itself, but compatible servers may not. So a person's message that comes while
    tools run is joined to the message of the results, after them.
    """
    roles = bytes(item[_ROLE_AT] for item in items)
    turns = _join_neighbours(items) if b"uu" in roles or b"aa" in roles else list(items)
    if marks and turns and turns[-1].startswith(_USER):
        turns[-1] = turns[-1][: -len(_END) - 1] + b"," + encode_json(marks)[1:] + _END
    return b"[" + b",".join(turns) + b"]"


def _join_neighbours(items: Sequence[bytes]) -> list[bytes]:
    """Return the turns, each joined with a neighbour of the same role: the API wants the roles to alternate."""
    turns: list[bytes] = []
    for item in items:
        opening = _ASSISTANT if item.startswith(_ASSISTANT) else _USER
        if turns and turns[-1].startswith(opening):
            turns[-1] = turns[-1][: -len(_END)] + b"," + item[len(opening) :]
        else:
            turns.append(item)
    return turns


def _tool_fields(prompt: Prompt, marks: JsonObject) -> JsonObject:
    """Return the fields that declare tools, in the caller's order: another order would miss the prompt cache."""
    declared = [_tool(tool) for tool in prompt.tools]
    if declared:
        declared[-1] |= marks
    declared += json_objects(prompt.options.get("tools"))
    if declared:
        return {"tools": [*declared]}
    # The API refuses a conversation with calls when no tool is declared, and `tool_choice` without tools.
    if any(b'"type":"tool_use"' in item for item in prompt.items):
        return {"tools": [_NO_TOOL], "tool_choice": {"type": "none"}}
    return {}


def _tool(tool: LoweredTool) -> JsonObject:
    declared: JsonObject = {"name": tool.name, "input_schema": tool.schema}
    if tool.spec.description.strip():
        declared["description"] = tool.spec.description
    if tool.strict:
        declared["strict"] = True
    return declared


def _may_think(prompt: Prompt) -> bool:
    """Return whether the request may ask for thinking with a budget.

    The API refuses it after calls without thinking. That happens when another API's model made the calls.
    """
    if json_object(prompt.options.get("thinking")).get("type") != "enabled":
        return True
    last = next((item for item in reversed(prompt.items) if item.startswith(_ASSISTANT)), b"")
    if b'"type":"tool_use"' not in last:
        return True
    return msgspec.json.decode(last)["content"][0]["type"] in ("thinking", "redacted_thinking")
