"""Reads answers of the Responses format, streamed or whole."""

from collections.abc import Sequence
from typing import Final

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Native, Part, StopReason, Text, Thinking, Usage
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import (
    SurrogateJoiner,
    arguments_text,
    is_json_object,
    json_count,
    json_object,
    json_objects,
    json_text,
    mend_text,
    read_object,
    unreadable_error,
)
from handspan.models.model import CallDelta, ModelError, ModelEvent, TextDelta, ThinkingDelta
from handspan.models.openai.faults import fault_in_stream
from handspan.models.openai.media import read_image

_TEXT_EVENTS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THINKING_EVENTS: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_LAST_EVENTS: Final = frozenset({"response.completed", "response.incomplete"})
_UNFINISHED: Final = ("in_progress", "incomplete")
_STOPS: Final[dict[str, StopReason]] = {"max_output_tokens": "length", "content_filter": "refusal"}


class ResponsesDecoder:
    """Reads one streamed answer, event by event."""

    def __init__(self, names: dict[str, str], model: str) -> None:
        self._names = names
        self._model = model
        self._items: dict[int, JsonObject] = {}
        """The complete items by their index."""
        self._calls: dict[int, int] = {}
        """The number of each call by the index of its item."""
        self._text, self._thinking = SurrogateJoiner(), SurrogateJoiner()
        self._response: JsonObject | None = None

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """Return what this event says. Raises `ModelError` for an error."""
        if self._response is not None or not data.strip() or data.strip() == "[DONE]":
            return []
        body = read_object(data)
        kind = json_text(body.get("type")) or event
        if kind == "error" or body.get("error"):
            raise fault_in_stream(body)
        if kind == "response.failed":
            raise _failure(json_object(body.get("response")))
        if kind in _LAST_EVENTS:
            self._response = json_object(body.get("response"))
            return []
        return self._read_event(kind, body)

    def finish(self) -> AssistantMessage:
        """Return the whole answer. Raises `ModelError` ("cut") when its end never came."""
        if self._response is None:
            raise ModelError("cut", "The answer broke off before its end. Try again.")
        items = [item for _, item in sorted(self._items.items())]
        whole = json_objects(self._response.get("output"))
        # The items of the stream are the ones to send back. Some servers only send them in the last event.
        return decode_answer(
            {**self._response, "output": [*(whole if len(whole) > len(items) else items)]}, self._names, self._model
        )

    def _read_event(self, kind: str, body: JsonObject) -> list[ModelEvent]:
        """Take one event of the stream, and return what the model said with it."""
        place, delta = json_count(body.get("output_index")) or 0, json_text(body.get("delta"))
        item = json_object(body.get("item"))
        if kind in _TEXT_EVENTS:
            text = self._text.feed(delta)
            return [TextDelta(text)] if text else []
        if kind in _THINKING_EVENTS:
            text = self._thinking.feed(delta)
            return [ThinkingDelta(text)] if text else []
        if kind == "response.reasoning_summary_part.added" and body.get("summary_index"):
            return [ThinkingDelta("\n\n")]
        if kind == "response.output_item.added" and item.get("type") == "function_call":
            name = json_text(item.get("name"))
            return [CallDelta(self._number(place), self._names.get(name, name))]
        if kind == "response.function_call_arguments.delta" and delta:
            return [CallDelta(self._number(place), arguments=mend_text(delta))]
        if kind == "response.output_item.done" and item:
            self._items[place] = item
        return []

    def _number(self, place: int) -> int:
        return self._calls.setdefault(place, len(self._calls))


def decode_answer(body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
    """Return the message of this response object. Raises `ModelError` when it holds no answer."""
    if body.get("error"):
        raise _failure(body)
    status = body.get("status", "completed")
    if status in ("failed", "cancelled"):
        raise _failure(body)
    if status in ("queued", "in_progress"):
        raise unreadable_error(f"it is only {status!r}. Leave out the option 'background' of this model")
    if not isinstance(body.get("output"), list):
        raise unreadable_error("it has no 'output'")
    cut = status == "incomplete"
    items = [item for item in json_objects(body["output"]) if _is_whole(item, cut=cut)]
    parts = [part for item in items for part in _parts(item, names)]
    kept = _drop_last_reasoning(items)
    native = Native("openai-responses", model, [*kept]) if kept else None
    usage = _usage(json_object(body.get("usage")))
    return AssistantMessage(tuple(parts), _stop(body, items, parts), model, usage=usage, native=native)


def _is_whole(item: JsonObject, *, cut: bool) -> bool:
    """Return whether the item is complete: only a call can be cut off."""
    if item.get("type") != "function_call":
        return True
    if item.get("status") in _UNFINISHED:
        return False
    return not cut or is_json_object(arguments_text(item.get("arguments")))


def _drop_last_reasoning(items: list[JsonObject]) -> list[JsonObject]:
    """Return the items without reasoning at the end: the API refuses reasoning that no other item follows."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]


def _parts(item: JsonObject, names: dict[str, str]) -> list[Part]:
    """Return the parts of the reply that this item holds."""
    match item.get("type"):
        case "message":
            contents = json_objects(item.get("content"))
            texts = [json_text(content.get("text")) or json_text(content.get("refusal")) for content in contents]
            return [Text(mend_text(text)) for text in texts if text]
        case "reasoning":
            thought = _reasoning_text(item)
            return [Thinking(thought)] if thought else []
        case "function_call":
            name, arguments = json_text(item.get("name")), mend_text(arguments_text(item.get("arguments")))
            return [CallPart(new_call_id(), names.get(name, name), arguments, json_text(item.get("call_id")))]
        case "image_generation_call" if data := json_text(item.get("result")):
            return [read_image(f"image/{json_text(item.get('output_format')) or 'png'}", data)]
    return []  # calls of the server's own tools: they go back as they came


def _reasoning_text(item: JsonObject) -> str:
    """Return the summary of the reasoning, or the reasoning itself if a server sends it."""
    for field in ("summary", "content"):
        texts = [json_text(part.get("text")) for part in json_objects(item.get(field))]
        if any(texts):
            return mend_text("\n\n".join(texts))
    return ""


def _stop(response: JsonObject, items: list[JsonObject], parts: list[Part]) -> StopReason:
    if response.get("status") == "incomplete":
        reason = json_text(json_object(response.get("incomplete_details")).get("reason"))
        return _STOPS.get(reason, "other")
    if any(type(part) is CallPart for part in parts):
        return "calls"
    contents = (content for item in items for content in json_objects(item.get("content")))
    return "refusal" if any(content.get("type") == "refusal" for content in contents) else "end"


def _usage(usage: JsonObject) -> Usage | None:
    """Return the counted tokens; None if the API says nothing of them."""
    if not usage:
        return None
    return Usage(
        json_count(usage.get("input_tokens")),
        json_count(usage.get("output_tokens")),
        json_count(json_object(usage.get("input_tokens_details")).get("cached_tokens")),
        json_count(json_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


def _failure(response: JsonObject) -> ModelError:
    """Return the error of a response that failed."""
    error: Json = response.get("error")
    body = {"code": "server_error", "message": f"the response is {response.get('status', 'failed')!r}"}
    return fault_in_stream({"error": error or {**body}})
