"""The tool calls of one chat answer, joined from their pieces. Servers differ in the fields that they leave out.

A call that the server refused because the model wrote it wrongly (Groq's error `tool_use_failed`) becomes a call that
the engine refuses. So the model reads why it failed and goes on, as after every failed call.
"""

import re
from typing import Final

from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import arguments_text, is_json_object, json_object, json_text, mend_text, read_json
from handspan.models.model import CallDelta

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_REFUSAL: Final = 8000


class _PartialCall(Struct):
    """A call that is still arriving."""

    index: int | None
    wire_id: str = ""
    name: str = ""
    pieces: list[str] = []  # msgspec makes a new list for each
    extras: JsonObject = {}
    """Unknown fields, such as signatures of thoughts; some servers require them back."""

    @property
    def arguments(self) -> str:
        return mend_text("".join(self.pieces))


class CallAssembler:
    """Collects calls from `tool_calls` entries, in the order in which they begin."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        """Our name of each tool, by the name that the API uses."""
        self._calls: list[_PartialCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, entry: JsonObject) -> CallDelta | None:
        """Add this piece of a call. Return the event for it, or None when it holds nothing new."""
        function = json_object(entry.get("function"))
        name, arguments = json_text(function.get("name")), arguments_text(function.get("arguments"))
        call, is_new = self._find(entry, name, arguments)
        if call is None:
            return None
        new_name = name if not call.name else ""
        if not is_new and call.name and name and not call.pieces and name != call.name:
            call.name += name  # the API sends the name in pieces
        call.name = call.name or name
        call.wire_id = call.wire_id or json_text(entry.get("id"))
        if arguments:
            call.pieces.append(arguments)
        known = ("index", "id", "type", "function")
        call.extras.update({key: value for key, value in entry.items() if key not in known and value is not None})
        if not new_name and not arguments:
            return None
        our_name = self._names.get(new_name, new_name)
        return CallDelta(self._calls.index(call), our_name, mend_text(arguments))

    def parts(self, *, cut: bool) -> list[CallPart]:
        """Return the calls; only the complete ones when the answer was `cut`."""
        self._calls = [call for call in self._calls if call.name or call.pieces]
        if cut:
            self._calls = [call for call in self._calls if is_json_object(call.arguments)]
        used: set[str] = set()
        parts = []
        for call in self._calls:
            wire_id = "" if call.wire_id in used else call.wire_id  # two calls must not share one id
            used.add(wire_id)
            parts.append(CallPart(new_call_id(), self._names.get(call.name, call.name), call.arguments, wire_id))
        return parts

    def verbatim(self) -> list[Json]:
        """Return the calls as the server sent them, to send them back. Call it after `parts`."""
        functions: list[JsonObject] = [{"name": call.name, "arguments": call.arguments} for call in self._calls]
        return [
            {"id": call.wire_id, "type": "function", "function": function, **call.extras}
            for call, function in zip(self._calls, functions, strict=True)
        ]

    @property
    def has_extras(self) -> bool:
        """Return whether a call has a field that a `CallPart` can't keep."""
        return any(call.extras for call in self._calls)

    def _find(self, entry: JsonObject, name: str, arguments: str) -> tuple[_PartialCall | None, bool]:
        """Return the call of this piece, and whether the piece begins it. The call is None for a repeated piece."""
        index, wire_id = entry.get("index"), json_text(entry.get("id"))
        number = index if type(index) is int else None
        call = self._find_open(number, wire_id, name)
        if call is None or self._begins_new_call(call, wire_id, name):
            self._calls.append(_PartialCall(number))
            return self._calls[-1], True
        is_repeat = bool(name and arguments) and (name, arguments) == (call.name, call.arguments)
        return (None if is_repeat else call), False

    def _find_open(self, index: int | None, wire_id: str, name: str) -> _PartialCall | None:
        """Return the call that this piece goes on with, by its number, else by its id; None when there is none.

        A piece without both belongs to the newest call, unless it has a name: then it begins a call.
        """
        newest_first = self._calls[::-1]
        if index is not None:  # of two calls with one number, the newer one (see `_begins_new_call`)
            return next((call for call in newest_first if call.index == index), None)
        if wire_id:
            return next((call for call in newest_first if call.wire_id == wire_id), None)
        return None if name else next(iter(newest_first), None)

    @staticmethod
    def _begins_new_call(call: _PartialCall, wire_id: str, name: str) -> bool:
        """Return whether a piece with a known number begins another call: some servers number every call 0."""
        if not name or not call.name:
            return False
        if wire_id and call.wire_id:  # some servers give every piece a new id, but only the first piece has a name
            return wire_id != call.wire_id
        return is_json_object(call.arguments)


def read_failed_call(answer: JsonObject, names: dict[str, str]) -> CallPart | None:
    """Return the call that this error is about; None for another error, or when it names no offered tool.

    The call's arguments are the server's words, which are no JSON on purpose: a call that was refused must not run.
    """
    error = json_object(answer.get("error"))
    if error.get("code") != "tool_use_failed":
        return None
    message, written = json_text(error.get("message")), json_text(error.get("failed_generation"))
    words = [word for text in (written, message) for word in _NAME.findall(text)]
    name = next((word for word in words if word in names), None)
    if name is None:
        return None
    refusal = mend_text(f"The server refused this call. {message} {written}".strip())
    return CallPart(new_call_id(), names[name], refusal[:_LONGEST_REFUSAL])


def read_failed_reply(body: bytes, names: dict[str, str], model: str) -> AssistantMessage | None:
    """Return a reply with the refused call, in place of this error answer; None for another error."""
    call = read_failed_call(json_object(read_json(body)), names)
    return None if call is None else AssistantMessage((call,), "calls", model)
