"""Versions n and n+1 of nodes mix: recorded messages are understood, with more and with fewer fields (SPEC K6).

`messages.json` has them as they were sent. A change that breaks one of these tests breaks an upgrade of a running
cluster: add fields at the end, with a default, and record one more message; or begin `hs2`.
"""

from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest

from handspan.bus.nats import NatsBus, _Published
from handspan.core.bus import BusEvent, ToolsChanged
from handspan.core.questions import Answer, ToolQuestion
from handspan.gateway.nodes import forwarded
from handspan.gateway.nodes.forwarded import (
    ForwardedPart,
    ForwardedRequest,
    PartSeen,
    RequestLeft,
    RequestProbe,
    RequestsUnknown,
)
from handspan.sources.nodes import messages
from handspan.sources.nodes.messages import (
    CallAnswer,
    CallQuestion,
    ClientDismissed,
    ClientLost,
    ClientMoved,
    FromClient,
    Probe,
    Probed,
    ProbedClient,
    ToClient,
    TrustedServer,
    TrustServer,
    TurnOffered,
)
from tests.bus.test_bus import EVENTS
from tests.chaos.nodes.child import add_unknown_fields

REQUEST: Final = ForwardedRequest(
    "node-b", "request-1", "POST", "/mcp", b"", [(b"mcp-session-id", b"1")], "operator", ("tools",), "hash", "header"
)
_FILE: Final = Path(__file__).with_name("messages.json")
MESSAGES: Final[list[tuple[str, msgspec.Struct]]] = [
    (messages.TO_CLIENT, ToClient("node-b", "operator", "peer-1", 7, b'{"type":"tool_call_request"}')),
    (messages.TO_CLIENT, ToClient("node-b", "operator", "peer-1", 7, b"", "artifact-1")),
    (messages.FROM_CLIENT, FromClient("operator", "peer-1", b'{"type":"tool_result"}')),
    (messages.FROM_CLIENT, FromClient("operator", "peer-1", b"", "artifact-1", "call-1")),
    (messages.GONE, ClientLost("operator", "peer-1", 7)),
    (messages.GONE, ClientLost("operator", "peer-1", 7, True, "The client disconnected")),
    (messages.MOVED, ClientMoved("peer-1", 8)),
    (messages.DISMISS, ClientDismissed("operator", "peer-1", "it was forgotten here")),
    (messages.PROBE, Probe("node-b", (ProbedClient("peer-1", 7, ("call-1", "call-2")),))),
    (messages.TO_CLIENT, ToClient("node-b", "", "server/time", 7, b'{"type":"tool_call_request"}', "", "operator")),
    (messages.GONE, ClientLost("", "server/time", 7, False, "", "call-1")),
    (messages.TURN, TurnOffered("operator", "session-1")),
    (messages.ASK, CallQuestion("server/time", "call-1", "question-1", ToolQuestion("input", "Which city?"))),
    (messages.ANSWER, CallAnswer("server/time", "call-1", "question-1", Answer("allow", value="Paris"), 2.5)),
    (messages.TRUST, TrustServer("time")),
    ("trusted", TrustedServer(["time__now"])),
    (forwarded.REQUEST, REQUEST),
    (forwarded.PART, ForwardedPart("request-1", 0, 200, [(b"content-type", b"text/event-stream")])),
    (forwarded.PART, ForwardedPart("request-1", 1, body=b"data: {}", is_last=True)),
    (forwarded.SEEN, PartSeen("request-1", 1)),
    (forwarded.LEFT, RequestLeft("request-1")),
    (forwarded.PROBE, RequestProbe((PartSeen("request-1", 1),))),
    ("probed requests", RequestsUnknown(("request-1",))),
    ("probed", Probed((ProbedClient("peer-1", 7, ("call-2",)),), ("peer-2",))),
    *(("event", _Published("node-b", number + 1, number, event)) for number, event in enumerate(EVENTS)),
]
"""What was recorded, as this version reads it. The last ones are what the bus publishes."""


def recorded() -> list[bytes]:
    """The messages of the file, in this order."""
    return [bytes.fromhex(one["hex"]) for one in msgspec.json.decode(_FILE.read_bytes())]


def test_every_kind_of_message_and_event_is_recorded() -> None:
    names = [(one["kind"], one["name"]) for one in msgspec.json.decode(_FILE.read_bytes())]
    assert names == [(kind, _name(message)) for kind, message in MESSAGES]
    events = {type(message.event) for _, message in MESSAGES if isinstance(message, _Published)}
    assert events == set(BusEvent.__args__), "Record a message of the new event, at the end of the file."
    structs = {one for module in (messages, forwarded) for one in vars(module).values() if _is_message(one, module)}
    travelling = {type(message) for _, message in MESSAGES} | {ProbedClient}
    assert structs - travelling <= {messages.FrameHead}, "Record a message of the new kind."


def _is_message(value: object, module: ModuleType) -> bool:
    """Whether the module itself defines this struct."""
    return isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__


def _name(message: msgspec.Struct) -> str:
    return type(message.event if isinstance(message, _Published) else message).__name__


@pytest.mark.parametrize("place", range(len(MESSAGES)), ids=lambda place: f"{place} {_name(MESSAGES[place][1])}")
def test_a_recorded_message_is_understood_by_this_version_and_this_version_by_the_recorded_one(place: int) -> None:
    data, (_, message) = recorded()[place], MESSAGES[place]
    assert msgspec.msgpack.decode(data, type=type(message)) == message
    sent, then = msgspec.msgpack.decode(messages.encode(message)), msgspec.msgpack.decode(data)
    assert _begins_with(sent, then), "A field that was sent before has another value or place now."


def _begins_with(now: Any, then: Any) -> bool:
    """Whether everything of `then` is in `now` at its place."""
    if isinstance(then, list):
        return len(now) >= len(then) and all(_begins_with(one, before) for one, before in zip(now, then, strict=False))
    if isinstance(then, dict):
        return all(name in now and _begins_with(now[name], value) for name, value in then.items())
    return bool(now == then)


@pytest.mark.parametrize("place", range(len(MESSAGES)), ids=lambda place: f"{place} {_name(MESSAGES[place][1])}")
def test_a_message_of_a_later_version_with_unknown_fields_is_understood(place: int) -> None:
    message = MESSAGES[place][1]
    assert msgspec.msgpack.decode(add_unknown_fields(messages.encode(message)), type=type(message)) == message


def test_fields_inside_a_probe_may_be_added_too() -> None:
    sender, clients = msgspec.msgpack.decode(messages.encode(MESSAGES[8][1]))
    later = msgspec.msgpack.encode([sender, [[*one, "later"] for one in clients], "later"])
    assert msgspec.msgpack.decode(later, type=Probe) == MESSAGES[8][1]


@pytest.mark.parametrize(
    ("shortest", "meant"),
    [
        (["node-b", "operator", "peer-1", 7], ToClient("node-b", "operator", "peer-1", 7)),
        (["operator", "peer-1"], FromClient("operator", "peer-1")),
        (["operator", "peer-1", 7], ClientLost("operator", "peer-1", 7)),
        (["peer-1", 7], ProbedClient("peer-1", 7)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_of_an_earlier_version_without_the_optional_fields_is_understood(
    shortest: list[Any], meant: msgspec.Struct
) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(shortest), type=type(meant)) == meant


class _NoLink:
    """Keeps what the bus follows."""

    def __init__(self) -> None:
        self.receive: Any = None

    def follow(self, subject: str, receive: Any) -> None:
        self.receive = receive


def test_an_event_that_only_a_later_version_knows_is_passed_over() -> None:
    bus, link, heard = NatsBus(strict=True), _NoLink(), list[ToolsChanged]()
    bus.subscribe(ToolsChanged, heard.append)
    bus.open(link, "node-a")  # type: ignore[arg-type] # it only follows
    unknown = msgspec.msgpack.encode(["node-b", 1, 0, {"type": "of_a_later_version", "owner": "operator"}])
    link.receive("hs1.all", unknown)
    link.receive("hs1.all", add_unknown_fields(messages.encode(_Published("node-b", 2, 1, ToolsChanged("operator")))))
    assert heard == [ToolsChanged("operator")]
