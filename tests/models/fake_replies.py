"""One scripted turn in the format of each of the four APIs: as a whole answer, and as the events of a stream."""

import base64
import itertools
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.messages import Api
from tests.models.schema.validators import Issued

Fault: TypeAlias = Literal[
    "rate_limited",
    "server_error",
    "overloaded",
    "quota",
    "auth",
    "unknown_model",
    "too_long",
    "cut",
    "cut_clean",
    "late_break",
    "unended",
    "hang",
    "hang_midway",
    "garbage",
    "broken_json",
    "wrong_type",
    "html",
    "reset",
    "error_event",
    "not_streamed",
    "redirect",
    "echo_key",
]


class Call(Struct, frozen=True):
    """A call that the model makes; `arguments` is JSON text, and may be broken where the API lets that happen."""

    name: str
    arguments: str = "{}"


class Turn(Struct, frozen=True):
    """What the model does for one request."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    stop: Literal["", "length", "refusal"] = ""
    input: int = 12
    output: int = 7
    cached: int = 0
    fault: Fault | None = None
    retry_after: str = ""
    delta: int = 8
    """Characters of text or arguments in one event. 0: only whole items come, as of some servers of Responses."""
    chunk: int = 0
    """Bytes in one write; 0: an event a write. With 1 every character of UTF-8 is split."""
    ids: bool = True
    """False: Gemini gives its calls no ids, as it may."""


class SseLine(Struct, frozen=True):
    """One server-sent event."""

    data: str
    name: str = ""

    def encoded(self) -> bytes:
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {self.data}\n\n".encode()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)] if size else []


class Words:
    """Speaks one API. Keeps in `issued` which signatures and ids it has handed out."""

    def __init__(self, api: Api, issued: Issued, numbers: Iterator[int]) -> None:
        self._api = api
        self._issued = issued
        self._numbers = numbers

    def whole(self, turn: Turn, model: str) -> bytes:
        """The answer that is not streamed."""
        return msgspec.json.encode(self._answer(turn, model))

    def stream(self, turn: Turn, model: str, *, with_usage: bool = True) -> list[SseLine]:
        """The answer as a stream."""
        answer = self._answer(turn, model)
        match self._api:
            case "openai-chat":
                return list(_chat_events(turn, answer, with_usage=with_usage))
            case "openai-responses":
                return _numbered(_responses_events(turn, answer))
            case "anthropic":
                return list(_anthropic_events(turn, answer))
            case "gemini":
                return list(_gemini_events(turn, answer))

    def _answer(self, turn: Turn, model: str) -> dict[str, Any]:
        match self._api:
            case "openai-chat":
                return self._chat(turn, model)
            case "openai-responses":
                return self._responses(turn, model)
            case "anthropic":
                return self._anthropic(turn, model)
            case "gemini":
                return self._gemini(turn, model)

    def _id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):06d}"

    def _signature(self) -> str:
        signature = base64.b64encode(self._id("signature ").encode()).decode()
        self._issued.signatures.add(signature)
        return signature

    def _chat(self, turn: Turn, model: str) -> dict[str, Any]:
        calls = [
            {"id": self._id("call_"), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        message |= {"reasoning_content": turn.thinking} if turn.thinking else {}
        message |= {"tool_calls": calls} if calls else {}
        reasons = {"": "tool_calls" if calls else "stop", "length": "length", "refusal": "content_filter"}
        usage = {
            "prompt_tokens": turn.input,
            "completion_tokens": turn.output,
            "total_tokens": turn.input + turn.output,
            "prompt_tokens_details": {"cached_tokens": turn.cached},
        }
        return {
            "id": self._id("chatcmpl-"),
            "object": "chat.completion",
            "created": 1_770_000_000,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": reasons[turn.stop], "logprobs": None}],
            "usage": usage,
        }

    def _responses(self, turn: Turn, model: str) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        if turn.thinking:
            summary = [{"type": "summary_text", "text": turn.thinking}]
            reasoning = {"id": self._id("rs_"), "type": "reasoning", "summary": summary}
            items.append({**reasoning, "encrypted_content": self._signature()})
        if turn.text:
            content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
            if turn.stop == "refusal":
                content = [{"type": "refusal", "refusal": turn.text}]
            message = {"id": self._id("msg_"), "type": "message", "role": "assistant", "status": "completed"}
            items.append({**message, "content": content})
        for call in turn.calls:
            item = {"id": self._id("fc_"), "type": "function_call", "call_id": self._id("call_"), "name": call.name}
            items.append({**item, "arguments": call.arguments, "status": "completed"})
            if turn.thinking:
                self._issued.reasoning_of[item["id"]] = items[0]["id"]
        cut = turn.stop == "length"
        return {
            "id": self._id("resp_"),
            "object": "response",
            "created_at": 1_770_000_000,
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": None,
            "metadata": {},
            "model": model,
            "output": items,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": {
                "input_tokens": turn.input,
                "input_tokens_details": {"cached_tokens": turn.cached, "cache_write_tokens": 0},
                "output_tokens": turn.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": turn.input + turn.output,
            },
        }

    def _anthropic(self, turn: Turn, model: str) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        if turn.thinking:
            blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": self._signature()})
        if turn.text:
            blocks.append({"type": "text", "text": turn.text, "citations": None})
        for call in turn.calls:
            block = {"type": "tool_use", "id": self._id("toolu_"), "name": call.name}
            blocks.append({**block, "input": msgspec.json.decode(call.arguments), "caller": {"type": "direct"}})
        reasons = {"": "tool_use" if turn.calls else "end_turn", "length": "max_tokens", "refusal": "refusal"}
        return {
            "id": self._id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": blocks,
            "stop_reason": reasons[turn.stop],
            "stop_sequence": None,
            "usage": {
                "input_tokens": turn.input - turn.cached,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": turn.cached,
                "output_tokens": turn.output,
            },
        }

    def _gemini(self, turn: Turn, model: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        if turn.thinking:
            parts.append({"text": turn.thinking, "thought": True})
        if turn.text:
            parts.append({"text": turn.text})
        for place, call in enumerate(turn.calls):
            made = {"name": call.name, "args": msgspec.json.decode(call.arguments)}
            made |= {"id": self._id("g")} if turn.ids else {}
            # Only the first of parallel calls is signed.
            signed = {"thoughtSignature": self._signature()} if turn.thinking and place == 0 else {}
            parts.append({"functionCall": made, **signed})
        reasons = {"": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
        usage = {
            "promptTokenCount": turn.input,
            "candidatesTokenCount": turn.output,
            "totalTokenCount": turn.input + turn.output,
        }
        usage |= {"cachedContentTokenCount": turn.cached} if turn.cached else {}
        content = {"role": "model", "parts": parts} if parts else {"role": "model"}
        return {
            "candidates": [{"content": content, "finishReason": reasons[turn.stop], "index": 0}],
            "usageMetadata": usage,
            "modelVersion": model,
            "responseId": self._id("r"),
        }


def _chat_events(turn: Turn, answer: dict[str, Any], *, with_usage: bool) -> Iterator[SseLine]:
    head = {
        "id": answer["id"],
        "object": "chat.completion.chunk",
        "created": answer["created"],
        "model": answer["model"],
    }
    choice = answer["choices"][0]

    def chunk(delta: dict[str, Any], reason: str | None = None) -> SseLine:
        return SseLine(_json({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(turn.thinking, turn.delta):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(turn.text, turn.delta):
        yield chunk({"content": piece})
    calls = choice["message"].get("tool_calls", ())
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
    # The arguments of parallel calls take turns: only the index says whose a piece is.
    fragments = [_pieces(call["function"]["arguments"], turn.delta) for call in calls]
    for together in itertools.zip_longest(*fragments, fillvalue=""):
        for index, piece in enumerate(together):
            if piece:
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield SseLine(_json({**head, "choices": [], "usage": answer["usage"]}))
    yield SseLine("[DONE]")


def _responses_events(turn: Turn, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        at = {"item_id": item["id"], "output_index": index}
        match item["type"]:
            case "reasoning":
                yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "summary": []}}
                yield from _summary_events(item, at, turn.delta)
            case "message":
                empty = {**item, "status": "in_progress", "content": []}
                yield {"type": "response.output_item.added", "output_index": index, "item": empty}
                yield from _message_events(item, at, turn.delta)
            case "function_call":
                empty = {**item, "status": "in_progress", "arguments": ""}
                yield {"type": "response.output_item.added", "output_index": index, "item": empty}
                for piece in _pieces(item["arguments"], turn.delta):
                    yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield {"type": "response.function_call_arguments.done", **at, **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{answer['status']}", "response": answer}


def _summary_events(item: dict[str, Any], at: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    part, place = item["summary"][0], {**at, "summary_index": 0}
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"], size):
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _message_events(item: dict[str, Any], at: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    part, place = item["content"][0], {**at, "content_index": 0}
    kind = "refusal" if part["type"] == "refusal" else "text"
    event = "response.refusal" if kind == "refusal" else "response.output_text"
    more: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**part, kind: ""}}
    for piece in _pieces(part[kind], size):
        yield {"type": f"{event}.delta", **place, "delta": piece, **more}
    yield {"type": f"{event}.done", **place, kind: part[kind], **more}
    yield {"type": "response.content_part.done", **place, "part": part}


def _numbered(events: Iterator[dict[str, Any]]) -> list[SseLine]:
    return [SseLine(_json({**event, "sequence_number": number}), event["type"]) for number, event in enumerate(events)]


def _anthropic_events(turn: Turn, answer: dict[str, Any]) -> Iterator[SseLine]:
    def event(kind: str, **fields: Any) -> SseLine:
        return SseLine(_json({"type": kind, **fields}), kind)

    usage = {**answer["usage"], "output_tokens": 1}
    yield event("message_start", message={**answer, "content": [], "stop_reason": None, "usage": usage})
    for index, block in enumerate(answer["content"]):
        match block["type"]:
            case "thinking":
                yield event(
                    "content_block_start", index=index, content_block={**block, "thinking": "", "signature": ""}
                )
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(turn.thinking, turn.delta)]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                yield event("content_block_start", index=index, content_block={**block, "text": ""})
                deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(turn.text, turn.delta)]
            case _:
                yield event("content_block_start", index=index, content_block={**block, "input": {}})
                text = _json(block["input"]) if block["input"] else ""
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text, turn.delta)]
                deltas.insert(0, {"type": "input_json_delta", "partial_json": ""})
        yield event("ping")
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stopped = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=stopped, usage={"output_tokens": turn.output})
    yield event("message_stop")


def _gemini_events(turn: Turn, answer: dict[str, Any]) -> Iterator[SseLine]:
    candidate = answer["candidates"][0]
    head = {"modelVersion": answer["modelVersion"], "responseId": answer["responseId"]}
    usage = answer["usageMetadata"]

    def chunk(parts: list[dict[str, Any]], **more: Any) -> SseLine:
        content = {"role": "model", "parts": parts} if parts else {"role": "model"}
        return SseLine(
            _json({"candidates": [{"content": content, "index": 0, **more}], "usageMetadata": usage, **head})
        )

    for part in candidate["content"].get("parts", ()):
        if "text" in part:
            for piece in _pieces(part["text"], turn.delta):
                yield chunk([{**part, "text": piece}])
        else:  # arguments arrive whole
            yield chunk([part])
    yield chunk([{"text": ""}], finishReason=candidate["finishReason"])
