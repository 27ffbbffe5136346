"""A turn as a terminal shows it: words as they come, a line for each call (SPEC U1 in letters)."""

from typing import Final, Protocol, TextIO

import msgspec
from msgspec import Struct

from handspan.core.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Ended,
    EndReason,
    Event,
    RequestQueued,
    RetryComing,
    TextArrived,
    ThinkingArrived,
)
from handspan.core.questions import find_waiting_note
from handspan.core.values import Json, escape_invisible, strip_invisible

_END_WORDS: Final[dict[EndReason, str]] = {
    "limit": "(stopped: the limit of tool rounds is reached)",
    "errors": "(stopped: every tool call failed several times in a row)",
    "length": "(cut off: the answer was longer than the model may write)",
    "refusal": "(the model refused)",
    "pending": "(waiting: a call has its outcome elsewhere)",
    "aborted": "(aborted)",
}
_MAX_SHOWN: Final = 2000
"""Characters of arguments or a result, where they are shown."""


class Show(Protocol):
    """Shows a conversation."""

    def __call__(self, event: Event) -> None:
        """An event of a turn."""
        ...

    def begin(self, session: str, agent: str, model: str) -> None:
        """The conversation can begin. `model` says which one answers, and why."""
        ...

    def note(self, text: str) -> None:
        """What is no part of the conversation itself: the answer to a command, or what went wrong."""
        ...


class _Begun(Struct, frozen=True, tag="session"):
    id: str
    agent: str
    model: str


class _Note(Struct, frozen=True, tag="told"):
    text: str


class JsonLines:
    """Shows one event a line, for programs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        """Show this event."""
        self._write(event)

    def begin(self, session: str, agent: str, model: str) -> None:
        """The first line."""
        self._write(_Begun(session, agent, model))

    def note(self, text: str) -> None:
        """A line that is no event of the turn."""
        self._write(_Note(text))

    def _write(self, value: Struct) -> None:
        self._out.write(escape_invisible(msgspec.json.encode(value).decode()) + "\n")
        self._out.flush()


class TerminalRenderer:
    """Shows events to a person. Compact: a call is one line; verbose: with arguments and result."""

    def __init__(self, out: TextIO, aside: TextIO, *, verbose: bool = False, once: bool = False) -> None:
        """`aside` is for what is not the answer, when there is only one (`once`)."""
        self._out = out
        self._aside = aside
        self._verbose = verbose
        self._once = once
        self._is_mid_line = False
        self._is_terminal = out.isatty()
        self._running: dict[str, str] = {}
        """Names by call id. At a terminal they stand in a last line that goes when something else is written."""
        self._has_last_line = False

    def begin(self, session: str, agent: str, model: str) -> None:
        """Which model it is and how to go on with this later."""
        if not self._once:
            self.note(f"Model: {model}")
            self.note(f"Session {session}, agent {agent!r}. /help for help, Ctrl-D to end.")
        elif self._verbose or self._aside.isatty():
            self.note(f"(session {session}, agent {agent!r}, model {model})")

    def note(self, text: str) -> None:
        """Show a line of ours."""
        if self._once:
            self._aside.write(f"{_harmless(text)}\n")
            self._aside.flush()
        else:
            self._line(text)

    def __call__(self, event: Event) -> None:
        """Show this event."""
        match event:
            case TextArrived(text=text):
                self._words(text)
            case ThinkingArrived(text=text) if self._verbose:
                self._words(text)
            case CallStarted():
                self._show_start(event)
            case CallProgress(value=value) if (waiting := find_waiting_note(value)) is not None:
                if waiting[1]:  # at a device; the person is asked here about all others
                    self._line(waiting[0].rstrip("\n"))
            case CallProgress(value=value) if self._verbose:
                self._progress(value)
            case CallFinished():
                self._show_result(event)
            case RetryComing(reason=reason, seconds=seconds):
                self._line(f"({reason}; trying again in {seconds:.0f} s)")
            case RequestQueued(model=model, running=running):
                self._line(f"({running} requests to {model} run already; this one waits for its turn)")
            case Ended():
                self._show_end(event)

    def _show_start(self, event: CallStarted) -> None:
        self._running[event.id] = _name(event.name)
        if self._verbose:
            self._line(f"→ {_name(event.name)} {_clip(event.arguments)}")
        else:
            self._end_line()
            self._write("")

    def _show_result(self, event: CallFinished) -> None:
        self._running.pop(event.id, None)
        state = "ok" if event.status == "success" else event.status
        self._line(f"[{_name(event.name)}: {state}, {_duration(event.duration)}]")
        if self._verbose:
            self._line(f"← {_clip(event.envelope)}")

    def _progress(self, value: Json) -> None:
        text = value.get("text") if isinstance(value, dict) else None
        if isinstance(text, str):
            self._words(text)
        else:
            self._line(f"  {value}")

    def _show_end(self, event: Ended) -> None:
        self._running.clear()
        if event.reason == "error":
            self._line(f"The model can't answer: {event.text}")
        elif event.reason in _END_WORDS:
            self._line(_END_WORDS[event.reason])
        self._end_line()

    def _words(self, text: str) -> None:
        if text:
            self._write(text)
            self._is_mid_line = not text.endswith("\n")

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(f"{text}\n")

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")
            self._is_mid_line = False

    def _write(self, text: str) -> None:
        if self._has_last_line:
            self._out.write("\r\x1b[K")
        self._out.write(_harmless(text))
        self._has_last_line = self._is_terminal and bool(self._running)
        if self._has_last_line:
            self._out.write(f"[{', '.join(self._running.values())[:60]}: running]")
        self._out.flush()


def _harmless(text: str) -> str:
    """Return the text without what would steer a terminal: a model's or a tool's words must not (SPEC S4)."""
    return strip_invisible(text).replace("\r", "")


def _name(name: str) -> str:
    """Return a tool's name, which a model may have made up, on one line."""
    return " ".join(_harmless(name).split())[:80]


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
