"""Reads an answer of the chat format: streamed or whole, from OpenAI or from a server that is nearly like it."""

import base64
import binascii
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Media, Native, Part, StopReason, Text, Thinking, Usage
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject
from handspan.models.chat.calls import CallAssembler
from handspan.models.chat.servers import ANY_SERVER, ChatServer
from handspan.models.chat.text_calls import TextCallFilter, split_calls
from handspan.models.json_values import (
    SurrogateJoiner,
    json_count,
    json_object,
    json_objects,
    json_text,
    mend_text,
    read_object,
    unreadable_error,
)
from handspan.models.model import ModelError, ModelEvent, TextDelta, ThinkingDelta
from handspan.models.openai.faults import fault_in_stream

_Kind: TypeAlias = Literal["text", "thinking"]

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
_STOPS: Final[dict[str, StopReason]] = {
    "": "end",
    "stop": "end",
    "eos": "end",
    "eos_token": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_calls": "end",  # when there are none (OpenClaw#21985); with calls it is "calls"
    "function_call": "end",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}
_BROKEN_OFF: Final = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder:
    """Reads one answer, piece by piece."""

    def __init__(self, names: dict[str, str], model: str, server: ChatServer = ANY_SERVER) -> None:
        self._names = names
        self._model = model
        self._calls = CallAssembler(names)
        self._gate = TextCallFilter(names) if server.prints_calls and names else None
        self._said: list[tuple[_Kind, list[str]]] = []
        self._joiners: dict[_Kind, SurrogateJoiner] = {"text": SurrogateJoiner(), "thinking": SurrogateJoiner()}
        self._images: list[Media] = []
        self._fields: dict[str, list[str]] = {}
        """Reasoning as the server names it, to be sent back."""
        self._details: list[Json] = []
        self._has_blocks = False
        self._refused = False
        self._usage: Usage | None = None
        self._finish: str | None = None
        self._has_choice = False
        self._done = False

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """What this event says; `ModelError` for an error."""
        if self._done or not data.strip():
            return []
        if data.strip() == "[DONE]":
            self._done = True
            return self._let_go()
        chunk = read_object(data)
        if event == "error":
            raise fault_in_stream(chunk)
        return self.take(chunk)

    def take(self, chunk: JsonObject) -> list[ModelEvent]:
        """What this object says: a piece of a stream, or a whole answer."""
        if chunk.get("error") or chunk.get("object") == "error":
            raise fault_in_stream(chunk)
        self._usage = _usage(chunk) or self._usage
        choice = next((item for item in json_objects(chunk.get("choices")) if not item.get("index")), None)
        if choice is None:
            return []
        if choice.get("error"):
            raise fault_in_stream(choice)
        self._has_choice = True
        events = self._take_delta(json_object(choice.get("delta")) or json_object(choice.get("message")))
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self._finish = reason
            events += self._let_go()
        return events

    def finish(self) -> AssistantMessage:
        """The whole answer; `ModelError` ("cut") when its end never came."""
        if not self._has_choice or (self._finish is None and not self._done):
            raise ModelError("cut", "The model's answer was cut off before its end. Nothing of it was used: try again.")
        return self._message()

    def finish_whole(self) -> AssistantMessage:
        """The answer that came in one piece."""
        if not self._has_choice:
            raise unreadable_error("it has no 'choices'")
        return self._message()

    def _take_delta(self, delta: JsonObject) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        self._take_reasoning(delta, events)
        self._take_content(delta.get("content"), events)
        if refusal := json_text(delta.get("refusal")):
            self._refused = True
            self._say("text", refusal, events)
        for image in json_objects(delta.get("images")):  # OpenRouter
            self._take_image(json_text(json_object(image.get("image_url")).get("url")))
        entries = json_objects(delta.get("tool_calls"))
        if not entries and isinstance(call := delta.get("function_call"), dict):  # the format of 2023
            entries = [{"index": 0, "function": call}]
        events += [told for entry in entries if (told := self._calls.take(entry))]
        return events

    def _take_reasoning(self, delta: JsonObject, events: list[ModelEvent]) -> None:
        given = {field: text for field in _REASONING_FIELDS if isinstance(text := delta.get(field), str)}
        for field, text in given.items():
            self._fields.setdefault(field, []).append(text)
        if text := next(filter(None, given.values()), ""):  # vLLM says the same thing in both
            self._say("thinking", text, events)
        for detail in json_objects(delta.get("reasoning_details")):
            _add_detail(self._details, detail)

    def _take_content(self, content: Json, events: list[ModelEvent]) -> None:
        if isinstance(content, str):
            self._say("text", content, events)
        for block in json_objects(content):
            if block.get("type") == "thinking":  # Mistral
                self._has_blocks = True
                inner = block.get("thinking")
                texts = (
                    [inner] if isinstance(inner, str) else [json_text(item.get("text")) for item in json_objects(inner)]
                )
                self._say("thinking", "".join(texts), events)
            elif block.get("type") == "image_url":
                self._take_image(json_text(json_object(block.get("image_url")).get("url")))
            else:
                self._say("text", json_text(block.get("text")), events)

    def _say(self, kind: _Kind, text: str, events: list[ModelEvent]) -> None:
        if text := self._joiners[kind].feed(text):
            self._note(kind, text)
            if kind == "thinking":
                events.append(ThinkingDelta(text))
            elif shown := self._gate.feed(text) if self._gate else text:
                events.append(TextDelta(shown))

    def _note(self, kind: _Kind, text: str) -> None:
        if not self._said or self._said[-1][0] != kind:
            self._said.append((kind, []))
        self._said[-1][1].append(text)

    def _take_image(self, url: str) -> None:
        head, comma, data = url.partition(",")
        media_type = head.removeprefix("data:").removesuffix(";base64")
        if head.startswith("data:image/") and head.endswith(";base64") and comma:
            try:
                self._images.append(Media(Attachment("image", media_type, base64.b64decode(data, validate=True))))
            except binascii.Error:
                raise unreadable_error("it holds an image that is not base64") from None

    def _let_go(self) -> list[ModelEvent]:
        """What was held back as a possible call and is none."""
        shown = self._gate.close(takes_calls=not self._calls) if self._gate else ""
        return [TextDelta(shown)] if shown else []

    def _message(self) -> AssistantMessage:
        reason = self._finish or ""
        if reason in _BROKEN_OFF:
            raise ModelError(
                "overloaded", f"The model's server broke off its answer ({reason!r}). Try again a little later."
            )
        stop = _STOPS.get(reason, "other")
        calls = self._calls.parts(cut=stop in ("length", "refusal"))
        for kind, joiner in self._joiners.items():
            if lost := joiner.close():
                self._note(kind, lost)
        said = [(kind, "".join(pieces)) for kind, pieces in self._said]
        native = self._native(said) if calls else None
        if not self._calls and self._gate:
            said, calls = self._split(said)
        parts: list[Part] = [Text(text) if kind == "text" else Thinking(text) for kind, text in said if text]
        if stop in ("end", "other") and calls:
            stop = "calls"
        elif stop == "end" and self._refused:
            stop = "refusal"
        return AssistantMessage((*parts, *self._images, *calls), stop, self._model, self._usage, native)

    def _split(self, said: list[tuple[_Kind, str]]) -> tuple[list[tuple[_Kind, str]], list[CallPart]]:
        """The words without the calls that were printed among them, and these calls."""
        text, found = split_calls("".join(text for kind, text in said if kind == "text"), self._names)
        if not found:
            return said, []
        calls = [CallPart(new_call_id(), self._names[name], arguments) for name, arguments in found]
        return [*((kind, text) for kind, text in said if kind == "thinking"), ("text", text)], calls

    def _native(self, said: list[tuple[_Kind, str]]) -> Native | None:
        """The message as it came, where it has something that its parts can't keep and its server wants back."""
        fields: JsonObject = {field: mend_text("".join(pieces)) for field, pieces in self._fields.items()}
        if self._details:
            fields["reasoning_details"] = self._details
        if not fields and not self._has_blocks and not self._calls.has_extras:
            return None
        content: Json = "".join(text for kind, text in said if kind == "text") or None
        if self._has_blocks:
            content = [_block(kind, text) for kind, text in said]
        message: JsonObject = {"role": "assistant", "content": content, **fields, "tool_calls": self._calls.verbatim()}
        return Native("openai-chat", self._model, message)


def _block(kind: _Kind, text: str) -> JsonObject:
    words: JsonObject = {"type": "text", "text": text}
    return words if kind == "text" else {"type": "thinking", "thinking": [words]}


def _add_detail(details: list[Json], detail: JsonObject) -> None:
    """Add a piece of OpenRouter's reasoning: text joins the item of the same number, the rest is kept as it is."""
    last = details[-1] if details else None
    same = ("type", "index")
    if (
        not isinstance(last, dict)
        or detail.get("index") is None
        or any(last.get(key) != detail.get(key) for key in same)
    ):
        details.append(dict(detail))
        return
    for key, value in detail.items():
        if key in ("text", "summary", "data") and isinstance(value, str):
            last[key] = json_text(last.get(key)) + value
        elif value is not None:
            last[key] = value


def _usage(chunk: JsonObject) -> Usage | None:
    """The tokens that this piece counts; Groq used to put them elsewhere."""
    usage = json_object(chunk.get("usage")) or json_object(json_object(chunk.get("x_groq")).get("usage"))
    if not usage:
        return None
    cached = json_object(usage.get("prompt_tokens_details")).get("cached_tokens")
    for other in ("prompt_cache_hit_tokens", "num_cached_tokens"):  # DeepSeek, Mistral
        cached = usage.get(other) if cached is None else cached
    return Usage(
        json_count(usage.get("prompt_tokens")),
        json_count(usage.get("completion_tokens")),
        json_count(cached),
        json_count(json_object(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )
