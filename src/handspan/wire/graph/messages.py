"""The messages of a request (`protocol/graph.md` 2 and 4.1): read where the fast way gave up, and judged."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, get_args

from handspan.core.values import Json
from handspan.wire.graph.blocks import (
    PERSON_BLOCKS,
    AudioBlock,
    Block,
    DataBlock,
    DocumentBlock,
    ImageBlock,
    MediaLocation,
    ReasoningBlock,
    RemoteToolCallBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    VideoBlock,
)
from handspan.wire.graph.faults import BodyError, Detail, Faults, Place, shown
from handspan.wire.graph.requests import MOST_ENTRIES, AddedMessage, AskedMessage

AnyMessage = TypeVar("AnyMessage", AskedMessage, AddedMessage)

EXAMPLE: Final = '[{"role": "user", "content": [{"type": "text", "text": "hello"}]}]'
_CONTENT: Final = '[{"type": "text", "text": "hello"}]'

_BLOCKS: Final[Mapping[str, type[Any]]] = {kind.__struct_config__.tag: kind for kind in get_args(Block)}
_ALLOWED: Final[Mapping[str, frozenset[type]]] = {
    "user": frozenset(PERSON_BLOCKS),
    "tool": frozenset((ToolResultBlock,)),
    "assistant": frozenset((*PERSON_BLOCKS, ReasoningBlock)),
}
_NOT_HERE: Final = (
    "Messages of the role {role!r} are not taken here: the agent has its own instructions and the thread its own "
    "memory. Send messages of 'user', or results as 'tool'."
)


def refuse_many(value: Json, place: Place) -> None:
    """`BodyError` for more messages, blocks or parts than one request may bring; for before any of them is read."""
    messages = value if isinstance(value, list) else []
    _refuse_more("messages", len(messages), place)
    contents = [_list_in(message, "content") for message in messages]
    _refuse_more("blocks", sum(map(len, contents)), place)
    _refuse_more("parts", sum([len(_list_in(block, "parts")) for content in contents for block in content]), place)


def read_messages(value: Json, place: Place, faults: Faults, kind: type[AnyMessage]) -> list[AnyMessage]:
    """The messages of a list; what can't be taken is written down, each by itself."""
    if value == []:
        faults.add(place, f"Send at least one message, as in {EXAMPLE}.")
    read = [_read_message(entry, here, faults, kind) for here, entry in faults.read_list(value, place, EXAMPLE)]
    return [message for message in read if message is not None]


def judge_asked(messages: Sequence[AskedMessage], place: Place, faults: Faults) -> None:
    """Write down what may not be asked: a mixture, a call from outside, a tool's message without a result."""
    roles = {message.role for message in messages}
    if len(roles) > 1:
        faults.add(place, "Send messages of a person or results of tools, not both in one request.")
    judge_blocks(messages, place, faults)
    if roles == {"user"} and not faults.details and not any(_says_something(message) for message in messages):
        faults.add((*place, str(len(messages) - 1), "content"), "There is nothing to answer: send some text.")


def judge_blocks(messages: Sequence[AskedMessage | AddedMessage], place: Place, faults: Faults) -> None:
    """Write down which blocks may not stand in a message of their role, or lack what they are about."""
    for index, message in enumerate(messages):
        if faults.is_full:
            return
        _judge_message(message, (*place, str(index), "content"), faults)


def _list_in(entry: Json, key: str) -> Sequence[Json]:
    found = entry.get(key) if isinstance(entry, dict) else None
    return found if isinstance(found, list) else ()


def _refuse_more(what: str, count: int, place: Place) -> None:
    if count > MOST_ENTRIES:
        text = f"It has {count:,} {what}, and {MOST_ENTRIES:,} is the most: send fewer in one request."
        raise BodyError([Detail(list(place), text, "value_error")])


def _judge_message(message: AskedMessage | AddedMessage, place: Place, faults: Faults) -> None:
    if not message.content:
        faults.add(place, f"It is empty: send at least one block, as in {_needed(message.role)}.")
    allowed = _ALLOWED[message.role]
    for number, block in enumerate(message.content):
        kind = type(block)
        if kind is TextBlock and kind in allowed:
            continue
        if faults.is_full:
            return
        if kind not in allowed:
            faults.add((*place, str(number)), _why_not(message.role, block))
        else:
            _judge_media(block, (*place, str(number)), faults)


def _read_message(entry: Json, place: Place, faults: Faults, kind: type[AnyMessage]) -> AnyMessage | None:
    if not isinstance(entry, dict):
        faults.add(place, f"Send a message, as in {EXAMPLE[1:-1]}.", "type_error")
        return None
    before = len(faults.details)
    role: Any = _read_role(entry.get("role"), (*place, "role"), faults, kind)
    content = _read_content(entry.get("content"), (*place, "content"), faults, role)
    return kind(role, content) if len(faults.details) == before else None


def _read_content(value: Json, place: Place, faults: Faults, role: str) -> list[Block]:
    read = [_read_block(entry, here, faults) for here, entry in faults.read_list(value, place, _needed(role))]
    return [block for block in read if block is not None]


def _read_role(role: Json, place: Place, faults: Faults, kind: type[AnyMessage]) -> str:
    known = get_args(kind.__annotations__["role"])
    if role in known:
        return str(role)
    if role is None:
        faults.add(place, f"It is missing: send one of {', '.join(map(repr, known))}.", "missing")
    elif role in ("system", "assistant", "tool", "user"):
        faults.add(place, _NOT_HERE.format(role=role))
    else:
        faults.add(place, f"There is no role {shown(role)}: send one of {', '.join(map(repr, known))}.")
    return ""


def _read_block(entry: Json, place: Place, faults: Faults) -> Block | None:
    name = entry.get("type") if isinstance(entry, dict) else None
    kind = _BLOCKS.get(name) if isinstance(name, str) else None
    if kind is not None:
        block: Block | None = faults.read(entry, kind, place)
        return block
    if not isinstance(entry, dict):
        faults.add(place, f"Send a block, as in {_CONTENT[1:-1]}.", "type_error")
    elif name is None:
        faults.add((*place, "type"), f"It is missing: send one of {', '.join(_BLOCKS)}.", "missing")
    else:
        faults.add((*place, "type"), f"There is no block {shown(name)}: send one of {', '.join(_BLOCKS)}.")
    return None


def _needed(role: str) -> str:
    return '[{"type": "tool_result", "call_id": "…", "output": …}]' if role == "tool" else _CONTENT


def _why_not(role: str, block: Block) -> str:
    name = _tag(block)
    if role == "tool":
        return f"A {name!r} block does not answer a call: send 'tool_result' blocks, {_needed(role)}."
    if isinstance(block, ToolCallBlock | RemoteToolCallBlock):
        return f"A {name!r} block is not taken from outside: only the model calls tools. Leave it out."
    if isinstance(block, ToolResultBlock):
        return "A result stands in a message of the role 'tool'."
    return f"A {name!r} block is not part of what a person says. Leave it out."


def _says_something(message: AskedMessage) -> bool:
    return any(type(block) is not TextBlock or block.text.strip() for block in message.content)


def _judge_media(block: Block, place: Place, faults: Faults) -> None:
    match block:
        case ImageBlock(media=media) | AudioBlock(media=media) | VideoBlock(media=media):
            _judge_medium(media, (*place, "media"), faults)
        case DocumentBlock(media=MediaLocation() as media) | DataBlock(media=MediaLocation() as media):
            _judge_medium(media, (*place, "media"), faults)
        case DocumentBlock(text=None):
            faults.add((*place, "media"), "A document has a 'media' or a 'text': send one of them.", "missing")
        case DataBlock(data_base64=None):
            faults.add((*place, "data_base64"), "Send 'data_base64' or 'media'.", "missing")
        case _:
            return


def _judge_medium(media: MediaLocation, place: Place, faults: Faults) -> None:
    field = "data_base64" if media.kind == "data" else media.kind
    if not getattr(media, field):
        faults.add((*place, field), f"A medium of the kind {media.kind!r} needs {field!r}: send it.", "missing")


def _tag(block: Block) -> str:
    return str(type(block).__struct_config__.tag)
