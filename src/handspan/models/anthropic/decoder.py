"""Reads answers of the Anthropic Messages API, streamed and whole, to the same message.

The content is rebuilt block by block as the answer would hold it without streaming: blocks and deltas of kinds that
we do not know are kept too, since they have to go back to the API.
"""

import json
from collections.abc import Sequence
from typing import Final, NoReturn, final

import msgspec

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Native, Part, StopReason, Text, Thinking, Usage
from handspan.core.values import Json, JsonObject
from handspan.models.anthropic.blocks import as_object, encoded, mended, mended_text
from handspan.models.anthropic.faults import fault_in_stream
from handspan.models.model import CallDelta, ModelError, ModelEvent, TextDelta, ThinkingDelta

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


@final
class AnthropicDecoder:
    """Reads one streamed answer, event by event."""

    def __init__(self, names: dict[str, str], model: str) -> None:
        self._names = names
        self._model = model
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._usage: JsonObject = {}
        self._stop: Json = None
        self._ended = False

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """What this server-sent event says; `ModelError` for an error event."""
        if self._ended or not data.strip() or data.strip() == "[DONE]":
            return ()
        body = _parsed(data)
        match body.get("type") or event:
            case "content_block_delta":
                return self._block_of(body).grow(_object_of(body.get("delta")))
            case "content_block_start":
                return self._begin(body)
            case "content_block_stop":
                return self._block_of(body).close()
            case "message_start":
                counts = _object_of(_object_of(body.get("message")).get("usage"))
                # Of the output nothing is known yet: the count there is no count.
                self._count({**counts, "output_tokens": None})
            case "message_delta":
                self._stop = _object_of(body.get("delta")).get("stop_reason") or self._stop
                self._count(_object_of(body.get("usage")))
            case "message_stop":
                self._ended = True
            case "error":
                raise fault_in_stream(body)
        return ()

    def finish(self) -> AssistantMessage:
        """The whole answer, after the stream ended; `ModelError` when the end never came."""
        if not self._ended or any(block.is_open and block.kind == "tool_use" for block in self._blocks):
            raise ModelError("cut", "The model's answer broke off before its end. Try again.")
        for block in self._blocks:
            block.close()
        return _message(self._blocks, self._stop, self._usage, self._names, self._model)

    def _begin(self, body: JsonObject) -> Sequence[ModelEvent]:
        content, index = body.get("content_block"), body.get("index")
        if not isinstance(content, dict):
            raise _unreadable("a content block begins without content")
        block = _Block(len(self._blocks), content)
        self._blocks.append(block)
        self._by_index[index if isinstance(index, int) else block.position] = block
        return block.begin(self._names)

    def _block_of(self, body: JsonObject) -> "_Block":
        """The block that an event speaks of; one without an index speaks of the last."""
        index = body.get("index")
        block = self._by_index.get(index if isinstance(index, int) else len(self._blocks) - 1)
        if block is None:
            raise _unreadable(f"it goes on with content block {index!r}, which never began")
        return block

    def _count(self, usage: JsonObject) -> None:
        """Take over counts. They are totals: a later one replaces an earlier one, and null says nothing."""
        self._usage.update((key, value) for key, value in usage.items() if value is not None)


def decode_answer(body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
    """The message of an answer that was not streamed; `ModelError` when it makes no sense."""
    if body.get("type") == "error" or ("error" in body and "content" not in body):
        raise fault_in_stream(body)
    if "content" not in body:
        raise _unreadable("it has no content")
    content = body["content"] or []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise _unreadable("its content is no list of blocks")
    blocks = [_Block(position, _object_of(item)) for position, item in enumerate(content)]
    for block in blocks:
        block.close()
    return _message(blocks, body.get("stop_reason"), _object_of(body.get("usage")), names, model)


@final
class _Block:
    """One content block, complete or still growing."""

    def __init__(self, position: int, content: JsonObject) -> None:
        self.position = position
        self.content = dict(content)
        self.kind = _text_of(content.get("type"))
        self.is_open = True
        self.arguments = ""
        """The JSON text of a call's input: as it was streamed, or of what came whole."""
        self._pieces: dict[str, list[str]] = {}
        self._held = ""

    def begin(self, names: dict[str, str]) -> Sequence[ModelEvent]:
        """What its start says."""
        match self.kind:
            case "text" if text := _text_of(self.content.get("text")):
                return (TextDelta(mended_text(text)),)
            case "thinking" if text := _text_of(self.content.get("thinking")):
                return (ThinkingDelta(mended_text(text)),)
            case "tool_use":
                name = _text_of(self.content.get("name"))
                return (CallDelta(self.position, name=names.get(name, name)),)
        return ()

    def grow(self, delta: JsonObject) -> Sequence[ModelEvent]:
        """Take over a delta, and what can be shown of it."""
        match delta.get("type"):
            case "text_delta":
                shown = self._append("text", delta.get("text"))
                return (TextDelta(shown),) if shown else ()
            case "thinking_delta":
                shown = self._append("thinking", delta.get("thinking"))
                return (ThinkingDelta(shown),) if shown else ()
            case "input_json_delta":
                shown = self._append("input", delta.get("partial_json"))
                return (CallDelta(self.position, arguments=shown),) if shown and self.kind == "tool_use" else ()
            case "citations_delta":
                old = self.content.get("citations")
                self.content["citations"] = [*(old if isinstance(old, list) else []), delta.get("citation")]
            case _:
                self._merge(delta)
        return ()

    def close(self) -> Sequence[ModelEvent]:
        """Put the pieces together: no more will come. What is to be shown is an input that came whole."""
        if not self.is_open:
            return ()
        self.is_open = False
        for field, pieces in self._pieces.items():
            if field != "input":
                self.content[field] = _text_of(self.content.get(field)) + mended_text("".join(pieces))
        return self._close_input() if "input" in self.content or "input" in self._pieces else ()

    def _close_input(self) -> Sequence[ModelEvent]:
        streamed = mended_text("".join(self._pieces.get("input", ())))
        came = self.content.get("input")
        if streamed.strip():
            self.arguments = streamed
        else:  # compatible servers send a text where an object belongs, or null
            self.arguments = came if isinstance(came, str) and came.strip() else encoded(came or {}).decode()
        if streamed.strip() or not isinstance(came, dict):
            self.content["input"] = as_object(self.arguments)
        is_new = self.kind == "tool_use" and came and not streamed.strip()
        return (CallDelta(self.position, arguments=self.arguments),) if is_new else ()

    def _append(self, field: str, piece: Json) -> str:
        """Add to a field; what can be shown now. Half of a surrogate pair waits for its other half."""
        text = _text_of(piece)
        self._pieces.setdefault(field, []).append(text)
        text = self._held + text
        self._held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return mended_text(text[:-1] if self._held else text)

    def _merge(self, delta: JsonObject) -> None:
        """Take over a delta of a kind that we need not know: text is appended, everything else replaces."""
        for field, value in delta.items():
            old = self.content.get(field)
            if isinstance(old, str) and isinstance(value, str) and field not in ("type", "signature"):
                self.content[field] = old + value
            elif field != "type":
                self.content[field] = value


def _message(
    blocks: list[_Block], reason: Json, usage: JsonObject, names: dict[str, str], model: str
) -> AssistantMessage:
    stop = _STOPS.get(_text_of(reason), "other")
    # What was refused is not to be acted upon. Of a cut answer the last block is the one that was cut: nobody can tell
    # whether it was whole.
    runnable = {"refusal": 0, "length": len(blocks) - 1}.get(stop, len(blocks))
    parts = [part for block in blocks for part in _parts(block, names, is_runnable=block.position < runnable)]
    has_calls = any(type(part) is CallPart for part in parts)
    if has_calls and (stop == "end" or not reason):
        stop = "calls"
    elif stop == "calls" and not has_calls:
        stop = "end"
    native = Native("anthropic", model, _encodable([block.content for block in blocks]))
    return AssistantMessage(tuple(parts), stop, model, _usage(usage), native)


def _parts(block: _Block, names: dict[str, str], *, is_runnable: bool) -> list[Part]:
    """What we show of a block. Of those that are not here the native content keeps all."""
    match block.kind:
        case "text" if text := mended_text(_text_of(block.content.get("text"))):
            return [Text(text)]
        case "thinking" if text := mended_text(_text_of(block.content.get("thinking"))):
            return [Thinking(text)]
        case "tool_use" if is_runnable:
            name = mended_text(_text_of(block.content.get("name")))
            wire_id = mended_text(_text_of(block.content.get("id")))
            return [CallPart(new_call_id(), names.get(name, name), block.arguments, wire_id)]
    return []


def _usage(counts: JsonObject) -> Usage | None:
    """Tokens; those of the input are counted in three places, and unknown stays unknown."""
    fresh, written, cached = (
        _count_of(counts.get(key)) for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    usage = Usage(
        input=None if fresh is None else fresh + (written or 0) + (cached or 0),
        output=_count_of(counts.get("output_tokens")),
        cached=cached,
        reasoning=_count_of(_object_of(counts.get("output_tokens_details")).get("thinking_tokens")),
    )
    return None if usage == Usage() else usage


def _encodable(content: list[JsonObject]) -> Json:
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        return [mended(block) for block in content]
    return [*content]


def _parsed(data: str) -> JsonObject:
    try:
        body: Json = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        body = _parsed_leniently(data)
    if not isinstance(body, dict):
        raise _unreadable("an event is no JSON object")
    return body


def _parsed_leniently(data: str) -> Json:
    """The value with halves of surrogate pairs left as they are: the other half may come with the next event."""
    try:
        value: Json = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _unreadable(reason: str) -> ModelError:
    return ModelError(
        "unreadable", f"The model's answer can't be read: {reason}. Try again, or check the base URL in the settings."
    )


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _object_of(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _count_of(value: Json) -> int | None:
    return value if type(value) is int and value >= 0 else None
