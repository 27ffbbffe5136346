"""Bodies of the graph API (`protocol/graph.md`) to values and back. No sockets, no clock.

Nearly every body is read in one go. One that can't be is read once more, piece by piece: then null is as good as a
missing field, and what is wrong comes out as a `BodyError` that names each place.
"""

from typing import Final, get_args

import msgspec
from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.wire.graph.bodies import BODY, read_object
from handspan.wire.graph.faults import BodyError, Detail, Faults, Place, kind_of, shown
from handspan.wire.graph.messages import judge_asked, judge_blocks, read_messages, refuse_many
from handspan.wire.graph.requests import (
    MOST_ROUNDS,
    AddedMessage,
    Asked,
    AskedMessage,
    Fresh,
    Granularity,
    InvokeBody,
    OfferedTool,
    Resume,
    ResumeBody,
    RunConfig,
    Stop,
)
from handspan.wire.graph.tools import read_tools

__all__ = [
    "Asked",
    "AskedMessage",
    "BodyError",
    "Detail",
    "Fresh",
    "OfferedTool",
    "Resume",
    "RunConfig",
    "Stop",
    "failure",
    "read_added",
    "read_asked",
    "read_setup",
    "read_state",
    "read_stop",
    "read_ws",
    "success",
]


class Metadata(Struct, frozen=True):
    """Which request it answers, and when."""

    request_id: str
    timestamp: str
    """ISO 8601 in UTC."""
    message: str = "OK"


class SuccessBody(Struct, frozen=True):
    """A request that was done (graph.md 1.1)."""

    data: Json
    metadata: Metadata


class ErrorDetails(Struct, frozen=True):
    """What is wrong."""

    code: str
    message: str
    details: list[Detail]


class FailureBody(Struct, frozen=True):
    """A request that was not done (graph.md 1.2)."""

    error: ErrorDetails
    metadata: Metadata


def read_asked(body: bytes) -> Asked:
    """The body of `invoke` and `stream`; `BodyError` names what is wrong."""
    return _asked(read_object(body), "messages")


def read_setup(body: bytes) -> list[OfferedTool]:
    """The tools that `setup` brings, in order; `BodyError` names each one that can't be taken."""
    faults = Faults()
    tools = read_tools(read_object(body).get("tools"), (*BODY, "tools"), faults)
    faults.refuse()
    return tools


def read_stop(body: bytes) -> str:
    """The thread that `stop` and `fix` are about."""
    faults = Faults()
    thread_id = _text_of(read_object(body).get("thread_id"), (*BODY, "thread_id"), faults)
    if not thread_id and not faults.details:
        faults.add((*BODY, "thread_id"), "It is missing: send the id of the thread.", "missing")
    faults.refuse()
    return thread_id


def read_added(body: bytes) -> list[AddedMessage]:
    """The messages that are put into a thread (graph.md 8.3)."""
    return _added(read_object(body).get("messages"), (*BODY, "messages"))


def read_state(body: bytes) -> list[AddedMessage]:
    """The messages of a state that is put to a thread (graph.md 8.2); none when it has none."""
    state = read_object(body).get("state")
    place = (*BODY, "state")
    if not isinstance(state, dict):
        raise BodyError([Detail(list(place), f"Send an object with 'context', not {kind_of(state)}.", "type_error")])
    context = state.get("context")
    return _added(context, (*place, "context")) if context not in (None, []) else []


def read_ws(data: bytes | str) -> Fresh | Resume | Stop:
    """A message of the WebSocket (graph.md 7.7)."""
    value = read_object(data)
    match value.get("invoke_type"):
        case "fresh":
            return Fresh(_asked(value, "messages"))
        case "resume":
            return Resume(_asked(value, "tool_result"))
        case "stop":
            return Stop()
        case other:
            said = "It is missing" if other is None else f"There is no {shown(other)}"
            kind = "missing" if other is None else "value_error"
            place = [*BODY, "invoke_type"]
            raise BodyError([Detail(place, f"{said}: send 'fresh', 'resume' or 'stop'.", kind)])


def success(data: object, request_id: str, at: str) -> bytes:
    """The answer to a request that was done (graph.md 1.1); `data` is anything that becomes JSON."""
    return _ENCODER.encode(SuccessBody(data, Metadata(request_id, at)))  # type: ignore[arg-type]  # see above


def failure(code: str, message: str, details: list[Detail], request_id: str, at: str) -> bytes:
    """The answer to one that was not (graph.md 1.2)."""
    return _ENCODER.encode(FailureBody(ErrorDetails(code, message, details), Metadata(request_id, at, message)))


def _asked(value: JsonObject, key: str) -> Asked:
    """A request whose messages stand under this key."""
    refuse_many(value.get(key), (*BODY, key))
    faults = Faults()
    try:
        body: InvokeBody | ResumeBody = msgspec.convert(value, _BODIES[key])
    except msgspec.ValidationError:
        return _asked_slowly(value, key, faults)
    messages = body.messages if isinstance(body, InvokeBody) else body.tool_result
    judge_asked(messages, (*BODY, key), faults)
    tools = None if body.tools is None else read_tools(value["tools"], (*BODY, "tools"), faults)
    config = _NO_CONFIG if body.config is None else _config(value["config"], faults)
    faults.refuse()
    return Asked(messages, config, body.recursion_limit, body.response_granularity, tools, key)


def _asked_slowly(value: JsonObject, key: str, faults: Faults) -> Asked:
    messages = read_messages(value.get(key), (*BODY, key), faults, AskedMessage)
    if not faults.details:
        judge_asked(messages, (*BODY, key), faults)
    config = _config(value.get("config"), faults)
    limit = _limit(value.get("recursion_limit"), faults)
    granularity = _granularity(value.get("response_granularity"), faults)
    tools = value.get("tools")
    offered = None if tools is None else read_tools(tools, (*BODY, "tools"), faults)
    faults.refuse()
    return Asked(messages, config, limit, granularity, offered, key)


def _config(value: Json, faults: Faults) -> RunConfig:
    if value is None:
        return _NO_CONFIG
    place = (*BODY, "config")
    if not isinstance(value, dict):
        faults.add(place, f'Send an object such as {{"thread_id": "…"}}, not {kind_of(value)}.', "type_error")
        return _NO_CONFIG
    thread_id = _text_of(value.get("thread_id"), (*place, "thread_id"), faults)
    return RunConfig(thread_id, _text_of(value.get("agent"), (*place, "agent"), faults))


def _text_of(value: Json, place: Place, faults: Faults) -> str:
    """A text, or a number as its text; empty for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _ENCODER.encode(value).decode()
    faults.add(place, f"Send a text, not {kind_of(value)}.", "type_error")
    return ""


def _limit(value: Json, faults: Faults) -> int:
    place = (*BODY, "recursion_limit")
    if value is None:
        return _ROUNDS
    if not isinstance(value, int) or isinstance(value, bool):
        faults.add(place, f"Send a whole number from 1 to {MOST_ROUNDS}, not {shown(value)}.", "type_error")
    elif not 1 <= value <= MOST_ROUNDS:
        faults.add(place, f"{shown(value)} is out of range: send 1 to {MOST_ROUNDS}, or leave it out.")
    else:
        return value
    return _ROUNDS


def _granularity(value: Json, faults: Faults) -> Granularity:
    if value is None:
        return "low"
    known = _GRANULARITIES.get(value) if isinstance(value, str) else None
    if known is None:
        faults.add((*BODY, "response_granularity"), f"There is no {shown(value)}: send 'full', 'partial' or 'low'.")
    return known or "low"


def _added(value: Json, place: Place) -> list[AddedMessage]:
    refuse_many(value, place)
    faults = Faults()
    messages = read_messages(value, place, faults, AddedMessage)
    faults.refuse()
    judge_blocks(messages, place, faults)
    faults.refuse()
    return messages


_BODIES: Final[dict[str, type[InvokeBody | ResumeBody]]] = {"messages": InvokeBody, "tool_result": ResumeBody}
_GRANULARITIES: Final[dict[str, Granularity]] = {word: word for word in get_args(Granularity)}
_NO_CONFIG: Final = RunConfig()
_ROUNDS: Final = 25
_ENCODER: Final = msgspec.json.Encoder()
