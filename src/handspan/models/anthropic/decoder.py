"""Reads answers of the Anthropic Messages API, streamed or whole.

The decoder rebuilds the content of a stream block by block, as an answer without streaming has it. Blocks and deltas
of unknown kinds are kept too, because they have to go back to the API.
"""

from collections.abc import Sequence
from typing import Final, final

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Native, Part, StopReason, Text, Thinking, Usage
from handspan.core.values import Json, JsonObject
from handspan.models.anthropic.blocks import parse_arguments
from handspan.models.anthropic.faults import fault_in_stream
from handspan.models.json_values import (
    SurrogateJoiner,
    encode_json,
    json_count,
    json_list,
    json_object,
    json_text,
    mend_text,
    mend_value,
    read_json,
)
from handspan.models.model import CallDelta, ModelError, ModelEvent, TextDelta, ThinkingDelta

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_DELTAS: Final[dict[str, type[TextDelta | ThinkingDelta]]] = {"text": TextDelta, "thinking": ThinkingDelta}


@final
class AnthropicDecoder:
    """Reads one streamed answer, event by event."""

    def __init__(self, names: dict[str, str], model: str) -> None:
        """`names` leads from the names on the wire back to ours."""
        self._names = names
        self._model = model
        self._blocks: list[_ContentBlock] = []
        self._by_index: dict[int, _ContentBlock] = {}
        """The same blocks by the index that the API's events name."""
        self._usage: JsonObject = {}
        self._stop: Json = None
        self._ended = False

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """Return what this server-sent event says. Raises `ModelError` for an error event."""
        if self._ended or not data.strip() or data.strip() == "[DONE]":
            return ()
        body = read_json(data, allow_nan=False)
        if not isinstance(body, dict):
            raise _unreadable("an event is no JSON object")
        match body.get("type") or event:
            case "content_block_delta":
                return self._block_of(body).grow(json_object(body.get("delta")))
            case "content_block_start":
                return self._begin(body)
            case "content_block_stop":
                return self._block_of(body).close()
            case "message_start":
                counts = json_object(json_object(body.get("message")).get("usage"))
                # The number of output tokens in this event means nothing: there is no output yet.
                self._update_usage({**counts, "output_tokens": None})
            case "message_delta":
                self._stop = json_object(body.get("delta")).get("stop_reason") or self._stop
                self._update_usage(json_object(body.get("usage")))
            case "message_stop":
                self._ended = True
            case "error":
                raise fault_in_stream(body)
        return ()

    def finish(self) -> AssistantMessage:
        """Return the whole answer after the stream. Raises `ModelError` when its end never came."""
        if not self._ended or any(block.is_open and block.kind == "tool_use" for block in self._blocks):
            raise ModelError("cut", "The answer broke off before its end. Try again.")
        for block in self._blocks:
            block.close()
        return _message(self._blocks, self._stop, self._usage, self._names, model=self._model)

    def _begin(self, body: JsonObject) -> Sequence[ModelEvent]:
        content, index = body.get("content_block"), body.get("index")
        if not isinstance(content, dict):
            raise _unreadable("a content block begins without content")
        block = _ContentBlock(len(self._blocks), content)
        self._blocks.append(block)
        self._by_index[index if isinstance(index, int) else block.position] = block
        return block.begin(self._names)

    def _block_of(self, body: JsonObject) -> "_ContentBlock":
        """Return the block of an event. An event without an index belongs to the last block."""
        index = body.get("index")
        block = self._by_index.get(index if isinstance(index, int) else len(self._blocks) - 1)
        if block is None:
            raise _unreadable(f"it goes on with content block {index!r}, which never began")
        return block

    def _update_usage(self, usage: JsonObject) -> None:
        """Store the counts. They are totals, so a later count replaces an earlier one; null is no count."""
        self._usage.update((key, value) for key, value in usage.items() if value is not None)


def decode_answer(body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
    """Return the message of an answer that was not streamed. Raises `ModelError` when it makes no sense."""
    if body.get("type") == "error" or ("error" in body and "content" not in body):
        raise fault_in_stream(body)
    if "content" not in body:
        raise _unreadable("it has no content")
    content = body["content"] or []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise _unreadable("its content is no list of blocks")
    blocks = [_ContentBlock(position, json_object(item)) for position, item in enumerate(content)]
    for block in blocks:
        block.close()
    return _message(blocks, body.get("stop_reason"), json_object(body.get("usage")), names, model=model)


@final
class _ContentBlock:
    """One content block, complete or still growing."""

    def __init__(self, position: int, content: JsonObject) -> None:
        self.position = position
        self.content = dict(content)
        self.kind = json_text(content.get("type"))
        self.is_open = True
        self.arguments = ""
        """The JSON text of a call's input."""
        self._pieces: dict[str, list[str]] = {}
        self._joiner = SurrogateJoiner()

    def begin(self, names: dict[str, str]) -> Sequence[ModelEvent]:
        """Return the events of the block's start."""
        match self.kind:
            case "text" | "thinking" as kind if text := json_text(self.content.get(kind)):
                return (_DELTAS[kind](mend_text(text)),)
            case "tool_use":
                name = json_text(self.content.get("name"))
                return (CallDelta(self.position, name=names.get(name, name)),)
        return ()

    def grow(self, delta: JsonObject) -> Sequence[ModelEvent]:
        """Add a delta, and return its events."""
        match delta.get("type"):
            case "text_delta" | "thinking_delta" as kind:
                field = kind.removesuffix("_delta")
                complete = self._append(field, delta.get(field))
                return (_DELTAS[field](complete),) if complete else ()
            case "input_json_delta":
                complete = self._append("input", delta.get("partial_json"))
                return (CallDelta(self.position, arguments=complete),) if complete and self.kind == "tool_use" else ()
            case "citations_delta":
                self.content["citations"] = [*json_list(self.content.get("citations")), delta.get("citation")]
            case _:
                self._merge(delta)
        return ()

    def close(self) -> Sequence[ModelEvent]:
        """Join the pieces of the block. Return an event for a call's input that came whole, without deltas."""
        if not self.is_open:
            return ()
        self.is_open = False
        for field, pieces in self._pieces.items():
            if field != "input":
                self.content[field] = json_text(self.content.get(field)) + mend_text("".join(pieces))
        return self._close_input() if "input" in self.content or "input" in self._pieces else ()

    def _close_input(self) -> Sequence[ModelEvent]:
        """Set `arguments` and the content's `input` from the deltas, or from the input that came whole."""
        streamed = mend_text("".join(self._pieces.get("input", ())))
        given = self.content.get("input")
        if streamed.strip():
            self.arguments = streamed
        else:  # compatible servers send a text where an object belongs, or null
            self.arguments = given if isinstance(given, str) and given.strip() else encode_json(given or {}).decode()
        if streamed.strip() or not isinstance(given, dict):
            self.content["input"] = parse_arguments(self.arguments)
        is_new = self.kind == "tool_use" and given and not streamed.strip()
        return (CallDelta(self.position, arguments=self.arguments),) if is_new else ()

    def _append(self, field: str, piece: Json) -> str:
        """Add a piece to a field, and return the new complete text (`SurrogateJoiner`)."""
        text = json_text(piece)
        self._pieces.setdefault(field, []).append(text)
        return self._joiner.feed(text)

    def _merge(self, delta: JsonObject) -> None:
        """Add a delta of an unknown kind: text is appended, any other value replaces the old one."""
        for field, value in delta.items():
            old = self.content.get(field)
            if isinstance(old, str) and isinstance(value, str) and field not in ("type", "signature"):
                self.content[field] = old + value
            elif field != "type":
                self.content[field] = value


def _message(
    blocks: list[_ContentBlock], reason: Json, usage: JsonObject, names: dict[str, str], *, model: str
) -> AssistantMessage:
    """Return the whole reply. Calls that were refused or cut off are left out, so that none runs."""
    stop = _STOPS.get(json_text(reason), "other")
    # The calls of a refused answer are not run. In an answer that was cut, the last block may be incomplete.
    runnable = {"refusal": 0, "length": len(blocks) - 1}.get(stop, len(blocks))
    parts = [part for block in blocks for part in _parts(block, names, is_runnable=block.position < runnable)]
    has_calls = any(type(part) is CallPart for part in parts)
    if has_calls and (stop == "end" or not reason):
        stop = "calls"
    elif stop == "calls" and not has_calls:
        stop = "end"
    native = Native("anthropic", model, mend_value([block.content for block in blocks]))
    return AssistantMessage(tuple(parts), stop, model, usage=_usage(usage), native=native)


def _parts(block: _ContentBlock, names: dict[str, str], *, is_runnable: bool) -> list[Part]:
    """Return the parts of a block. Blocks of other kinds are only in the native content."""
    match block.kind:
        case "text" | "thinking" as kind if text := mend_text(json_text(block.content.get(kind))):
            return [Text(text) if kind == "text" else Thinking(text)]
        case "tool_use" if is_runnable:
            name = mend_text(json_text(block.content.get("name")))
            wire_id = mend_text(json_text(block.content.get("id")))
            return [CallPart(new_call_id(), names.get(name, name), block.arguments, wire_id)]
    return []


def _usage(counts: JsonObject) -> Usage | None:
    """Return the token counts. The API counts the input in three fields; an unknown count stays None."""
    fresh, written = json_count(counts.get("input_tokens")), json_count(counts.get("cache_creation_input_tokens"))
    cached = json_count(counts.get("cache_read_input_tokens"))
    usage = Usage(
        input=None if fresh is None else fresh + (written or 0) + (cached or 0),
        output=json_count(counts.get("output_tokens")),
        cached=cached,
        reasoning=json_count(json_object(counts.get("output_tokens_details")).get("thinking_tokens")),
        cache_written=written,
    )
    return None if usage == Usage() else usage


def _unreadable(reason: str) -> ModelError:
    return ModelError(
        "unreadable", f"The model's answer can't be read: {reason}. Try again, or check the base URL in the settings."
    )
