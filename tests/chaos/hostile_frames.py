"""Frames that no honest client sends, and bytes that are no frames. All of it follows from the chance that is given."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec

from handspan.core.values import Json, JsonObject

_TEMPLATES: Final[tuple[JsonObject, ...]] = (
    {"type": "connect", "v": 1, "capabilities": ["resume", "cancel"], "role": "device", "label": "x", "resume": "no"},
    {"type": "message", "content": "hello", "debug": False, "join": True},
    {"type": "abort"},
    {"type": "regenerate", "debug": True},
    {"type": "answer", "id": "q", "decision": "allow", "always": True, "arguments": {}},
    {"type": "register_tools", "tools": [{"name": "t", "description": "d", "parameters": {"type": "object"}}]},
    {"type": "unregister_tools", "names": ["t"]},
    {"type": "get_registered_tools"},
    {"type": "tool_result", "id": "i", "output": "o", "success": True, "error": None, "parts": []},
    {"type": "tool_error", "id": "i", "error": "e", "code": "timeout"},
    {"type": "tool_progress", "id": "i", "value": 1},
    {"type": "permission_answer", "id": "i", "decision": "allow"},
)
_WRONG: Final[tuple[Json, ...]] = (
    None, True, -1, 0, 2**70, 1.5, "", "x" * 5000, [], {}, [[]], ["a", 1, None], {"a": {"b": []}}, "\u202e\u0000\u200b",
)  # fmt: skip
_TEXTS: Final = (
    "",
    " ",
    "{",
    "}",
    "null",
    "[]",
    '"type"',
    "{}",
    '{"type"}',
    '{"type": 1}',
    '{"type": null}',
    '{"type": "connect", "type": "message"}',
    '{"type": "message", "content": NaN}',
    '{"type": "message", "content": 1e999}',
    '{"type": "message", "content": "\\ud800"}',
    '{"type": "no_such_thing"}',
    '{"type": "message"} {"type": "abort"}',
    "\ufeff{}",
    "GET / HTTP/1.1\r\n\r\n",
    '{"type": "tool_result", "id": "' + "i" * 100_000 + '"}',
)
_BAD_SCHEMAS: Final[tuple[Json, ...]] = (
    {"$ref": "#"},
    {"$ref": "http://127.0.0.1:1/schema.json"},
    {"$ref": "file:///etc/passwd"},
    {"type": "object", "properties": {"a": {"pattern": "(a+)+$", "type": "string"}}},
    {"type": "object", "properties": {"a": {"pattern": "(", "type": "string"}}},
    {"type": "object", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"type": "object", "required": list("x" * 5000)},
    {"type": "object", "properties": {"p" * 20_000: {}}},
    {"type": 5},
    [],
    "object",
)
_BAD_PERMISSIONS: Final[tuple[Json, ...]] = ([], ["p"], [1], "p")
_BAD_ANNOTATIONS: Final[tuple[Json, ...]] = ({}, {"read_only": "yes"}, [], None)
_BAD_NAMES: Final[tuple[Json, ...]] = (
    "", " ", "exec_shell", "read_file", "a" * 500, "a__b", "../x", "\u0000", "\u202egnp", "naïve", "😀", None, 7, ["a"],
)  # fmt: skip


def hostile_text(chance: Random, known_ids: Sequence[str]) -> str:
    """One message that is wrong, or forged."""
    make = chance.choice((_mangled, _mangled, _fixed, _deep, _spoofed, _tools, _cut))
    return make(chance, known_ids)


def _text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _fixed(chance: Random, _: Sequence[str]) -> str:
    return chance.choice(_TEXTS)


def _mangled(chance: Random, _: Sequence[str]) -> str:
    """A frame with one field of the wrong kind, gone, or too much."""
    frame = dict(chance.choice(_TEMPLATES))
    field = chance.choice(list(frame))
    if chance.random() < 0.2:
        del frame[field]
    else:
        frame[field] = chance.choice(_WRONG)
    if chance.random() < 0.2:
        frame["unknown"] = chance.choice(_WRONG)
    return _text(frame)


def _cut(chance: Random, _: Sequence[str]) -> str:
    """The beginning of a good frame."""
    text = _text(chance.choice(_TEMPLATES))
    return text[: chance.randrange(len(text))]


def _deep(chance: Random, _: Sequence[str]) -> str:
    depth = chance.choice((65, 1000, 20_000))
    opens, closes = chance.choice((("[", "]"), ('{"a":', "}")))
    inner = opens * depth + "1" + closes * depth
    return f'{{"type": "tool_result", "id": "x", "output": {inner}}}'


def _spoofed(chance: Random, known_ids: Sequence[str]) -> str:
    """An answer to somebody else's call."""
    call_id = chance.choice(known_ids) if known_ids and chance.random() < 0.8 else chance.randbytes(16).hex()
    kind = chance.choice(("tool_result", "tool_error", "tool_progress"))
    return _text({"type": kind, "id": call_id, "output": "forged", "error": "forged", "value": "forged"})


def _tools(chance: Random, _: Sequence[str]) -> str:
    """Tools that can't be taken, or too many of them."""
    count = chance.choice((1, 3, 300))
    tools: list[Json] = [
        {
            "name": chance.choice(_BAD_NAMES),
            "description": chance.choice(("", "d" * 5000, "\u202e", 7, None)),
            "parameters": chance.choice(_BAD_SCHEMAS),
            "timeout": chance.choice((-1, 0, 1e300, "x", None)),
            "permissions": chance.choice(_BAD_PERMISSIONS),
            "annotations": chance.choice(_BAD_ANNOTATIONS),
        }
        for _ in range(count)
    ]
    return _text({"type": "register_tools", "tools": tools})


def _masked(first: int, payload: bytes, *, length: bytes | None = None, mask: bool = True) -> bytes:
    size = bytes([(0x80 if mask else 0) | len(payload)]) if length is None else length
    return bytes([first]) + size + (b"\0\0\0\0" if mask else b"") + payload


FORBIDDEN_FRAMES: Final[tuple[bytes, ...]] = (
    _masked(0x81, b"{}", mask=False),
    _masked(0xC1, b"{}"),
    _masked(0xF1, b"{}"),
    _masked(0x83, b"{}"),
    _masked(0x8F, b"{}"),
    _masked(0x80, b"goes on from nothing"),
    _masked(0x01, b"begins") + _masked(0x81, b"begins again"),
    _masked(0x09, b"a ping in pieces"),
    _masked(0x89, b"p" * 126, length=b"\xfe\x00\x7e"),
    _masked(0x88, b"\x03"),
    _masked(0x88, b"\x03\xed"),
    _masked(0x88, b"\xff\xff"),
    _masked(0x88, b"\x03\xe8\xff\xfe"),
    _masked(0x81, b"\xff\xfe\xfd"),
    _masked(0x81, b"", length=b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    _masked(0x81, b"", length=b"\xff\x00\x00\x00\x7f\xff\xff\xff\xff"),
    _masked(0x81, b"x", length=b"\xfe\xff\xff"),
    b"\x00" * 64,
    b"\xff" * 64,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
)


def upgrade(host: str, *, path: str = "/ws/chat", token: str = "", more: bytes = b"", without: bytes = b"") -> bytes:
    """A request for a WebSocket, with something wrong in it."""
    lines = [
        b"GET " + path.encode() + b" HTTP/1.1",
        b"Host: " + host.encode(),
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        b"Sec-WebSocket-Version: 13",
        b"Authorization: Bearer " + token.encode(),
        *([more] if more else []),
    ]
    kept = [line for line in lines if not without or not line.lower().startswith(without)]
    return b"\r\n".join(kept) + b"\r\n\r\n"


HOSTILE_REQUESTS: Final[tuple[Callable[[Random, str, str], bytes], ...]] = (
    lambda chance, host, token: chance.randbytes(chance.choice((1, 100, 10_000))),
    lambda chance, host, token: b"\x16\x03\x01" + chance.randbytes(200),
    lambda chance, host, token: b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200_000,
    lambda chance, host, token: b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n",
    lambda chance, host, token: b"GET /../../etc/passwd HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n",
    lambda chance, host, token: b"GET /%00%ff%2e%2e HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n",
    lambda chance, host, token: b"NONSENSE / HTTP/9.9\r\n\r\n",
    lambda chance, host, token: b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    lambda chance, host, token: b"GET / HTTP/1.1\r\nHost: " + host.encode() + b"\r\nHost: evil.example\r\n\r\n",
    lambda chance, host, token: b"GET /api/status HTTP/1.1\r\nHost: " + host.encode() + b"\r\nOrigin: null\r\n\r\n",
    lambda chance, host, token: _post(host, token, b"{" * 10_000, 10_000),
    lambda chance, host, token: _post(host, token, b'{"args": ' + b"[" * 50_000, 50_010),
    lambda chance, host, token: _post(host, token, b"", 2**40),
    lambda chance, host, token: _post(host, token, b"{}", 1000),
    lambda chance, host, token: _post(host, token, b"{}{}{}", 2),
    lambda chance, host, token: _post(host, token, b"x" * 2_000_000, 2_000_000),
    lambda chance, host, token: _post(host, token, b"zz\r\nnot a chunk\r\n", None),
    lambda chance, host, token: upgrade(host, token=token, without=b"sec-websocket-key"),
    lambda chance, host, token: upgrade(host, token=token, without=b"sec-websocket-version"),
    lambda chance, host, token: upgrade(host, token=token, without=b"connection"),
    lambda chance, host, token: upgrade(host, token=token, without=b"host"),
    lambda chance, host, token: upgrade("evil.example", token=token),
    lambda chance, host, token: upgrade(host, token=token, more=b"Origin: https://evil.example"),
    lambda chance, host, token: upgrade(host, token=token, path="/ws/chat?session_id=../../x"),
    lambda chance, host, token: upgrade(host, token=token, path="/ws/chat?session_id=" + "s" * 5000),
    lambda chance, host, token: upgrade(host, token=token, path="/ws/other"),
    lambda chance, host, token: upgrade(host, token=token, path="/ws/chat?persona=nobody"),
    lambda chance, host, token: upgrade(host, token="wrong"),
    lambda chance, host, token: upgrade(host, path="/ws/chat?token=wrong", without=b"authorization"),
    lambda chance, host, token: upgrade(host, more=b"Sec-WebSocket-Protocol: bearer.wrong", without=b"authorization"),
    lambda chance, host, token: upgrade(host, more=b"Cookie: " + b"c" * 5000, without=b"authorization"),
    lambda chance, host, token: upgrade(host, token=token, more=b"Sec-WebSocket-Protocol: " + b"a," * 2000),
    lambda chance, host, token: upgrade(host, token=token) + chance.choice(FORBIDDEN_FRAMES),
    lambda chance, host, token: upgrade(host, token=token)[: chance.randrange(20, 200)],
)
"""Bytes for a connection that nobody has upgraded: of chance, the gateway's own Host and a valid token."""


def _post(host: str, token: str, body: bytes, length: int | None) -> bytes:
    size = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    head = b"POST /api/tools/get_current_time/call HTTP/1.1\r\nHost: " + host.encode()
    return head + b"\r\nAuthorization: Bearer " + token.encode() + b"\r\n" + size + b"\r\n\r\n" + body
