"""A conversation on a terminal that can do more than letters: Markdown, colours, what runs and how far it is (SPEC U1).

What is whole is printed for good. Below it is a region that changes: the block that arrives, and a line for each call
that runs. The region goes when the turn is over. Loads rich, so only a terminal loads this module.
"""

import asyncio
import contextlib
import os
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from handspan.cli.chat.blocks import MarkdownBlocks
from handspan.cli.chat.images import draw_image
from handspan.cli.chat.lines import (
    LINK_WORDS,
    ChatBegan,
    ChatEvent,
    ChatImage,
    ChatNote,
    LinkChanged,
    ShownText,
    call_name,
    clip,
    describe_end,
    describe_event,
    harmless,
    message_head,
)
from handspan.cli.chat.markdown import THEME, BlockLines, make_markdown
from handspan.cli.chat.progress import ProgressView, read_progress
from handspan.cli.render import one_line, shorten_line
from handspan.core.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Ended,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
)
from handspan.core.questions import find_waiting_note
from handspan.core.results import edited_arguments
from handspan.core.values import Json, JsonObject, describe_seconds
from handspan.wire.ws_chat_frames import ChannelMessage

_TICK: Final = 0.1
"""Seconds between two pictures of the region that changes."""
_PAUSE: Final = 1.0
"""Seconds without words after which a model counts as thinking."""
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES: Final = "|/-\\"
_BAR: Final = 20
"""Columns of a progress bar."""
_LIGHT: Final = ("7", "15")
"""Backgrounds that are light, as the last number of COLORFGBG."""


class _Running(Struct):
    """A call that has begun."""

    name: str
    arguments: str
    since: float
    progress: ProgressView = ProgressView()


class RichScreen:
    """Shows events to a person at a terminal. Implements `Show`."""

    def __init__(self, console: Console, aside: Console, *, is_detailed: bool = False, once: bool = False) -> None:
        """`once`: there is a single answer, and `aside` gets everything else."""
        self.is_detailed = is_detailed
        self._console = console
        self._aside = aside if once else console
        self._once = once
        self._blocks = MarkdownBlocks()
        self._has_printed = False
        """Whether the answer has a block already: the next one comes after an empty line."""
        self._running: dict[str, _Running] = {}
        self._live: Live | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._since = time.monotonic()
        """When the last thing happened that a person waited for."""
        self._is_writing = False
        """Whether words have come in this round of the model."""
        self._shown = ShownText()
        self._is_held = False
        """Whether a block of `hold` runs."""
        self._lost_since: float | None = None
        """When the link was lost; None while it is up."""
        self._echo = _EchoSwitch()
        self._is_light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT

    # What is shown for good.

    def __call__(self, event: ChatEvent) -> None:
        """Show this event."""
        match event:
            case ChatBegan():
                self._show_begin(event)
            case ChatNote(text=text):
                self._print_aside(Text(harmless(text), style="dim" if text.startswith("(") else ""))
            case LinkChanged(up=is_up):
                self._show_link(is_up=is_up)
            case ChatImage():
                self._show_image(event)
            case ChannelMessage(content=content):
                self._print_aside(Text.assemble((message_head(event), "bold magenta"), " ", harmless(content)))
            case RoundBegan():
                self._since, self._is_writing = time.monotonic(), False
                self._shown.begin_round()
                self._open()
            case TextArrived(text=text):
                self._shown.add(text)
                self._add(text)
            case ThinkingArrived(text=text) if self.is_detailed:
                self._add(text)
            case CallStarted(id=call_id, name=name, arguments=arguments):
                self._flush()
                self._running[call_id] = _Running(call_name(name), arguments, time.monotonic())
                self._open()
            case CallProgress(id=call_id, value=value) if find_waiting_note(value) is None:
                self._report(call_id, value)
            case CallFinished():
                self._show_result(event)
            case Ended():
                self._show_end(event)
            case _ if line := describe_event(event):
                self(ChatNote(line))

    def _show_begin(self, began: ChatBegan) -> None:
        """Show which model answers, and how to go on with the session later."""
        if self._once:
            line = f"(session {began.id}, agent {began.agent!r}, model {began.model})"
            self._aside.print(Text(harmless(line), style="dim"))
            return
        self._aside.print(Text.assemble(("Model   ", "bold"), harmless(began.model)))
        self._aside.print(Text.assemble(("Session ", "bold"), f"{began.id}, agent {began.agent!r}"))
        self._aside.print(Text("/help lists the commands, Alt-Enter begins a new line, Ctrl-D ends", style="dim"))

    def _show_link(self, *, is_up: bool) -> None:
        """Show that the gateway is away, until it is there again."""
        if is_up:
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = time.monotonic()
        if self._is_held:  # a question is open: no region shows it
            self._aside.print(Text(f"\n{LINK_WORDS[is_up]}", style="dim"))
        self._refresh()

    def _show_image(self, image: ChatImage) -> None:
        """Show the image, where the terminal can."""
        self._flush()
        drawn = draw_image(image.data, os.environ, self._console.width)
        if drawn is not None:
            with self.hold():
                self._console.file.write(drawn)
                self._console.file.flush()
        self._console.print(Text(harmless(str(image)), style="dim"))

    def _print_aside(self, text: Text) -> None:
        """Print what is no part of the answer. Only the answer's console knows of the region that changes."""
        with contextlib.nullcontext() if self._aside is self._console else self.hold():
            self._flush()
            self._aside.print(text)

    def _add(self, text: str) -> None:
        self._since, self._is_writing = time.monotonic(), True
        for block in self._blocks.add(harmless(text)):
            self._print_block(block)
        self._open()
        self._refresh()

    def _flush(self) -> None:
        """Show what has come of the answer for good: something else comes next."""
        if rest := self._blocks.end():
            self._print_block(rest)

    def _print_block(self, block: str) -> None:
        if self._has_printed:
            self._console.print()
        self._has_printed = True
        self._console.print(BlockLines(make_markdown(block, is_light=self._is_light)), end="")

    def _report(self, call_id: str, value: Json) -> None:
        """Show the progress that a call reports."""
        call = self._running.get(call_id)
        if call is not None:
            fresh = read_progress(value)
            call.progress = ProgressView(
                call.progress.fraction if fresh.fraction is None else fresh.fraction, fresh.text or call.progress.text
            )
        if self.is_detailed and isinstance(value, dict) and isinstance(value.get("text"), str):
            self._console.print(Text(harmless(str(value["text"])), style="dim"), end="")
        self._refresh()

    def _show_result(self, event: CallFinished) -> None:
        """Print the line of a call that has ended: name, arguments as far as there is room, duration."""
        self._flush()
        call = self._running.pop(event.id, None)
        arguments = edited_arguments(event.envelope) or (call.arguments if call is not None else "")
        is_ok = event.status == "success"
        mark = Text("✓ " if is_ok else "✗ ", style="green" if is_ok else "red")
        head = Text.assemble(mark, (call_name(event.name), "bold"))
        tail = f"  {'' if is_ok else f'{event.status}, '}{describe_seconds(event.duration)}"
        room = self._console.width - head.cell_len - len(tail) - 1
        brief = one_line(harmless(_short(arguments)))
        if brief and not self.is_detailed and room > 10:
            head.append(f" {shorten_line(brief, room)}", style="dim")
        head.append(tail, style="dim" if is_ok else "red")
        self._console.print(head, no_wrap=True, overflow="ellipsis", crop=True)
        for line in self._details(arguments, event):
            self._console.print(line)
        self._has_printed = True
        self._since = time.monotonic()
        self._refresh()

    def _details(self, arguments: str, event: CallFinished) -> Iterator[RenderableType]:
        """Yield arguments and result; without details only why a call failed."""
        if self.is_detailed:
            yield Padding(Text(f"→ {clip(harmless(_pretty(arguments)))}", style="dim"), (0, 0, 0, 2))
            yield Padding(Text(f"← {clip(harmless(_pretty(event.envelope)))}", style="dim"), (0, 0, 0, 2))
        elif event.status != "success" and (why := (_read_object(event.envelope) or {}).get("message")):
            yield Padding(Text(harmless(str(why)), style="red"), (0, 0, 0, 2))

    def _show_end(self, event: Ended) -> None:
        self._running.clear()
        if missing := self._shown.end(event):
            self._add(missing)
        self._flush()
        if words := describe_end(event):
            self._console.print(Text(harmless(words), style="red" if event.reason == "error" else "yellow"))
        self.rest()

    # What changes.

    def rest(self) -> None:
        """Print what is left of the answer, and end the region that changes."""
        self._running.clear()
        self._flush()
        self._close()
        if self._has_printed and not self._once:
            self._console.print()  # the next prompt stands apart
        self._has_printed = False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Open a block without the region that changes; what is typed is shown."""
        was_open, was_held = self._live is not None, self._is_held
        self._flush()
        self._close()
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = was_held
            if was_open:
                self._open()

    def _open(self) -> None:
        """Show the part of the screen that changes, below what is printed for good."""
        if self._live is None:
            self._echo.off()
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="visible",
                get_renderable=self._region,
            )
            self._live.start()
            self._tick()

    def _close(self) -> None:
        """Remove the region that changes, and show again what is typed."""
        live, self._live = self._live, None
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        if live is not None:
            live.stop()
            self._echo.on()

    def _tick(self) -> None:
        self._refresh()
        self._ticking = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def _region(self) -> RenderableType:
        """Return what the region shows now: the block that arrives, and a line for each call or for the wait."""
        # Words came a moment ago: between two of them the model does not count as thinking.
        is_just_writing = self._is_writing and time.monotonic() - self._since < _PAUSE
        lines = [self._call_line(call) for call in self._running.values()]
        if self._lost_since is not None:
            lines.append(self._waiting_line("reconnecting…", self._lost_since))
        elif not lines and not self._blocks.rest and not is_just_writing:
            lines.append(self._waiting_line("thinking…", self._since))
        room = max(1, self._console.height - len(lines) - 2)
        rest = self._blocks.rest
        above: list[RenderableType] = [BlockLines(make_markdown(rest, is_light=self._is_light), room)] if rest else []
        if above and self._has_printed:
            above.insert(0, Text(""))
        return Group(*above, *lines)

    def _call_line(self, call: _Running) -> Text:
        """Return the line of a call that runs: its progress, or its arguments."""
        line = Text.assemble((f"{self._frame()} ", "cyan"), (call.name, "bold"), (f"  {_seconds(call.since)}", "dim"))
        if call.progress.fraction is not None:
            filled = round(call.progress.fraction * _BAR)
            line.append("  ").append("━" * filled, style="cyan").append("━" * (_BAR - filled), style="dim")
            line.append(f" {call.progress.fraction:.0%}")
        text = call.progress.text or one_line(_short(call.arguments))
        room = self._console.width - line.cell_len - 3
        if room > 4:
            line.append(f"  {shorten_line(harmless(text), room)}", style="dim")
        return line

    def _waiting_line(self, words: str, since: float) -> Text:
        return Text.assemble((f"{self._frame()} ", "cyan"), (f"{words} {_seconds(since)}", "dim"))

    def _frame(self) -> str:
        frames = _FRAMES if self._console.encoding.lower().startswith("utf") else _PLAIN_FRAMES
        return frames[int(time.monotonic() / _TICK) % len(frames)]


def make_screen(*, is_detailed: bool, once: bool) -> RichScreen:
    """Return the screen of this terminal. rich itself follows NO_COLOR."""
    aside = Console(stderr=True, highlight=False, no_color=None if sys.stderr.isatty() else True)
    return RichScreen(Console(highlight=False, theme=THEME), aside, is_detailed=is_detailed, once=once)


class _EchoSwitch:
    """Hides what is typed while a turn runs. It is not lost: the next prompt has it."""

    def __init__(self) -> None:
        self._before: list[int | list[bytes | int]] | None = None

    def off(self) -> None:
        if sys.stdin.isatty() and self._before is None:
            with contextlib.suppress(termios.error, OSError):
                self._before, quiet = termios.tcgetattr(sys.stdin), termios.tcgetattr(sys.stdin)
                quiet[3] &= ~termios.ECHO
                termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)

    def on(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _seconds(since: float) -> str:
    return f"{time.monotonic() - since:.0f} s"


def _short(arguments: str) -> str:
    """Return arguments as a person reads them at a glance: a single text as its value alone; empty for none."""
    given = _read_object(arguments)
    if given == {}:
        return ""
    only = next(iter(given.values())) if given and len(given) == 1 else None
    return only if isinstance(only, str) else arguments


def _pretty(text: str) -> str:
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.format(text, indent=2)
    return text


def _read_object(text: str) -> JsonObject | None:
    """Return the JSON object that this is; None if it is none."""
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=dict[str, Any])
    return None
