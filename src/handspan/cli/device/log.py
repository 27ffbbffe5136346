"""Log of a device for its person: the state of the link, and every call with its outcome, a line each."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

import msgspec
from msgspec import Struct

from handspan.cli.chat.lines import ChatNote, message_head
from handspan.cli.wrapping import wrap_for
from handspan.core.values import Json, describe_seconds, describe_wait, escape_invisible, strip_invisible
from handspan.wire.ws_chat_frames import ChannelMessage

_MAX_SHOWN = 80
_COLUMN = 9
"""The column in which the words begin, after the time."""
_MAX_HELD = 1000
"""The most lines that are held back; older ones are dropped."""


class DeviceConnected(Struct, frozen=True, tag="connected"):
    """The gateway knows this device and its tools."""

    url: str
    label: str
    tools: list[str]
    rejected: dict[str, str]


class DeviceWaits(Struct, frozen=True, tag="waiting"):
    """There is no link, and the next attempt comes after some seconds."""

    url: str
    seconds: float
    why: str


class DeviceCall(Struct, frozen=True, tag="call"):
    """A call has ended. `outcome`: `ok`, or the code and the words of its failure."""

    tool: str
    arguments: dict[str, Json]
    outcome: str
    seconds: float


class DeviceDecision(Struct, frozen=True, tag="permission"):
    """A permission was granted or not; `where` says how to change that."""

    tool: str
    permission: str
    decision: str
    where: str


DeviceEvent: TypeAlias = DeviceConnected | DeviceWaits | DeviceCall | DeviceDecision | ChannelMessage | ChatNote
"""What a log shows; a `ChannelMessage` is what an agent writes to the person, a `ChatNote` anything else."""


class DeviceLog:
    """Shows what the device does: in lines for a person, or one JSON object a line. Called from any thread."""

    def __init__(self, out: TextIO, *, as_json: bool = False) -> None:
        self._out = out
        self._as_json = as_json
        self._lock = threading.Lock()
        self._holders = 0
        """How many `hold_back` blocks are open."""
        self._waiting: deque[str] = deque(maxlen=_MAX_HELD)

    def note(self, text: str, *, bell: bool = False) -> None:
        """Log a text, with the terminal's bell if a person should look."""
        self.log(ChatNote(text), bell=bell)

    def log(self, event: DeviceEvent, *, bell: bool = False) -> None:
        """Write this event now, or as soon as the output is not held back."""
        if self._as_json:
            lines = [escape_invisible(msgspec.json.encode(event).decode())]
        else:
            sign = chr(7) if bell or isinstance(event, ChannelMessage) else ""
            lines = [f"{sign}{self._line(text)}" for text in _describe(event)]
        with self._lock:
            self._waiting.extend(lines)
            self._flush()

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        """Open a block in which lines are held back: the person is asked something."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                self._flush()

    def _line(self, text: str) -> str:
        line = " ".join(strip_invisible(text).split())
        return wrap_for(self._out, f"{time.strftime('%H:%M:%S')} {line}", _COLUMN)

    def _flush(self) -> None:
        if not self._holders and self._waiting:
            self._out.write("".join(f"{line}\n" for line in self._waiting))
            self._waiting.clear()
            self._out.flush()


def _describe(event: DeviceEvent) -> Iterator[str]:
    """Yield the event in words for a person, a line each."""
    match event:
        case DeviceConnected(url=url, label=label, tools=tools, rejected=rejected):
            yield f"Connected to {url} as {label!r}. Tools: {', '.join(tools) or 'none'}. Ctrl-C ends it."
            yield from (f"The gateway does not take {name!r}: {why}" for name, why in rejected.items())
        case DeviceWaits(url=url, seconds=seconds, why=why):
            reason = f" ({why})" if why else ""
            yield f"No link to {url}{reason}: trying again {describe_wait(seconds)}, until it answers"
        case DeviceCall(tool=tool, arguments=arguments, outcome=outcome, seconds=seconds):
            shown = escape_invisible(f" {msgspec.json.encode(arguments).decode()}") if arguments else ""
            clipped = f"{shown[: _MAX_SHOWN + 1]}…" if len(shown) > _MAX_SHOWN + 1 else shown
            yield f"{tool}{clipped}: {outcome}, {describe_seconds(seconds)}"
        case DeviceDecision(tool=tool, permission=permission, decision=decision, where=where):
            yield f"{tool} wants {permission!r}: {decision}{f' (to change that: {where})' if where else ''}"
        case ChannelMessage(content=content):
            yield f"{message_head(event)} {content}"
        case ChatNote(text=text):
            yield text
