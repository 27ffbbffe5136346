"""Reads answers of the chat format, streamed or whole, from OpenAI and from similar servers."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Media, Native, Part, StopReason, Text, Thinking, Usage
from handspan.core.values import Json, JsonObject
from handspan.models.chat.calls import CallAssembler, read_failed_call
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
from handspan.models.openai.media import read_image

_Kind: TypeAlias = Literal["text", "thinking"]

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
_STOPS: Final[dict[str, StopReason]] = {
    **dict.fromkeys(("", "stop", "eos", "eos_token", "end_turn", "stop_sequence"), "end"),
    **dict.fromkeys(("tool_calls", "function_call"), "end"),  # without calls (OpenClaw#21985); with some it is "calls"
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    "content_filter": "refusal",
}
_SAME: Final = ("type", "index")
_ABORTED: Final = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder:
    """Reads one answer, chunk by chunk."""

    def __init__(self, names: dict[str, str], model: str, server: ChatServer = ANY_SERVER) -> None:
        self._names = names
        self._model = model
        self._calls = CallAssembler(names)
        self._filter = TextCallFilter(names) if server.prints_calls and names else None
        self._runs: list[tuple[_Kind, list[str]]] = []
        """The pieces of text and thinking in the order of the answer; neighbours of one kind are one run."""
        self._joiners: dict[_Kind, SurrogateJoiner] = {"text": SurrogateJoiner(), "thinking": SurrogateJoiner()}
        self._images: list[Media] = []
        self._reasoning: dict[str, list[str]] = {}
        """The pieces of the reasoning by the server's field, to send them back."""
        self._reasoning_details: list[Json] = []
        self._has_thinking_blocks = False
        self._refused = False
        self._usage: Usage | None = None
        self._finish: str | None = None
        """Why the model stopped, in the server's words."""
        self._has_choice = False
        self._done = False
        """Whether the stream has said that it is over."""
        self._failed_call: CallPart | None = None

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """Return what this event says. Raises `ModelError` for an error."""
        if self._done or not data.strip():
            return []
        if data.strip() == "[DONE]":
            self._done = True
            return self._release_held()
        chunk = read_object(data)
        if event == "error" and "error" not in chunk:
            raise fault_in_stream(chunk)
        return self.take(chunk)

    def take(self, chunk: JsonObject) -> list[ModelEvent]:
        """Return what this object says: a chunk of a stream, or a whole answer."""
        if chunk.get("error") or chunk.get("object") == "error":
            return self._take_error(chunk)
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
            events += self._release_held()
        return events

    def _take_error(self, chunk: JsonObject) -> list[ModelEvent]:
        """Keep a call that the server refused. Raises `ModelError` for every other error."""
        self._failed_call = read_failed_call(chunk, self._names)
        if self._failed_call is None:
            raise fault_in_stream(chunk)
        self._has_choice, self._finish = True, self._finish or "tool_calls"
        return self._release_held()

    def finish(self) -> AssistantMessage:
        """Return the whole answer. Raises `ModelError` ("cut") when its end never came."""
        if not self._has_choice or (self._finish is None and not self._done):
            raise ModelError("cut", "The answer broke off before its end. Try again.")
        return self._message()

    def finish_whole(self) -> AssistantMessage:
        """Return the answer that came whole."""
        if not self._has_choice:
            raise unreadable_error("it has no 'choices'")
        return self._message()

    def _take_delta(self, delta: JsonObject) -> list[ModelEvent]:
        """Add one piece of the answer, and return its events. The words of a refusal are text, too."""
        events: list[ModelEvent] = []
        self._take_reasoning(delta, events)
        self._take_content(delta.get("content"), events)
        if refusal := json_text(delta.get("refusal")):
            self._refused = True
            self._add_words("text", refusal, events)
        for image in json_objects(delta.get("images")):  # OpenRouter
            self._take_image(json_text(json_object(image.get("image_url")).get("url")))
        entries = json_objects(delta.get("tool_calls"))
        if not entries and isinstance(call := delta.get("function_call"), dict):  # the format of 2023
            entries = [{"index": 0, "function": call}]
        events += [event for entry in entries if (event := self._calls.add(entry))]
        return events

    def _take_reasoning(self, delta: JsonObject, events: list[ModelEvent]) -> None:
        given = {field: text for field in _REASONING_FIELDS if isinstance(text := delta.get(field), str)}
        for field, text in given.items():
            self._reasoning.setdefault(field, []).append(text)
        if text := next(filter(None, given.values()), ""):  # vLLM sends the same text in both
            self._add_words("thinking", text, events)
        for detail in json_objects(delta.get("reasoning_details")):
            _add_detail(self._reasoning_details, detail)

    def _take_content(self, content: Json, events: list[ModelEvent]) -> None:
        """Add a text, or the blocks of a list. A block of an unknown type counts as text."""
        if isinstance(content, str):
            self._add_words("text", content, events)
        for block in json_objects(content):
            if block.get("type") == "thinking":  # Mistral
                self._has_thinking_blocks = True
                inner = block.get("thinking")
                texts = [json_text(item.get("text")) for item in json_objects(inner)]
                self._add_words("thinking", json_text(inner) or "".join(texts), events)
            elif block.get("type") == "image_url":
                self._take_image(json_text(json_object(block.get("image_url")).get("url")))
            else:
                self._add_words("text", json_text(block.get("text")), events)

    def _add_words(self, kind: _Kind, text: str, events: list[ModelEvent]) -> None:
        """Add a piece of text or thinking, and the event for it."""
        if text := self._joiners[kind].feed(text):
            self._append_words(kind, text)
            if kind == "thinking":
                events.append(ThinkingDelta(text))
            elif visible := self._filter.feed(text) if self._filter else text:
                events.append(TextDelta(visible))

    def _append_words(self, kind: _Kind, text: str) -> None:
        """Add the text to the last run, or begin a new run when the kind changes."""
        if not self._runs or self._runs[-1][0] != kind:
            self._runs.append((kind, []))
        self._runs[-1][1].append(text)

    def _take_image(self, url: str) -> None:
        head, comma, data = url.partition(",")
        if head.startswith("data:image/") and head.endswith(";base64") and comma:
            self._images.append(read_image(head.removeprefix("data:").removesuffix(";base64"), data))

    def _release_held(self) -> list[ModelEvent]:
        """Return the text that was held back as a possible call and is none."""
        visible = self._filter.close(takes_calls=not self._calls) if self._filter else ""
        return [TextDelta(visible)] if visible else []

    def _message(self) -> AssistantMessage:
        """Return the whole answer. One with calls stops for them, also if the server says that it has just ended.

        Raises `ModelError` when the server broke it off.
        """
        reason = self._finish or ""
        if reason in _ABORTED:
            raise ModelError(
                "overloaded", f"The model's server broke off its answer ({reason!r}). Try again a little later."
            )
        stop = _STOPS.get(reason, "other")
        calls = self._calls.parts(cut=stop in ("length", "refusal"))
        if self._failed_call is not None:
            calls = [self._failed_call]
        for kind, joiner in self._joiners.items():
            if lost := joiner.close():
                self._append_words(kind, lost)
        runs = [(kind, "".join(pieces)) for kind, pieces in self._runs]
        native = self._native(runs) if calls and self._failed_call is None else None
        if not calls and self._filter:
            runs, calls = self._take_text_calls(runs)
        parts: list[Part] = [Text(text) if kind == "text" else Thinking(text) for kind, text in runs if text]
        if stop in ("end", "other") and calls:
            stop = "calls"
        elif stop == "end" and self._refused:
            stop = "refusal"
        return AssistantMessage((*parts, *self._images, *calls), stop, self._model, usage=self._usage, native=native)

    def _take_text_calls(self, runs: list[tuple[_Kind, str]]) -> tuple[list[tuple[_Kind, str]], list[CallPart]]:
        """Return the text without the calls that the model printed in it, and these calls."""
        text, found = split_calls("".join(text for kind, text in runs if kind == "text"), self._names)
        if not found:
            return runs, []
        calls = [CallPart(new_call_id(), self._names[name], arguments) for name, arguments in found]
        return [*((kind, text) for kind, text in runs if kind == "thinking"), ("text", text)], calls

    def _native(self, runs: list[tuple[_Kind, str]]) -> Native | None:
        """Return the message as it came, if it has fields that its server wants back and its parts can't keep."""
        fields: JsonObject = {field: mend_text("".join(pieces)) for field, pieces in self._reasoning.items()}
        if self._reasoning_details:
            fields["reasoning_details"] = self._reasoning_details
        if not fields and not self._has_thinking_blocks and not self._calls.has_extras:
            return None
        content: Json = "".join(text for kind, text in runs if kind == "text") or None
        if self._has_thinking_blocks:
            words: list[tuple[_Kind, JsonObject]] = [(kind, {"type": "text", "text": text}) for kind, text in runs]
            content = [one if kind == "text" else {"type": "thinking", "thinking": [one]} for kind, one in words]
        message: JsonObject = {"role": "assistant", "content": content, **fields, "tool_calls": self._calls.verbatim()}
        return Native("openai-chat", self._model, message)


def _add_detail(details: list[Json], new: JsonObject) -> None:
    """Add a piece of OpenRouter's reasoning. Text is appended to the last item if type and number are the same."""
    last = details[-1] if details else None
    if not isinstance(last, dict) or new.get("index") is None or any(last.get(key) != new.get(key) for key in _SAME):
        details.append(dict(new))
        return
    for key, value in new.items():
        if key in ("text", "summary", "data") and isinstance(value, str):
            last[key] = json_text(last.get(key)) + value
        elif value is not None:
            last[key] = value


def _usage(chunk: JsonObject) -> Usage | None:
    """Return the token counts of this chunk; Groq puts them into a field of its own."""
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
