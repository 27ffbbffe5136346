"""A turn in plain letters: words as they come, a line for each call; and as JSON (SPEC U1, U2)."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TextIO, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.events import (
    GATEWAY_LOST,
    GATEWAY_STOPPED,
    BudgetLow,
    CallFinished,
    CallProgress,
    CallStarted,
    Compacted,
    Ended,
    EndReason,
    Event,
    ModelSwitched,
    RequestQueued,
    RetryComing,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
    TurnFault,
)
from handspan.core.questions import find_waiting_note
from handspan.core.results import edited_arguments
from handspan.core.values import Json, describe_seconds, describe_wait, escape_invisible, strip_invisible
from handspan.wire.ws_chat_frames import ChannelMessage

END_WORDS: Final[dict[EndReason, str]] = {
    "limit": "(stopped: the limit of tool rounds is reached)",
    "errors": "(stopped: every tool call failed several times in a row)",
    "length": "(cut off: the answer was longer than the model may write)",
    "refusal": "(the model refused)",
    "pending": "(waiting: a call has its outcome elsewhere)",
    "aborted": "(aborted)",
}
LINK_WORDS: Final = {True: "(connected again)", False: "(the gateway is away: reconnecting…)"}
"""For a link that is there again, or lost."""
_ABORTS: Final = {
    GATEWAY_STOPPED.code: "(stopped: the gateway ends; say it again when it runs)",
    GATEWAY_LOST.code: "(cut off: the gateway ended in the middle)",
}
_WHOLE_REASONS: Final = ("cut", "budget_spent", "unpriced")
"""Faults of models whose text says all."""
_MAX_SHOWN: Final = 2000
"""Characters of arguments or a result, where they are shown."""


def describe_end(event: Ended) -> str:
    """Return what a person should know of the end of a turn; empty after a whole answer."""
    fault = event.fault
    if event.reason == "error":
        is_of_model = isinstance(fault, TurnFault) and fault.of == "model" and fault.code not in _WHOLE_REASONS
        return f"The model can't answer: {event.text}" if is_of_model else event.text
    if isinstance(fault, TurnFault) and fault.code in _ABORTS:
        return _ABORTS[fault.code]
    return END_WORDS.get(event.reason, "")


def describe_event(event: Event) -> str:
    """Return the line that says what the person waits for, or should know; empty for all other events."""
    match event:
        case RetryComing(reason=reason, seconds=seconds):
            return f"({reason.removesuffix('.')}; trying again {describe_wait(seconds)})"
        case Compacted():
            return describe_compacted(event)
        case BudgetLow(text=text):
            return f"({text})"
        case ModelSwitched(model=model, of=of, reason=reason):
            return f"({model} answers in place of {of}: {reason})"
        case RequestQueued(reason=str(reason)):
            return f"({reason})"
        case RequestQueued(model=model, running=running):
            return f"({running} requests to {model} run already; this one waits for its turn)"
        case CallProgress(value=value) if (waiting := find_waiting_note(value)) is not None:
            return waiting[0].rstrip("\n") if waiting[1] else ""  # the person is asked here, unless at a device
        case _:
            return ""


def describe_compacted(event: Compacted) -> str:
    """Return the line for a context that has become shorter; /context and exports show the summary."""
    what = f"a summary of {event.summarized} messages" if event.summarized else "older results as one line"
    note = f" {event.note}" if event.note else ""
    return f"(Compacted: about {event.before:,} → {event.after:,} tokens, {what}; nothing is deleted.{note})"


class ShownText:
    """The words of the model that a turn has shown so far."""

    def __init__(self) -> None:
        self._earlier = ""
        """The words of the rounds before this one."""
        self._round = ""

    def begin_round(self) -> None:
        """Note that the next words are those of a new round."""
        self._earlier, self._round = self._earlier + self._round, ""

    def add(self, text: str) -> None:
        """Note that these words are shown."""
        self._round += text

    def end(self, event: Ended) -> str:
        """Return what the answer has and the turn has not shown: its words came while the link was down."""
        earlier, shown = self._earlier, self._round
        self._earlier = self._round = ""
        is_known = event.reason != "done" or event.text in earlier or not event.text.startswith(shown)
        return "" if is_known else event.text.removeprefix(shown)


class ChatBegan(Struct, frozen=True, tag="session"):
    """The conversation begins, or goes on."""

    id: str
    agent: str
    model: str
    """Which model answers, and why."""


class ChatNote(Struct, frozen=True, tag="told"):
    """What is no part of the conversation itself: the answer to a command, or what went wrong."""

    text: str


class LinkChanged(Struct, frozen=True, tag="link"):
    """The link to the gateway is lost, or there again."""

    up: bool


class ChatImage(Struct, frozen=True):
    """An image of the conversation."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return f"[image {self.name}, {len(self.data)} bytes]"


ChatEvent: TypeAlias = Event | ChatBegan | ChatNote | LinkChanged | ChatImage | ChannelMessage
"""What a chat shows. A `ChannelMessage` is what an agent writes to the person, outside of any answer."""


class Show(Protocol):
    """Shows a conversation."""

    is_detailed: bool
    """Whether arguments, results and thinking are shown, too."""

    def __call__(self, event: ChatEvent) -> None:
        """Show this event."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Open a block in which nothing on the terminal changes by itself: a person is asked."""
        ...

    def rest(self) -> None:
        """Remove what is shown only during a turn: none runs any more, however it ended."""
        ...


class JsonLines:
    """Shows one event a line, for programs. Implements `Show`."""

    is_detailed = True

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: ChatEvent) -> None:
        """Write this event; an image is in the session."""
        if not isinstance(event, ChatImage):
            self._out.write(escape_invisible(msgspec.json.encode(event).decode()) + "\n")
            self._out.flush()

    def hold(self) -> AbstractContextManager[None]:
        """Return an empty block: nothing changes by itself here."""
        return nullcontext()

    def rest(self) -> None:
        """Do nothing: a line that is written stays."""


class TerminalRenderer:
    """Shows events to a person: a call is one line; with `verbose`, it has arguments and result. Implements `Show`."""

    def __init__(self, out: TextIO, aside: TextIO, *, verbose: bool = False, once: bool = False) -> None:
        """`once`: there is a single answer, and `aside` gets everything else."""
        self._out = out
        self._aside = aside
        self.is_detailed = verbose
        self._once = once
        self._is_mid_line = False
        self._is_terminal = out.isatty()
        self._running: dict[str, str] = {}
        """Names of running calls, by call id. A terminal has them in a last line, which anything else replaces."""
        self._has_last_line = False
        self._shown = ShownText()

    def hold(self) -> AbstractContextManager[None]:
        """Return an empty block: nothing changes by itself here."""
        return nullcontext()

    def rest(self) -> None:
        """Do nothing: a line that is written stays."""

    def __call__(self, event: ChatEvent) -> None:
        """Show this event."""
        match event:
            case ChatBegan():
                self._show_begin(event)
            case ChatNote(text=text):
                self._note(text)
            case LinkChanged(up=is_up):
                self._note(LINK_WORDS[is_up])
            case ChatImage():
                self._note(str(event))
            case ChannelMessage():
                self._note(f"{message_head(event)} {event.content}")
            case RoundBegan():
                self._shown.begin_round()
            case TextArrived(text=text):
                self._shown.add(text)
                self._words(text)
            case ThinkingArrived(text=text) if self.is_detailed:
                self._words(text)
            case CallStarted():
                self._show_start(event)
            case CallProgress(value=value) if self.is_detailed and find_waiting_note(value) is None:
                self._progress(value)
            case CallFinished():
                self._show_result(event)
            case Ended():
                self._show_end(event)
            case _ if line := describe_event(event):
                self._line(line)

    def _show_begin(self, began: ChatBegan) -> None:
        """Show which model answers, and how to go on with the session later."""
        if not self._once:
            self._note(f"Model: {began.model}")
            self._note(f"Session {began.id}, agent {began.agent!r}. /help for help, Ctrl-D to end.")
        elif self.is_detailed or self._aside.isatty():
            self._note(f"(session {began.id}, agent {began.agent!r}, model {began.model})")

    def _note(self, text: str) -> None:
        """Show a line of ours."""
        if self._once:
            self._aside.write(f"{harmless(text)}\n")
            self._aside.flush()
        else:
            self._line(text)

    def _show_start(self, event: CallStarted) -> None:
        self._running[event.id] = call_name(event.name)
        if self.is_detailed:
            self._line(f"→ {call_name(event.name)} {clip(event.arguments)}")
        else:
            self._end_line()
            self._write("")

    def _show_result(self, event: CallFinished) -> None:
        self._running.pop(event.id, None)
        state = "ok" if event.status == "success" else event.status
        self._line(f"[{call_name(event.name)}: {state}, {describe_seconds(event.duration)}]")
        if self.is_detailed:
            if ran_with := edited_arguments(event.envelope):
                self._line(f"→ {call_name(event.name)} {clip(ran_with)}")
            self._line(f"← {clip(event.envelope)}")

    def _progress(self, value: Json) -> None:
        text = value.get("text") if isinstance(value, dict) else None
        if isinstance(text, str):
            self._words(text)
        else:
            self._line(f"  {value}")

    def _show_end(self, event: Ended) -> None:
        self._running.clear()
        self._words(self._shown.end(event))
        if words := describe_end(event):
            self._line(words)
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
        self._out.write(harmless(text))
        self._has_last_line = self._is_terminal and bool(self._running)
        if self._has_last_line:
            self._out.write(f"[{', '.join(self._running.values())[:60]}: running]")
        self._out.flush()


def harmless(text: str) -> str:
    """Return the text without what would control a terminal: words of a model or a tool must not do that (SPEC S4)."""
    return strip_invisible(text).replace("\r", "")


def call_name(name: str) -> str:
    """Return a tool's name, which a model may have made up, on one line."""
    return " ".join(harmless(name).split())[:80]


def message_head(message: ChannelMessage) -> str:
    """Return what stands before a message of an agent."""
    return f"Message on {call_name(message.channel)!r}:"


def clip(text: str) -> str:
    """Return the text, or as much of it as a person reads."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"
