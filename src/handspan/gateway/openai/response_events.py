"""A response with its items, and the events of its stream (SPEC F2)."""

import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET

from handspan.core.calls import new_call_id
from handspan.core.events import CallFinished, EndReason
from handspan.core.values import Json, JsonObject
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.openai.envelope import OpenAiRefusal
from handspan.gateway.openai.usage import usage_view
from handspan.gateway.runs.chats import AskedTool, ChatEnd
from handspan.gateway.runs.usage import UsageMeter

MCP: Final = "mcp_"
"""How the id of an item begins that is a call of the gateway's tools."""
_INCOMPLETE: Final[dict[EndReason, str]] = {"length": "max_output_tokens", "refusal": "content_filter"}
_REFUSED: Final = "The model gave no answer of the form that was asked for."
_encode: Final = msgspec.json.Encoder().encode


class ResponseEvents:
    """Builds a response item by item, and writes an event for each step. Implements `StreamSink`."""

    def __init__(self, put: Callable[[bytes], None], body: JsonObject) -> None:
        """`put` takes one event, without the empty line after it. `body`: what the response repeats of its request."""
        self._put, self._base = put, body
        self.items: list[JsonObject] = []
        self.status = "in_progress"
        self._error: JsonObject | None = None
        self._incomplete: str = ""
        self._usage: Json = None
        self._count = 0
        self._message: JsonObject | None = None
        """The message that is being written."""
        self._texts: list[str] = []
        self._calls: dict[str, JsonObject] = {}

    @property
    def body(self) -> JsonObject:
        """The response as it is now."""
        return {
            **self._base,
            "status": self.status,
            "output": [*self.items],
            "error": self._error,
            "incomplete_details": {"reason": self._incomplete} if self._incomplete else None,
            "usage": self._usage,
        }

    def open(self) -> None:
        """Write the first events."""
        self._emit("response.created", response=self.body)
        self._emit("response.in_progress", response=self.body)

    # What happens in the run.

    def text(self, text: str) -> None:
        """Add more of the answer."""
        if self._message is None:
            text = text.removeprefix("\n\n")
            self._message = {"type": "message", "id": f"msg_{new_call_id()}", "role": "assistant"}
            self._add({**self._message, "status": "in_progress", "content": []})
            self._of_message("response.content_part.added", part=_part(""))
        self._texts.append(text)
        self._of_message("response.output_text.delta", delta=text, logprobs=[])

    def thinking(self, text: str) -> None:
        """Do nothing: a client could not send it back."""

    def comment(self, text: str) -> None:
        """Do nothing: the items tell what happens."""

    def call_began(self, call_id: str, name: str, arguments: str, label: str) -> None:
        """Add a call of a tool of the gateway: one that a server runs, so that no client runs it."""
        self._close_message()
        item: JsonObject = {"type": "mcp_call", "id": f"{MCP}{call_id}", "name": name, "server_label": label}
        item |= {"arguments": arguments or "{}", "output": None, "error": None, "status": "in_progress"}
        place = self._calls[call_id] = {"item_id": item["id"], "output_index": self._add(item)}
        self._emit("response.mcp_call.in_progress", **place)
        self._emit("response.mcp_call_arguments.done", **place, arguments=item["arguments"])

    def call_ended(self, event: CallFinished) -> None:
        """Complete a call with its result."""
        place = self._calls.pop(event.id, None)
        if place is not None:
            is_done = event.status == "success"
            self._emit(f"response.mcp_call.{'completed' if is_done else 'failed'}", **place)
            self._done(place, output=event.envelope, status="completed" if is_done else "failed")

    def end(self, end: ChatEnd, meter: UsageMeter, *, has_form: bool) -> None:
        """Complete the response."""
        self._close_message()
        for place in self._calls.values():
            self._done(place, status="incomplete")
        if not has_form:
            part: JsonObject = {"type": "refusal", "refusal": _REFUSED}
            item: JsonObject = {"type": "message", "id": f"msg_{new_call_id()}", "role": "assistant"}
            index = self._add({**item, "status": "in_progress", "content": []})
            self._done({"item_id": item["id"], "output_index": index}, content=[part], status="completed")
        for asked in end.asked:
            self._ask(asked)
        self._incomplete = _INCOMPLETE.get(end.ended.reason, "")
        is_aborted = end.ended.reason == "aborted"
        self.status = "cancelled" if is_aborted else "incomplete" if self._incomplete else "completed"
        view = usage_view(meter)
        if view is not UNSET:
            self._usage = _usage(meter)

    def end_failed(self, refusal: Refusal) -> None:
        """Complete the response with what went wrong."""
        self._close_message()
        code = refusal.code if isinstance(refusal, OpenAiRefusal) and refusal.code else "server_error"
        self.status, self._error = "failed", {"code": code, "message": refusal.message}

    # The last events.

    def finish(self, end: ChatEnd, meter: UsageMeter, *, has_form: bool) -> None:
        """Write the last event of a response that is complete."""
        name = "incomplete" if self.status == "incomplete" else "completed"
        self._emit(f"response.{name}", response=self.body)

    def fail(self, refusal: Refusal) -> None:
        """Write the last event of a response that has failed."""
        self._emit("response.failed", response=self.body)

    def _ask(self, asked: AskedTool) -> None:
        item: JsonObject = {"type": "function_call", "id": f"fc_{asked.id}", "call_id": asked.id, "name": asked.name}
        index = self._add({**item, "arguments": "", "status": "in_progress"})
        place: JsonObject = {"item_id": item["id"], "output_index": index}
        self._emit("response.function_call_arguments.delta", **place, delta=asked.arguments)
        self._emit("response.function_call_arguments.done", **place, name=asked.name, arguments=asked.arguments)
        self._done(place, arguments=asked.arguments, status="completed")

    def _close_message(self) -> None:
        """End the message that is open, if there is one, and send the events of its end."""
        if self._message is None:
            return
        text, part = "".join(self._texts), _part("".join(self._texts))
        self._of_message("response.output_text.done", text=text, logprobs=[])
        self._of_message("response.content_part.done", part=part)
        place = self._message_place()
        self._message, self._texts = None, []
        self._done(place, content=[part], status="completed")

    def _of_message(self, name: str, /, **fields: Json) -> None:
        self._emit(name, **self._message_place(), content_index=0, **fields)

    def _message_place(self) -> JsonObject:
        assert self._message is not None, "a message is open"
        index = next(index for index, item in enumerate(self.items) if item["id"] == self._message["id"])
        return {"item_id": self._message["id"], "output_index": index}

    def _add(self, item: JsonObject) -> int:
        """Add an item, and return its place."""
        self.items.append(item)
        index = len(self.items) - 1
        self._emit("response.output_item.added", output_index=index, item=item)
        return index

    def _done(self, place: JsonObject, **fields: Json) -> None:
        index = place["output_index"]
        assert isinstance(index, int), "it is the place of an item"
        self.items[index] = {**self.items[index], **fields}
        self._emit("response.output_item.done", output_index=index, item=self.items[index])

    def _emit(self, name: str, /, **fields: Json) -> None:
        event = {"type": name, "sequence_number": self._count, **fields}
        self._count += 1
        self._put(b"event: %b\ndata: %b\n" % (name.encode(), _encode(event)))


def new_body(response_id: str, **fields: Json) -> JsonObject:
    """Return what a response has from its beginning on."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "truncation": "disabled",
        "max_tool_calls": None,
        **fields,
    }


def _part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(meter: UsageMeter) -> JsonObject:
    """Return what the run has used so far, in the words of the Responses API."""
    view = usage_view(meter)
    assert view is not UNSET
    used: JsonObject = {
        "input_tokens": view.prompt_tokens,
        "input_tokens_details": {"cached_tokens": view.prompt_tokens_details.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": view.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": view.completion_tokens_details.reasoning_tokens},
        "total_tokens": view.total_tokens,
    }
    return used if view.cost is UNSET else {**used, "cost": view.cost}
