"""The tool calls of one chat answer, put together from pieces, whatever the server leaves out."""

from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.messages import CallPart
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import arguments_text, is_json_object, json_object, json_text, mend_text
from handspan.models.model import CallDelta


class _OpenCall(Struct):
    """A call while it arrives."""

    index: int | None
    wire_id: str = ""
    name: str = ""
    pieces: list[str] = []  # msgspec makes a new list for each
    extras: JsonObject = {}
    """Fields that we do not know; some servers want them back (signatures of thoughts)."""

    @property
    def arguments(self) -> str:
        return mend_text("".join(self.pieces))


class CallAssembler:
    """Collects calls from `tool_calls` entries; the order of beginning is the order of the calls."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._calls: list[_OpenCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, entry: JsonObject) -> CallDelta | None:
        """Add this piece; what it tells whoever watches."""
        function = json_object(entry.get("function"))
        name, arguments = json_text(function.get("name")), arguments_text(function.get("arguments"))
        call, begins = self._find(entry, name, arguments)
        if call is None:
            return None
        begins_name = name if not call.name else ""
        if not begins and call.name and name and not call.pieces and name != call.name:
            call.name += name  # a name in pieces
        call.name = call.name or name
        call.wire_id = call.wire_id or json_text(entry.get("id"))
        if arguments:
            call.pieces.append(arguments)
        known = ("index", "id", "type", "function")
        call.extras.update({key: value for key, value in entry.items() if key not in known and value is not None})
        if not begins_name and not arguments:
            return None
        shown = self._names.get(begins_name, begins_name)
        return CallDelta(self._calls.index(call), shown, mend_text(arguments))

    def parts(self, *, cut: bool) -> list[CallPart]:
        """The calls. Where the answer was cut off, only those that are whole."""
        self._calls = [call for call in self._calls if call.name or call.pieces]
        if cut:
            self._calls = [call for call in self._calls if is_json_object(call.arguments)]
        used: set[str] = set()
        parts = []
        for call in self._calls:
            wire_id = "" if call.wire_id in used else call.wire_id  # two calls must not share one
            used.add(wire_id)
            parts.append(CallPart(new_call_id(), self._names.get(call.name, call.name), call.arguments, wire_id))
        return parts

    def verbatim(self) -> list[Json]:
        """The calls as the server wrote them, for sending back; valid after `parts`."""
        return [
            {
                "id": call.wire_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **call.extras,
            }
            for call in self._calls
        ]

    @property
    def has_extras(self) -> bool:
        """Whether a call has a field that a `CallPart` can't keep."""
        return any(call.extras for call in self._calls)

    def _find(self, entry: JsonObject, name: str, arguments: str) -> tuple[_OpenCall | None, bool]:
        """The call that this piece belongs to, and whether it begins with it. None for one that repeats what came."""
        index, wire_id = entry.get("index"), json_text(entry.get("id"))
        number = index if type(index) is int else None
        call = self._called(number, wire_id, name)
        if call is None or self._is_another(call, wire_id, name):
            self._calls.append(_OpenCall(number))
            return self._calls[-1], True
        is_repeat = name == call.name and arguments != "" and call.arguments == arguments and name != ""
        return (None if is_repeat else call), False

    def _called(self, index: int | None, wire_id: str, name: str) -> _OpenCall | None:
        newest_first = self._calls[::-1]
        if index is not None:  # the same number twice: the newer one (see `_is_another`)
            return next((call for call in newest_first if call.index == index), None)
        if wire_id:
            return next((call for call in newest_first if call.wire_id == wire_id), None)
        return None if name else next(iter(newest_first), None)

    @staticmethod
    def _is_another(call: _OpenCall, wire_id: str, name: str) -> bool:
        """Whether a piece that has a known number begins a call all the same: some servers number all of them 0."""
        if not name or not call.name:
            return False
        if wire_id and call.wire_id:  # some give every piece a new id, but only the first one a name
            return wire_id != call.wire_id
        return is_json_object(call.arguments)
