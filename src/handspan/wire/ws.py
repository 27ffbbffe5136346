"""Encodes and decodes the frames of `protocol/ws.md`, for both ends. No sockets, no clock.

A frame from a client is read tolerantly where the protocol says so (an id that is not a string counts as missing), and
strictly elsewhere. A wrong frame raises `FrameError`, with the code of the gateway's answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, get_args

import msgspec

from handspan.core.errors import WireError
from handspan.core.fast import IS_FAST
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json
from handspan.wire import ws_chat_frames as chat
from handspan.wire import ws_frames as frames
from handspan.wire.fast_calls import read_request, read_result
from handspan.wire.ws_frames import CAPABILITIES, FrameCode, Offer

ClientFrame: TypeAlias = (
    frames.Connect
    | chat.Say
    | chat.Abort
    | chat.Regenerate
    | chat.AnswerFrame
    | frames.RegisterTools
    | frames.UnregisterTools
    | frames.GetRegisteredTools
    | frames.ResultFrame
    | frames.FailureFrame
    | frames.ProgressFrame
    | frames.PermissionAnswer
    | frames.LoginStart
    | frames.DeviceNotes
    | frames.TrustRequest
    | frames.Ping
)

ServerFrame: TypeAlias = (
    chat.SessionStart
    | frames.Connected
    | chat.MessageAccepted
    | chat.Chunk
    | chat.ThinkingFrame
    | chat.CallNote
    | chat.ResultNote
    | chat.ChunkReset
    | chat.Done
    | chat.TitleUpdated
    | chat.Versions
    | chat.AbortedFrame
    | chat.AbortAck
    | chat.DebugPrompt
    | chat.EventFrame
    | chat.QuestionFrame
    | frames.QuestionClosed
    | frames.ToolsRegistered
    | frames.ToolsUnregistered
    | frames.ToolsWithdrawn
    | frames.RegisteredTools
    | frames.CallRequest
    | frames.CancelFrame
    | frames.PermissionRequest
    | frames.LoginStart
    | frames.TrustAnswer
    | frames.Acknowledged
    | chat.ChannelMessage
    | frames.PongFrame
    | frames.ErrorFrame
)


class FrameError(WireError):
    """A frame is wrong. `code` goes into the answer to its sender."""

    def __init__(self, code: FrameCode, message: str) -> None:
        super().__init__(message)
        self.code: FrameCode = code


encode: Final[Callable[[ClientFrame | ServerFrame], bytes]] = msgspec.json.Encoder().encode
"""Returns the frame as one JSON text."""


def decode_client(data: bytes | str, max_depth: int = strict_json.DEFAULT_MAX_DEPTH) -> ClientFrame:
    """Return a frame from a client. Raises `FrameError` when it is wrong."""
    plain = read_result(data, max_depth) if IS_FAST else None
    frame: ClientFrame = _decode(data, _CLIENT_FRAMES, max_depth) if plain is None else plain
    return frame


def decode_server(data: bytes | str, max_depth: int = strict_json.DEFAULT_MAX_DEPTH) -> ServerFrame | None:
    """Return a frame from the gateway. None: its type is unknown here (ws.md 2.2)."""
    plain = read_request(data, max_depth) if IS_FAST else None
    if plain is not None:
        return plain
    try:
        frame: ServerFrame = _decode(data, _SERVER_FRAMES, max_depth)
    except FrameError as error:
        if error.code == "UNKNOWN_MESSAGE_TYPE":
            return None
        raise
    return frame


def is_utf8(data: bytes) -> bool:
    """Whether these bytes are UTF-8."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_offer(offered: Json) -> Offer:
    """Return one entry of `register_tools`. Raises `FrameError`, which says what is missing or wrong."""
    offer: Offer = _convert(offered, Offer)
    return offer


def offered_name(offered: Json) -> str:
    """Return the name of an entry of `register_tools`, even of a wrong entry; empty if it has none."""
    name = offered.get("name") if isinstance(offered, dict) else None
    return name if isinstance(name, str) else ""


def arguments_object(text: str) -> JsonObject:
    """Return a model's arguments as an object. Other text becomes {"raw": text}: parsers of clients need an object."""
    try:
        value = strict_json.parse(text or "{}")
    except WireError:
        return {"raw": text}
    return value if isinstance(value, dict) else {"raw": text}


def shared_capabilities(offered: list[str]) -> frozenset[str]:
    """Return the capabilities that both the client and the gateway have."""
    return CAPABILITIES.intersection(offered)


def _decode(data: bytes | str, known: Mapping[str, type[Any]], max_depth: int) -> Any:
    """Return the frame in this text. Raises `FrameError` for an unknown or invalid one."""
    try:
        value = strict_json.parse(data, max_depth=max_depth)
    except WireError as error:
        raise FrameError("INVALID_JSON", str(error)) from None
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise FrameError("INVALID_FRAME", 'A frame is a JSON object with a string "type".')
    frame = known.get(kind)
    if frame is None:
        raise FrameError("UNKNOWN_MESSAGE_TYPE", f"Frames of type {kind[:60]!r} are not known here.")
    return _convert(value, frame)


def _convert(value: Json, frame: type[Any]) -> Any:
    try:
        return msgspec.convert(value, frame)
    except msgspec.ValidationError as error:
        raise FrameError("INVALID_FRAME", f"{_subject(frame)}: {error}") from None


def _subject(frame: type[Any]) -> str:
    tag = frame.__struct_config__.tag
    return f"The frame {tag!r} can't be taken" if tag else "It can't be taken"


def _by_tag(union: Any) -> Mapping[str, type[Any]]:
    return {frame.__struct_config__.tag: frame for frame in get_args(union)}


_CLIENT_FRAMES: Final = _by_tag(ClientFrame)
_SERVER_FRAMES: Final = _by_tag(ServerFrame)
