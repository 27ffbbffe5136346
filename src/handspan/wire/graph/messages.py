"""Reads and checks the messages of a request (`protocol/graph.md` 2 and 4.1)."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
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
from handspan.wire.graph.faults import BodyError, Detail, Faults, Place, quote
from handspan.wire.graph.requests import MAX_ENTRIES, AddedMessage, RequestMessage

AnyMessage = TypeVar("AnyMessage", RequestMessage, AddedMessage)

EXAMPLE: Final = '[{"role": "user", "content": [{"type": "text", "text": "hello"}]}]'
_CONTENT: Final = '[{"type": "text", "text": "hello"}]'

_BLOCKS: Final[Mapping[str, type[Any]]] = {kind.__struct_config__.tag: kind for kind in get_args(Block)}
_BLOCKS_OF_ROLE: Final[Mapping[str, frozenset[type]]] = {
    "user": frozenset(PERSON_BLOCKS),
    "tool": frozenset((ToolResultBlock,)),
    "assistant": frozenset((*PERSON_BLOCKS, ReasoningBlock)),
    "system": frozenset(PERSON_BLOCKS),
}
WRONG_ROLE: Final = (
    "Messages of the role {role!r} are not accepted here: the agent has its own instructions and the thread its own "
    "memory. Send messages of 'user', or results as 'tool'."
)


def check_counts(value: Json, place: Place) -> None:
    """Raise `BodyError` for too many messages, blocks or parts in one request. Call it before reading them."""
    messages = value if isinstance(value, list) else []
    _check_count("messages", len(messages), place)
    contents = [_list_in(message, "content") for message in messages]
    _check_count("blocks", sum(map(len, contents)), place)
    _check_count("parts", sum([len(_list_in(block, "parts")) for content in contents for block in content]), place)


def read_messages(value: Json, place: Place, faults: Faults, kind: type[AnyMessage]) -> list[AnyMessage]:
    """Return the messages of a list. Each wrong message adds its own faults."""
    if value == []:
        faults.add(place, f"Send at least one message, as in {EXAMPLE}.")
    read = [_read_message(entry, here, faults, kind) for here, entry in faults.read_list(value, place, EXAMPLE)]
    return [message for message in read if message is not None]


def check_request(messages: Sequence[RequestMessage], place: Place, faults: Faults) -> None:
    """Add faults for messages that can't be requested: mixed roles, blocks of the wrong kind, no content."""
    roles = [message.role for message in messages]
    if "tool" in roles and len(set(roles)) > 1:
        faults.add(place, "Send messages of a person or results of tools, not both in one request.")
    check_blocks(messages, place, faults)
    if faults.details or "tool" in roles:
        return
    last = (*place, str(len(messages) - 1))
    new = takewhile(lambda message: message.role == "user", reversed(messages))  # those that are answered
    if roles[-1] != "user":
        faults.add((*last, "role"), "There is nothing to answer: end with a message of the role 'user'.")
    elif not any(type(block) is not TextBlock or block.text.strip() for message in new for block in message.content):
        faults.add((*last, "content"), "There is nothing to answer: send some text.")


def check_blocks(messages: Sequence[RequestMessage | AddedMessage], place: Place, faults: Faults) -> None:
    """Add faults for blocks that do not belong to the role of their message, or that lack their data."""
    for index, message in enumerate(messages):
        if faults.is_full:
            return
        _check_message(message, (*place, str(index), "content"), faults)


def _list_in(entry: Json, key: str) -> Sequence[Json]:
    found = entry.get(key) if isinstance(entry, dict) else None
    return found if isinstance(found, list) else ()


def _check_count(what: str, count: int, place: Place) -> None:
    if count > MAX_ENTRIES:
        text = f"It has {count:,} {what}, and {MAX_ENTRIES:,} is the most: send fewer in one request."
        raise BodyError([Detail(list(place), text, "value_error")])


def _check_message(message: RequestMessage | AddedMessage, place: Place, faults: Faults) -> None:
    """Add the faults of this message: no content, blocks that its role can't have, media without content."""
    if not message.content:
        faults.add(place, f"It is empty: send at least one block, as in {_example(message.role)}.")
    allowed = _BLOCKS_OF_ROLE[message.role]
    for number, block in enumerate(message.content):
        kind = type(block)
        if kind is TextBlock and kind in allowed:
            continue
        if faults.is_full:
            return
        if kind not in allowed:
            faults.add((*place, str(number)), _reason(message.role, block))
        else:
            _check_media(block, (*place, str(number)), faults)


def _read_message(entry: Json, place: Place, faults: Faults, kind: type[AnyMessage]) -> AnyMessage | None:
    if not isinstance(entry, dict):
        faults.add(place, f"Send a message, as in {EXAMPLE[1:-1]}.", "type_error")
        return None
    before = len(faults.details)
    role: Any = _read_role(entry.get("role"), (*place, "role"), faults, kind)
    content = _read_content(entry.get("content"), (*place, "content"), faults, role)
    return kind(role, content) if len(faults.details) == before else None


def _read_content(value: Json, place: Place, faults: Faults, role: str) -> list[Block]:
    read = [_read_block(entry, here, faults) for here, entry in faults.read_list(value, place, _example(role))]
    return [block for block in read if block is not None]


def _read_role(role: Json, place: Place, faults: Faults, kind: type[AnyMessage]) -> str:
    """Return the role; empty, with a fault added, for one that such a message can't have."""
    known = get_args(kind.__annotations__["role"])
    if role in known:
        return str(role)
    if role is None:
        faults.add(place, f"It is missing: send one of {', '.join(map(repr, known))}.", "missing")
    elif role in ("system", "assistant", "tool", "user"):
        faults.add(place, WRONG_ROLE.format(role=role))
    else:
        faults.add(place, f"There is no role {quote(role)}: send one of {', '.join(map(repr, known))}.")
    return ""


def _read_block(entry: Json, place: Place, faults: Faults) -> Block | None:
    """Return the block; None, with a fault added, for an unknown or invalid one."""
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
        faults.add((*place, "type"), f"There is no block {quote(name)}: send one of {', '.join(_BLOCKS)}.")
    return None


def _example(role: str) -> str:
    return '[{"type": "tool_result", "call_id": "…", "output": …}]' if role == "tool" else _CONTENT


def _reason(role: str, block: Block) -> str:
    """Return why a message of this role may not have this block."""
    name = str(type(block).__struct_config__.tag)
    if role == "tool":
        return f"A {name!r} block does not answer a call: send 'tool_result' blocks, {_example(role)}."
    if isinstance(block, ToolCallBlock | RemoteToolCallBlock):
        return f"A {name!r} block is not accepted from outside: only the model calls tools. Leave it out."
    if isinstance(block, ToolResultBlock):
        return "A result stands in a message of the role 'tool'."
    return f"A {name!r} block is not part of what a person says. Leave it out."


def _check_media(block: Block, place: Place, faults: Faults) -> None:
    """Add a fault if a block that needs a medium has none."""
    match block:
        case ImageBlock(media=media) | AudioBlock(media=media) | VideoBlock(media=media):
            _check_location(media, (*place, "media"), faults)
        case DocumentBlock(media=MediaLocation() as media) | DataBlock(media=MediaLocation() as media):
            _check_location(media, (*place, "media"), faults)
        case DocumentBlock(text=None):
            faults.add((*place, "media"), "A document has a 'media' or a 'text': send one of them.", "missing")
        case DataBlock(data_base64=None):
            faults.add((*place, "data_base64"), "Send 'data_base64' or 'media'.", "missing")
        case _:
            return


def _check_location(media: MediaLocation, place: Place, faults: Faults) -> None:
    field = "data_base64" if media.kind == "data" else media.kind
    if not getattr(media, field):
        faults.add((*place, field), f"A medium of the kind {media.kind!r} needs {field!r}: send it.", "missing")
