"""Reads the bodies of the graph API (`protocol/graph.md`). No sockets, no clock.

Nearly all messages are decoded in one step. Messages that fail are read again, field by field: then null counts as a
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
    DEFAULT_NODE,
    MAX_ENTRIES,
    MAX_ROUNDS,
    AddedMessage,
    Fresh,
    Granularity,
    Messages,
    OfferedTool,
    OpenAiTool,
    RequestMessage,
    Resume,
    RunConfig,
    RunRequest,
    Stop,
)
from handspan.wire.json_size import MAX_VALUES, TooManyValues

BODY: Final[Place] = ("body",)
_TOOLS: Final = '[{"node_name": "tools", "name": "read_clipboard", "description": "…", "parameters": {}}]'


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
    tools = _read_tools(read_object(body).get("tools"), (*BODY, "tools"), faults)
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
    """Return a run request whose messages are under this key. Raises `BodyError` with every fault."""
    place, faults = (*BODY, key), Faults()
    check_counts(value.get(key), place)
    try:
        messages = msgspec.convert(value.get(key), Messages)
    except msgspec.ValidationError:
        messages = read_messages(value.get(key), place, faults, RequestMessage)
    if not faults.details:
        check_request(messages, place, faults)
    config = _read_config(value.get("config"), faults)
    limit = _read_limit(value.get("recursion_limit"), faults)
    granularity = _read_granularity(value.get("response_granularity"), faults)
    tools = value.get("tools")
    offered = None if tools is None else _read_tools(tools, (*BODY, "tools"), faults)
    questions = _read_flag(value.get("questions"), (*BODY, "questions"), faults)
    faults.raise_if_any()
    return RunRequest(messages, config, limit, granularity, tools=offered, key=key, questions=questions)


def _read_config(value: Json, faults: Faults) -> RunConfig:
    """Return the `config` of a run, with faults added for what is wrong."""
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
    """Return how many rounds the run may have; the default, with a fault added, for a wrong limit."""
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


# Tools, in either of two forms (graph.md 3.1).


def _read_tools(value: Json, place: Place, faults: Faults) -> list[OfferedTool]:
    """Return the tools of a list, in order. Each wrong tool adds its own faults."""
    if isinstance(value, list) and len(value) > MAX_ENTRIES:
        faults.add(place, f"It has {len(value):,} tools, and {MAX_ENTRIES:,} is the most: send fewer in one request.")
        return []
    read = [_read_tool(entry, here, faults) for here, entry in faults.read_list(value, place, _TOOLS)]
    return [tool for tool in read if tool is not None]


def _read_tool(entry: Json, place: Place, faults: Faults) -> OfferedTool | None:
    if isinstance(entry, dict) and "function" in entry:
        return _read_function(entry, place, faults)
    tool = faults.read(entry, OfferedTool, place)
    return None if tool is None else _check_name(tool, (*place, "name"), faults)


def _read_function(entry: Json, place: Place, faults: Faults) -> OfferedTool | None:
    """Return a tool in OpenAI's form; None, with a fault added, for an invalid one."""
    form = faults.read(entry, OpenAiTool, place)
    if form is None:
        return None
    tool = OfferedTool(
        form.node_name,
        form.function.name,
        form.function.description or "",
        form.function.parameters or {},
        permissions=form.permissions,
        timeout=form.timeout,
        version=form.version,
        annotations=form.annotations,
    )
    return _check_name(tool, (*place, "function", "name"), faults)


def _check_name(tool: OfferedTool, name_place: Place, faults: Faults) -> OfferedTool | None:
    """Return the tool, with the default node if it names none. Without a name: add a fault, and return None."""
    if not tool.name.strip():
        faults.add(name_place, "A tool needs a name: send one, as in 'read_clipboard'.")
        return None
    if tool.node_name:
        return tool
    return msgspec.structs.replace(tool, node_name=DEFAULT_NODE)


_GRANULARITIES: Final[dict[str, Granularity]] = {word: word for word in get_args(Granularity)}
_NO_CONFIG: Final = RunConfig()
_DEFAULT_ROUNDS: Final = 25
_ENCODER: Final = msgspec.json.Encoder()
