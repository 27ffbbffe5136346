"""Reads answers of Gemini, streamed or whole.

A piece of the stream holds whole parts: only text is spread over pieces, the arguments of a call come whole. The parts
are kept as they came, because signatures must go back at the same place (SPEC M2).
"""

import re
from collections.abc import Sequence
from typing import Final, final

import msgspec
from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Media, Native, Part, StopReason, Text, Thinking, Usage
from handspan.core.results import Attachment, AttachmentKind
from handspan.core.values import Json, JsonObject
from handspan.models.gemini.faults import fault_of_answer
from handspan.models.json_values import encode_json, json_object
from handspan.models.model import CallDelta, ModelError, ModelEvent, TextDelta, ThinkingDelta

_REFUSAL: Final = re.compile(r"(IMAGE_)?(SAFETY|RECITATION|PROHIBITED_CONTENT)|LANGUAGE|BLOCKLIST|SPII|MODEL_ARMOR")
_STOPS: Final[dict[str, StopReason]] = {"": "end", "STOP": "end", "MAX_TOKENS": "length"}
_TEXT_FIELDS: Final = frozenset(("text", "thought"))


class _GeminiCall(Struct, rename="camel"):
    name: str = ""
    args: Json = None
    id: str | None = None
    partial_args: Json = None
    will_continue: bool | None = None


class _GeminiBlob(Struct, rename="camel"):
    mime_type: str = ""
    data: bytes = b""


class _GeminiPart(Struct, rename="camel"):
    """The fields of a part that we read. Other parts (code, Google's own searches) only go back as they came."""

    text: str = ""
    thought: bool = False
    function_call: _GeminiCall | None = None
    inline_data: _GeminiBlob | None = None


class _GeminiContent(Struct):
    parts: list[JsonObject] | None = None


class _Candidate(Struct, rename="camel"):
    content: _GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None


class _GeminiUsage(Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _GeminiAnswer(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _GeminiUsage | None = None
    error: Json = None


def decode_answer(body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
    """Return the message of an answer that was not streamed. Raises `ModelError` when it makes no sense."""
    decoder = GeminiDecoder(names, model)
    try:
        answer = msgspec.convert(body, _GeminiAnswer)
    except msgspec.ValidationError as error:
        raise _unreadable(str(error)) from None
    decoder.take(answer)
    return decoder.finish_whole()


@final
class GeminiDecoder:
    """Reads one streamed answer. `names` leads from names on the wire back to ours."""

    def __init__(self, names: dict[str, str], model: str) -> None:
        self._names = names
        self._model = model
        self._raw: list[JsonObject] = []
        """The parts as they came, to send them back."""
        self._parts: list[Part] = []
        self._calls = 0
        self._has_candidate = False
        self._blocked = ""
        """Why Gemini refused the prompt; empty if it did not."""
        self._finish = ""
        self._finish_message = ""
        self._usage: Usage | None = None

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """Return what this piece of the stream says. Raises `ModelError` for an error."""
        if data.strip() in ("", "[DONE]"):  # how compatible servers end a stream
            return ()
        try:
            answer = msgspec.json.decode(data, type=_GeminiAnswer)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _unreadable(str(error)) from None
        return self.take(answer)

    def finish(self) -> AssistantMessage:
        """Return the whole answer. Raises `ModelError` ("cut") when no finish reason ever came."""
        if not self._finish and not self._blocked:
            raise ModelError("cut", "The answer broke off before its end. Try again.")
        return self._message()

    def finish_whole(self) -> AssistantMessage:
        """Return the message of an answer that came whole, which can't have been cut."""
        if not self._has_candidate and not self._blocked:
            raise _unreadable("it has no candidates")
        return self._message()

    def take(self, answer: _GeminiAnswer) -> list[ModelEvent]:
        """Add this piece, and return its events. Raises `ModelError` for an error."""
        if answer.error is not None:
            code = json_object(answer.error).get("code")
            raise fault_of_answer(code if isinstance(code, int) else 500, encode_json({"error": answer.error}))
        if answer.usage_metadata is not None:  # each one counts the whole answer so far
            self._usage = _usage(answer.usage_metadata)
        if answer.prompt_feedback is not None:
            self._blocked = answer.prompt_feedback.block_reason or self._blocked
        events: list[ModelEvent] = []
        for candidate in answer.candidates or ():
            if not candidate.index:  # we never ask for more than the first
                self._has_candidate = True
                self._finish = candidate.finish_reason or self._finish
                self._finish_message = candidate.finish_message or self._finish_message
                for index, raw in enumerate((candidate.content and candidate.content.parts) or ()):
                    events += self._take_part(raw, is_first=index == 0)
        return events

    def _take_part(self, raw: JsonObject, *, is_first: bool) -> list[ModelEvent]:
        """Take one part of the reply, and return what it says."""
        try:
            part = msgspec.convert(raw, _GeminiPart)
        except msgspec.ValidationError as error:
            raise _unreadable(f"a part of it is wrong: {error}") from None
        if raw.keys() <= _TEXT_FIELDS and not part.text:
            return []  # an empty part: some servers refuse it when we send it back
        self._add_raw(raw, may_continue=is_first)  # only the first part of an event continues the event before
        if part.function_call is not None:
            return self._take_call(part.function_call)
        if part.inline_data is not None:
            self._parts.append(Media(_attachment(part.inline_data)))
        elif part.text:
            return [self._take_text(part)]
        return []

    def _add_raw(self, raw: JsonObject, *, may_continue: bool) -> None:
        """Add the part as it came. Text that was split between two pieces is joined, unless it is signed."""
        last = self._raw[-1] if self._raw else None
        is_text = last is not None and _is_text_only(last) and _is_text_only(raw)
        if last is not None and may_continue and is_text and last.get("thought") == raw.get("thought"):
            self._raw[-1] = {**last, "text": f"{last['text']}{raw['text']}"}
        else:
            self._raw.append(raw)

    def _take_text(self, part: _GeminiPart) -> TextDelta | ThinkingDelta:
        kind = Thinking if part.thought else Text
        last = self._parts[-1] if self._parts else None
        if type(last) is kind:
            self._parts[-1] = kind(last.text + part.text)
        else:
            self._parts.append(kind(part.text))
        return ThinkingDelta(part.text) if part.thought else TextDelta(part.text)

    def _take_call(self, call: _GeminiCall) -> list[ModelEvent]:
        """Add a call to the reply."""
        if call.partial_args is not None or call.will_continue:
            raise _unreadable("it streams arguments in fragments; leave out 'streamFunctionCallArguments'")
        if not call.name:
            raise _unreadable("it calls a function without a name")
        arguments = call.args if isinstance(call.args, str) else msgspec.json.encode(call.args or {}).decode()
        name = self._names.get(call.name, call.name)
        self._parts.append(CallPart(new_call_id(), name, arguments, call.id or ""))
        self._calls += 1
        return [CallDelta(self._calls - 1, name, arguments)]

    def _message(self) -> AssistantMessage:
        """Return the whole reply. Raises a `ModelError` for one without content."""
        is_blocked = not self._has_candidate or (bool(self._blocked) and not self._parts)
        is_refused = is_blocked or _REFUSAL.fullmatch(self._finish) is not None
        stop: StopReason = "refusal" if is_refused else _STOPS.get(self._finish, "other")
        if stop == "length":
            self._drop_cut_call()
        if stop == "other" and not self._parts:
            raise _unreadable(f"it ended with {self._finish}, without a word. {self._finish_message}".rstrip())
        native = Native("gemini", self._model, {"role": "model", "parts": [*self._raw]}) if self._raw else None
        if self._calls and stop in ("end", "other"):  # Gemini has no finish reason for calls
            stop = "calls"
        return AssistantMessage(tuple(self._parts), stop, self._model, usage=self._usage, native=native)

    def _drop_cut_call(self) -> None:
        """Remove a call at the end of an answer that the token limit cut: the call may be incomplete."""
        if self._raw and "functionCall" in self._raw[-1]:
            self._raw.pop()
            self._parts.pop()
            self._calls -= 1


def _is_text_only(raw: JsonObject) -> bool:
    return "text" in raw and raw.keys() <= _TEXT_FIELDS


def _attachment(blob: _GeminiBlob) -> Attachment:
    family = blob.mime_type.partition("/")[0]
    kind: AttachmentKind = "image" if family == "image" else "audio" if family == "audio" else "file"
    return Attachment(kind, blob.mime_type, blob.data)


def _usage(counts: _GeminiUsage) -> Usage:
    return Usage(
        _add_counts(counts.prompt_token_count, counts.tool_use_prompt_token_count),
        _add_counts(counts.candidates_token_count, counts.thoughts_token_count),
        counts.cached_content_token_count,
        counts.thoughts_token_count,
    )


def _add_counts(*counts: int | None) -> int | None:
    """Return the sum of the known counts; None when none is known (SPEC M6)."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _unreadable(reason: str) -> ModelError:
    return ModelError("unreadable", f"The answer of Gemini makes no sense: {reason.rstrip('.')}. Ask again.")
