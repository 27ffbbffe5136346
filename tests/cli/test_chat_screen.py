"""A turn on a terminal that can do more than letters (SPEC U2)."""

import asyncio
import io
import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from handspan.cli.chat.images import draw_image
from handspan.cli.chat.lines import LinkChanged
from handspan.cli.chat.screen import RichScreen
from handspan.core.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Ended,
    RetryComing,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
)
from handspan.core.questions import Question, waiting_note
from handspan.wire.ws_chat_frames import ChannelMessage
from tests.waiting import until

pytestmark = pytest.mark.anyio
STARTED = CallStarted("c1", "look", '{"at":"the window"}')
FINISHED = CallFinished("c1", "look", "success", 0.0123, '{"status":"success","result":1}')
FAILED = CallFinished("c1", "look", "timeout", 61.26, '{"status":"error","message":"It took too long."}')


def console(width: int = 80, *, colours: bool = False) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=24, highlight=False, no_color=not colours
    )


def text_of(made: Console) -> str:
    """All that was ever written, without the codes that move and colour."""
    assert isinstance(made.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", made.file.getvalue()).replace("\r", "")


def last_lines(made: Console) -> list[str]:
    """What stays: each line of the region that changes was erased again."""
    assert isinstance(made.file, io.StringIO)
    screen: list[str] = [""]
    for part in re.split(r"(\n|\x1b\[[0-9;?]*[A-Za-z]|\r)", made.file.getvalue()):
        if part == "\n":
            screen.append("")
        elif part == "\x1b[1A":
            screen.pop()
        elif part == "\x1b[2K":
            screen[-1] = ""
        elif part and not part.startswith("\x1b") and part != "\r":
            screen[-1] += part
    return [line.rstrip() for line in screen if line.strip()]


async def shown(events: Sequence[object], *, detailed: bool = False, width: int = 80) -> list[str]:
    made = console(width)
    screen = RichScreen(made, made, is_detailed=detailed)
    for event in events:
        screen(event)  # type: ignore[arg-type] # a union of many
    screen.rest()
    return last_lines(made)


async def test_markdown_is_rendered_and_line_breaks_stay() -> None:
    answer = "# Files\n\nThere are **two**:\n\n- a.txt\n- b.txt\n\none\ntwo\n\n```\nx = 1\n```\n"
    lines = await shown([RoundBegan(1), TextArrived(answer), Ended("done", answer)])
    assert lines[:2] == ["Files", "There are two:"]
    assert lines[2:6] == [" • a.txt", " • b.txt", "one", "two"]
    assert "x = 1" in lines[6]


async def test_tags_of_html_are_shown_as_they_are_written() -> None:
    block = "<div align='left'>\n<p>Whole lines</p>\n</div>"
    answer = f"Use <b>bold</b> and<br>a **break**.\n\n{block}\n\n- item <kbd>Esc</kbd>\n\n  <hr>\n"
    assert await shown([TextArrived(answer), Ended("done", "")]) == [
        "Use <b>bold</b> and<br>a break.",
        "<div align='left'>",
        "<p>Whole lines</p>",
        "</div>",
        " • item <kbd>Esc</kbd>",
        "   <hr>",
    ]


async def test_on_a_wide_terminal_words_stay_readable_and_code_and_tables_have_its_width() -> None:
    words, code, cell = "word " * 60, "x" * 150, "cell " * 30
    answer = f"{words}\n\n- {words}\n\n---\n\n```\n{code}\n```\n\n| a |\n|---|\n| {cell} |\n"
    lines = await shown([RoundBegan(1), TextArrived(answer), Ended("done", answer)], width=200)
    assert max(len(line) for line in lines if "word" in line) <= 123, "with the bullet"
    assert "─" * 120 in lines and any(code in line for line in lines) and any(cell.strip() in line for line in lines)


async def test_why_a_call_failed_is_not_dimmed() -> None:
    made = console(colours=True)
    screen = RichScreen(made, made)
    for event in (STARTED, FAILED, Ended("done")):
        screen(event)
    screen.rest()
    assert isinstance(made.file, io.StringIO)
    assert re.search(r"\x1b\[31m *It took too long\.", made.file.getvalue())


async def test_a_call_is_one_line_with_its_arguments_and_a_failed_one_says_why() -> None:
    assert await shown([RoundBegan(1), STARTED, FINISHED, Ended("done")]) == ["✓ look the window  12 ms"]
    assert await shown([STARTED, FAILED, Ended("done")]) == [
        "✗ look the window  timeout, 61.3 s",
        "  It took too long.",
    ]
    (line,) = await shown([CallStarted("c1", "look", f'{{"at":"{"far " * 50}"}}'), FINISHED, Ended("done")], width=40)
    assert len(line) <= 40 and "…" in line and line.endswith("12 ms")


async def test_details_show_arguments_results_and_thinking() -> None:
    lines = await shown([RoundBegan(1), ThinkingArrived("hm"), STARTED, FINISHED, Ended("done")], detailed=True)
    assert "hm" in lines and '    "at": "the window"' in lines and '    "result": 1' in lines
    assert "hm" not in await shown([RoundBegan(1), ThinkingArrived("hm"), Ended("done")])


async def test_what_runs_is_shown_with_its_time_and_a_bar_and_goes_with_the_turn() -> None:
    made = console()
    screen = RichScreen(made, made)
    screen(RoundBegan(1))
    assert "thinking… 0 s" in text_of(made)
    screen(STARTED)
    screen(CallProgress("c1", "look", {"progress": 1, "total": 4, "message": "Opening"}))
    assert re.search(r"look  0 s  ━{20} 25%  Opening", text_of(made))
    screen(CallProgress("c1", "look", {"text": "nearly"}))
    assert re.search(r"25%  nearly", text_of(made)), "the bar stays where it was"
    written = len(text_of(made))
    await until(lambda: len(text_of(made)) > written)  # it moves by itself
    screen(FINISHED)
    screen(Ended("aborted"))
    assert last_lines(made) == ["✓ look the window  12 ms", "(aborted)"]
    written = len(text_of(made))
    await asyncio.sleep(0)
    assert len(text_of(made)) == written


async def test_nothing_moves_while_a_person_is_asked_and_then_it_goes_on() -> None:
    made = console()
    screen = RichScreen(made, made)
    screen(RoundBegan(1))
    screen(TextArrived("Half a sentence"))
    with screen.hold():
        assert last_lines(made) == ["Half a sentence"]
        made.file.write("May I?\n")
    screen(TextArrived(" and the rest."))
    screen(Ended("done"))
    assert last_lines(made) == ["Half a sentence", "May I?", "and the rest."]


async def test_the_gateway_is_away_and_comes_back() -> None:
    made = console()
    screen = RichScreen(made, made)
    screen(RoundBegan(1))
    screen(LinkChanged(False))
    assert "reconnecting… 0 s" in text_of(made)
    before = text_of(made).count("reconnecting…")
    screen(LinkChanged(True))
    screen(TextArrived("Here."))
    assert text_of(made).count("reconnecting…") == before
    screen(Ended("done"))
    assert last_lines(made) == ["Here."]


async def test_a_long_block_that_arrives_never_needs_more_lines_than_the_terminal_has() -> None:
    made = console()
    screen = RichScreen(made, made)
    screen(RoundBegan(1))
    screen(TextArrived("```\n" + "".join(f"line {number}\n" for number in range(100))))
    region = text_of(made).rpartition("thinking")[2]
    assert "line 99" in region and "line 50" not in region
    screen(TextArrived("```\n"))
    screen(Ended("done"))
    assert len([line for line in last_lines(made) if "line " in line]) == 100


async def test_words_of_others_do_not_steer_the_terminal() -> None:
    wild = "a\x1b[2Jb\x9b1mc\rd\u202ee [bold]x[/bold]"
    lines = await shown(
        [CallStarted("c", wild, "{}"), CallFinished("c", wild, "success", 0.1, wild), TextArrived(wild)]
    )
    assert lines == ["✓ a[2Jb1mcde [bold]x[/bold]  100 ms", "a[2Jb1mcde [bold]x[/bold]"]


async def test_other_notes_are_lines_of_their_own() -> None:
    asked = Question("q1", "permission", "c1", "look", {}, "camera", "operator", "", "f", 60.0, device="phone")
    lines = await shown(
        [STARTED, CallProgress("c1", "look", waiting_note(asked)), RetryComing("Busy", 3.0), Ended("error", "why")]
    )
    assert lines[0].startswith("Waiting for your answer on the device 'phone'")
    assert lines[-2:] == ["(Busy; trying again in 3 s)", "why"]


async def test_a_note_beside_a_single_answer_begins_a_line_of_its_own() -> None:
    made = console()
    beside = Console(file=made.file, force_terminal=True, width=80, height=24, highlight=False, no_color=True)
    screen = RichScreen(made, beside, once=True)
    screen(RoundBegan(1))
    screen(RetryComing("Look at the port.", 3.0))
    screen(Ended("error", "why"))
    assert last_lines(made) == ["(Look at the port; trying again in 3 s)", "why"]


async def test_an_answer_that_came_while_the_link_was_down_is_shown_at_the_end_and_only_once() -> None:
    assert await shown([RoundBegan(1), Ended("done", "It rains.")]) == ["It rains."]
    assert await shown([RoundBegan(1), TextArrived("It rains."), Ended("done", "It rains.")]) == ["It rains."]


async def test_a_message_of_an_agent_is_a_line_of_its_own() -> None:
    made = console()
    screen = RichScreen(made, made)
    screen(TextArrived("half"))
    screen(ChannelMessage("page", "all", "Dinner\x1b[2J [bold]is ready"))
    screen(Ended("done"))
    assert last_lines(made) == ["half", "Message on 'page': Dinner[2J [bold]is ready"]


async def test_no_colour_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for colours in (True, False):
        if not colours:
            monkeypatch.setenv("NO_COLOR", "1")
        made = Console(file=io.StringIO(), force_terminal=True, width=80, highlight=False)
        screen = RichScreen(made, made)
        screen(STARTED)
        screen(FINISHED)
        screen(Ended("done"))
        assert isinstance(made.file, io.StringIO)
        assert ("\x1b[32m" in made.file.getvalue()) == colours


def test_an_image_is_drawn_where_the_terminal_can() -> None:
    png, jpeg = b"\x89PNG\r\n\x1a\n" + b"x" * 9000, b"\xff\xd8\xff"
    kitty = draw_image(png, {"TERM": "xterm-kitty"}, 80)
    assert kitty is not None and kitty.count("\x1b_G") == 3 and kitty.endswith("\x1b\\\n")
    iterm = draw_image(jpeg, {"TERM": "xterm", "TERM_PROGRAM": "iTerm.app"}, 80)
    assert iterm is not None and iterm.startswith("\x1b]1337;File=inline=1;")
    for environ in ({"TERM": "xterm"}, {"TERM": "xterm-kitty", "TMUX": "x"}, {}):
        assert draw_image(png, environ, 80) is None
    assert draw_image(jpeg, {"TERM": "xterm-kitty"}, 80) is None
