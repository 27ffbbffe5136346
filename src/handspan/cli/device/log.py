"""Log of a device for its person: the state of the link, and every call with its outcome, a line each."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

import msgspec

from handspan.cli.chat.lines import message_head
from handspan.cli.wrapping import wrap_for
from handspan.core.values import Arguments, Json, describe_seconds, describe_wait, escape_invisible, strip_invisible
from handspan.wire.ws_frames import ChannelMessage

_MAX_SHOWN = 80
_COLUMN = 9
"""The column in which the words begin, after the time."""
_MAX_HELD = 1000
"""The most lines that are held back; older ones are dropped."""


class DeviceLog(Protocol):
    """Shows what the device does. Called from any thread."""

    def log_connected(self, url: str, label: str, tools: Sequence[str], rejected: dict[str, str]) -> None:
        """Log that the gateway knows this device and its tools."""
        ...

    def log_retry(self, url: str, seconds: float, why: str) -> None:
        """Log that there is no link, why, and after how many seconds the next attempt comes."""
        ...

    def log_call(self, tool: str, arguments: Arguments, outcome: str, seconds: float) -> None:
        """Log that a call has ended. `outcome`: `ok`, or the code and the words of its failure."""
        ...

    def log_decision(self, tool: str, permission: str, decision: str, where: str) -> None:
        """Log whether a permission was granted; `where` says how to change that."""
        ...

    def log_message(self, message: ChannelMessage) -> None:
        """Log what an agent writes to the person."""
        ...

    def note(self, text: str, *, bell: bool = False) -> None:
        """Log anything else."""
        ...

    def hold_back(self) -> AbstractContextManager[None]:
        """Open a block in which log lines are held back: the person is asked something."""
        ...


class HeldOutput:
    """Writes lines one at a time. Lines that come during `hold_back` are written after it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._holders = 0
        """How many `hold_back` blocks are open."""
        self._waiting: deque[str] = deque(maxlen=_MAX_HELD)

    def write(self, line: str) -> None:
        """Write this line now, or as soon as the output is not held back."""
        with self._lock:
            self._waiting.append(line)
            self._flush()

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        """Open a block in which lines are held back."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                self._flush()

    def _flush(self) -> None:
        if not self._holders and self._waiting:
            self._out.write("".join(self._waiting))
            self._waiting.clear()
            self._out.flush()


class DeviceLines:
    """Writes lines for a person. Implements `DeviceLog`."""

    def __init__(self, out: TextIO) -> None:
        self._to = out
        self._out = HeldOutput(out)
        self.hold_back = self._out.hold_back

    def log_connected(self, url: str, label: str, tools: Sequence[str], rejected: dict[str, str]) -> None:
        self.note(f"Connected to {url} as {label!r}. Tools: {', '.join(tools) or 'none'}. Ctrl-C ends it.")
        for name, why in rejected.items():
            self.note(f"The gateway does not take {name!r}: {why}")

    def log_retry(self, url: str, seconds: float, why: str) -> None:
        self.note(
            f"No link to {url}{f' ({why})' if why else ''}: trying again {describe_wait(seconds)}, until it answers"
        )

    def log_call(self, tool: str, arguments: Arguments, outcome: str, seconds: float) -> None:
        shown = escape_invisible(msgspec.json.encode(arguments).decode()) if arguments else ""
        clipped = f"{shown[:_MAX_SHOWN]}…" if len(shown) > _MAX_SHOWN else shown
        self.note(f"{tool}{' ' if clipped else ''}{clipped}: {outcome}, {describe_seconds(seconds)}")

    def log_decision(self, tool: str, permission: str, decision: str, where: str) -> None:
        self.note(f"{tool} wants {permission!r}: {decision}{f' (to change that: {where})' if where else ''}")

    def log_message(self, message: ChannelMessage) -> None:
        self.note(f"{message_head(message)} {message.content}", bell=True)

    def note(self, text: str, *, bell: bool = False) -> None:
        line = " ".join(strip_invisible(text).split())
        line = wrap_for(self._to, f"{time.strftime('%H:%M:%S')} {line}", _COLUMN)
        self._out.write(f"{chr(7) if bell else ''}{line}\n")


class DeviceJson:
    """Writes one JSON object a line, for programs. Implements `DeviceLog`."""

    def __init__(self, out: TextIO) -> None:
        self._out = HeldOutput(out)
        self.hold_back = self._out.hold_back

    def log_connected(self, url: str, label: str, tools: Sequence[str], rejected: dict[str, str]) -> None:
        self._write("connected", url=url, label=label, tools=list(tools), rejected=dict(rejected))

    def log_retry(self, url: str, seconds: float, why: str) -> None:
        self._write("waiting", url=url, seconds=round(seconds, 3), why=why)

    def log_call(self, tool: str, arguments: Arguments, outcome: str, seconds: float) -> None:
        self._write("call", tool=tool, arguments=dict(arguments), outcome=outcome, seconds=round(seconds, 6))

    def log_decision(self, tool: str, permission: str, decision: str, where: str) -> None:
        self._write("permission", tool=tool, permission=permission, decision=decision, where=where)

    def log_message(self, message: ChannelMessage) -> None:
        self._write("channel_message", channel=message.channel, chat_id=message.chat_id, content=message.content)

    def note(self, text: str, *, bell: bool = False) -> None:
        self._write("told", text=text)

    def _write(self, kind: str, **values: Json) -> None:
        self._out.write(escape_invisible(msgspec.json.encode({"type": kind, **values}).decode()) + "\n")
