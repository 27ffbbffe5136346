"""Reads the bodies of the graph API (`protocol/graph.md`). No sockets, no clock.

Nearly every body is decoded in one step. A body that fails is read again, field by field: then null counts as a
missing field, and a `BodyError` names each place that is wrong.
"""

from typing import Final, get_args

import msgspec

from handspan.core.errors import WireError
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json
from handspan.wire.graph.faults import BodyError, Detail, Faults, Kind, Place, kind_name, quote
from handspan.wire.graph.messages import check_blocks, check_counts, check_request, read_messages
from handspan.wire.graph.requests import (
    MAX_ROUNDS,
    AddedMessage,
    Fresh,
    Granularity,
    InvokeBody,
    OfferedTool,
    RequestMessage,
    Resume,
    ResumeBody,
    RunConfig,
    RunRequest,
    Stop,
)
from handspan.wire.graph.tools import read_tools
from handspan.wire.json_size import MAX_VALUES, TooManyValues

BODY: Final[Place] = ("body",)


def read_object(body: bytes | str) -> JsonObject:
    """Return the object that a body holds. Raises `BodyError` when the body is not an object."""
    try:
        value = strict_json.parse(body, max_values=MAX_VALUES)
    except TooManyValues as error:
        raise BodyError([Detail(list(BODY), str(error), "value_error")]) from None
    except WireError as error:
        raise BodyError([Detail(list(BODY), str(error), "json_invalid")]) from None
    if not isinstance(value, dict):
        raise BodyError([Detail(list(BODY), f"Send an object, not {kind_name(value)}.", "type_error")])
    return value


def read_body(body: bytes, kind: type[Kind]) -> Kind:
    """Return the body as this type; an empty body is an empty object. Raises `BodyError` with each wrong place."""
    value = read_object(body) if body.strip() not in (b"", b"null") else {}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        faults = Faults()
        read = faults.read(value, kind, BODY)
        faults.raise_if_any()
        assert read is not None, "a body that can't be read has a fault"
        return read


def read_run_request(body: bytes) -> RunRequest:
    """Return the body of `invoke` and `stream`. Raises `BodyError`."""
    return _read_request(read_object(body), "messages")


def read_setup(body: bytes) -> list[OfferedTool]:
    """Return the tools of `setup`, in order. Raises `BodyError`, which names each wrong tool."""
    faults = Faults()
    tools = read_tools(read_object(body).get("tools"), (*BODY, "tools"), faults)
    faults.raise_if_any()
    return tools


def read_stop(body: bytes) -> str:
    """Return the thread id in the body of `stop` and `fix`."""
    faults = Faults()
    thread_id = _read_text(read_object(body).get("thread_id"), (*BODY, "thread_id"), faults)
    if not thread_id and not faults.details:
        faults.add((*BODY, "thread_id"), "It is missing: send the id of the thread.", "missing")
    faults.raise_if_any()
    return thread_id


def read_added(body: bytes) -> list[AddedMessage]:
    """Return the messages to append to a thread (graph.md 8.3)."""
    return _read_messages(read_object(body).get("messages"), (*BODY, "messages"))


def read_state(body: bytes) -> list[AddedMessage]:
    """Return the messages to append from a state (graph.md 8.2). Empty: the state has none."""
    state = read_object(body).get("state")
    place = (*BODY, "state")
    if not isinstance(state, dict):
        raise BodyError([Detail(list(place), f"Send an object with 'context', not {kind_name(state)}.", "type_error")])
    context = state.get("context")
    return _read_messages(context, (*place, "context")) if context not in (None, []) else []


def read_ws(data: bytes | str) -> Fresh | Resume | Stop:
    """Return a message of the WebSocket (graph.md 7.7)."""
    value = read_object(data)
    match value.get("invoke_type"):
        case "fresh":
            return Fresh(_read_request(value, "messages"))
        case "resume":
            return Resume(_read_request(value, "tool_result"))
        case "stop":
            return Stop()
        case other:
            problem = "It is missing" if other is None else f"There is no {quote(other)}"
            kind = "missing" if other is None else "value_error"
            place = [*BODY, "invoke_type"]
            raise BodyError([Detail(place, f"{problem}: send 'fresh', 'resume' or 'stop'.", kind)])


def _read_request(value: JsonObject, key: str) -> RunRequest:
    """Return a run request whose messages are under this key."""
    check_counts(value.get(key), (*BODY, key))
    faults = Faults()
    try:
        body: InvokeBody | ResumeBody = msgspec.convert(value, _BODIES[key])
    except msgspec.ValidationError:
        return _read_request_slowly(value, key, faults)
    messages = body.messages if isinstance(body, InvokeBody) else body.tool_result
    check_request(messages, (*BODY, key), faults)
    tools = None if body.tools is None else read_tools(value["tools"], (*BODY, "tools"), faults)
    config = _NO_CONFIG if body.config is None else _read_config(value["config"], faults)
    faults.raise_if_any()
    return RunRequest(messages, config, body.recursion_limit, body.response_granularity, tools, key, body.questions)


def _read_request_slowly(value: JsonObject, key: str, faults: Faults) -> RunRequest:
    """Return the request, read field by field. Raises `BodyError` with every fault."""
    messages = read_messages(value.get(key), (*BODY, key), faults, RequestMessage)
    if not faults.details:
        check_request(messages, (*BODY, key), faults)
    config = _read_config(value.get("config"), faults)
    limit = _read_limit(value.get("recursion_limit"), faults)
    granularity = _read_granularity(value.get("response_granularity"), faults)
    tools = value.get("tools")
    offered = None if tools is None else read_tools(tools, (*BODY, "tools"), faults)
    questions = _read_flag(value.get("questions"), (*BODY, "questions"), faults)
    faults.raise_if_any()
    return RunRequest(messages, config, limit, granularity, offered, key, questions)


def _read_config(value: Json, faults: Faults) -> RunConfig:
    if value is None:
        return _NO_CONFIG
    place = (*BODY, "config")
    if not isinstance(value, dict):
        faults.add(place, f'Send an object such as {{"thread_id": "…"}}, not {kind_name(value)}.', "type_error")
        return _NO_CONFIG
    thread_id = _read_text(value.get("thread_id"), (*place, "thread_id"), faults)
    agent = _read_text(value.get("agent"), (*place, "agent"), faults)
    return RunConfig(thread_id, agent, _read_flag(value.get("retry"), (*place, "retry"), faults))


def _read_text(value: Json, place: Place, faults: Faults) -> str:
    """Return a text, or a number as text. Empty for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _ENCODER.encode(value).decode()
    faults.add(place, f"Send a text, not {kind_name(value)}.", "type_error")
    return ""


def _read_limit(value: Json, faults: Faults) -> int:
    place = (*BODY, "recursion_limit")
    if value is None:
        return _DEFAULT_ROUNDS
    if not isinstance(value, int) or isinstance(value, bool):
        faults.add(place, f"Send a whole number from 1 to {MAX_ROUNDS}, not {quote(value)}.", "type_error")
    elif not 1 <= value <= MAX_ROUNDS:
        faults.add(place, f"{quote(value)} is out of range: send 1 to {MAX_ROUNDS}, or leave it out.")
    else:
        return value
    return _DEFAULT_ROUNDS


def _read_flag(value: Json, place: Place, faults: Faults) -> bool:
    if value is not None and not isinstance(value, bool):
        faults.add(place, f"Send true or false, not {quote(value)}.", "type_error")
    return value is True


def _read_granularity(value: Json, faults: Faults) -> Granularity:
    if value is None:
        return "low"
    known = _GRANULARITIES.get(value) if isinstance(value, str) else None
    if known is None:
        faults.add((*BODY, "response_granularity"), f"There is no {quote(value)}: send 'full', 'partial' or 'low'.")
    return known or "low"


def _read_messages(value: Json, place: Place) -> list[AddedMessage]:
    check_counts(value, place)
    faults = Faults()
    messages = read_messages(value, place, faults, AddedMessage)
    faults.raise_if_any()
    check_blocks(messages, place, faults)
    faults.raise_if_any()
    return messages


_BODIES: Final[dict[str, type[InvokeBody | ResumeBody]]] = {"messages": InvokeBody, "tool_result": ResumeBody}
_GRANULARITIES: Final[dict[str, Granularity]] = {word: word for word in get_args(Granularity)}
_NO_CONFIG: Final = RunConfig()
_DEFAULT_ROUNDS: Final = 25
_ENCODER: Final = msgspec.json.Encoder()
