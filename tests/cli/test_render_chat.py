"""A turn in letters: for a person, and for a program."""

import io
import json

import pytest
from msgspec import structs

from handspan.cli.chat.lines import ChatBegan, ChatImage, ChatNote, JsonLines, LinkChanged, TerminalRenderer
from handspan.core.events import (
    GATEWAY_STOPPED,
    CallFinished,
    CallProgress,
    CallStarted,
    Compacted,
    Ended,
    EndReason,
    RequestQueued,
    RetryComing,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
    TurnFault,
)
from handspan.core.questions import Question, waiting_note
from handspan.wire.ws_chat_frames import ChannelMessage

STARTED = CallStarted("c1", "look", '{"at":"x"}')
FINISHED = CallFinished("c1", "look", "success", 0.0123, '{"status":"success","result":1}')


MESSAGE = ChannelMessage("page", "all", "Dinner\x1b[2J\nis ready")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def shown(*events: object, verbose: bool = False, out: io.StringIO | None = None) -> str:
    out = out or io.StringIO()
    show = TerminalRenderer(out, io.StringIO(), verbose=verbose)
    for event in events:
        show(event)  # type: ignore[arg-type] # a union of many
    return out.getvalue()


def test_a_call_that_waits_for_a_person_at_a_device_says_where() -> None:
    asked = Question("q1", "permission", "c1", "look", {}, "camera", "operator", "", "f", 60.0, device="phone")
    here = structs.replace(asked, device="")  # the terminal itself asks
    told = shown(STARTED, *(CallProgress("c1", "look", waiting_note(one)) for one in (asked, here)), FINISHED)
    assert told == (
        "Waiting for your answer on the device 'phone': may 'look' use the permission 'camera'?\n[look: ok, 12 ms]\n"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("done", ""),
        ("error", "why\n"),
        ("limit", "(stopped: the limit of tool rounds is reached)\n"),
        ("errors", "(stopped: every tool call failed several times in a row)\n"),
        ("length", "(cut off: the answer was longer than the model may write)\n"),
        ("refusal", "(the model refused)\n"),
        ("pending", "(waiting: a call has its outcome elsewhere)\n"),
        ("aborted", "(aborted)\n"),
    ],
)
def test_every_end_has_its_words_on_a_line_of_its_own(reason: EndReason, words: str) -> None:
    assert shown(TextArrived("half a"), Ended(reason, "why")) == f"half a\n{words}"
    assert shown(TextArrived("whole\n"), Ended(reason, "why")) == f"whole\n{words}"


def test_an_end_says_that_the_gateway_was_stopped_and_blames_the_model_only_for_its_own_faults() -> None:
    stopped = "(stopped: the gateway ends; say it again when it runs)\n"
    assert shown(Ended("aborted", "half", GATEWAY_STOPPED)) == stopped
    assert shown(Ended("error", "No message yet.", TurnFault("call", "not_found"))) == "No message yet.\n"
    assert shown(Ended("error", "No key.", TurnFault("model", "auth"))) == "The model can't answer: No key.\n"


def test_a_call_is_one_line_with_name_state_and_duration() -> None:
    failed = CallFinished("c2", "look", "timeout", 61.26, "{}")
    events = (RoundBegan(1), TextArrived("I look."), STARTED, FINISHED, failed, TextArrived(""), Ended("done"))
    assert shown(*events) == "I look.\n[look: ok, 12 ms]\n[look: timeout, 61.3 s]\n"


def test_verbose_shows_arguments_results_and_thinking_but_not_without_end() -> None:
    long = CallFinished("c1", "look", "success", 0.1, "x" * 5000)
    events = (ThinkingArrived("hm"), STARTED, FINISHED, long)
    told = shown(*events, verbose=True)
    assert told.startswith('hm\n→ look {"at":"x"}\n[look: ok, 12 ms]\n← {"status":"success","result":1}\n')
    assert told.endswith("x… (5000 characters)\n") and len(told) < 2300
    assert shown(*events) == "[look: ok, 12 ms]\n[look: ok, 100 ms]\n"


def test_a_retry_is_told_with_its_reason() -> None:
    queued = "(100 requests to m run already; this one waits for its turn)\n"
    assert shown(RequestQueued("m", 100)) == queued
    assert shown(RequestQueued("m", 2, "It waits for money.")) == "(It waits for money.)\n"
    shorter = Compacted(12_900, 6000, 7, 3, "# Goal")
    assert shown(shorter) == (
        "(Compacted: about 12,900 → 6,000 tokens, a summary of 3 messages; nothing is deleted.)\n"
    )
    free = "(Compacted: about 900 → 400 tokens, older results as one line; nothing is deleted. It failed.)\n"
    assert shown(Compacted(900, 400, 7, note="It failed.")) == free
    assert shown(RetryComing("Too many requests", 3.2)) == "(Too many requests; trying again in 4 s)\n"
    assert shown(RetryComing("Look at the port.", 3.2)) == "(Look at the port; trying again in 4 s)\n"


def test_an_answer_that_came_while_the_link_was_down_is_shown_at_the_end_and_only_once() -> None:
    call = "[look: ok, 12 ms]\n"
    assert shown(RoundBegan(1), STARTED, FINISHED, Ended("done", "It rains.")) == f"{call}It rains.\n"
    assert shown(RoundBegan(1), TextArrived("It "), Ended("done", "It rains.")) == "It rains.\n"
    assert shown(RoundBegan(1), TextArrived("It rains."), Ended("done", "It rains.")) == "It rains.\n"
    assert shown(TextArrived("It rains."), RoundBegan(2), Ended("done", "It rains.")) == "It rains.\n"
    assert shown(RoundBegan(1), Ended("aborted", "It")) == "(aborted)\n"


def test_at_a_terminal_what_runs_stands_in_a_last_line_that_goes() -> None:
    other = CallStarted("c2", "listen", "{}")
    assert shown(STARTED, other, FINISHED, Ended("aborted"), out=Screen()) == (
        "[look: running]\r\x1b[K[look, listen: running]\r\x1b[K[look: ok, 12 ms]\n[listen: running]\r\x1b[K(aborted)\n"
    )
    assert shown(STARTED, CallProgress("c1", "look", 1), FINISHED) == "[look: ok, 12 ms]\n"


def test_nothing_that_is_shown_steers_the_terminal() -> None:
    wild = "a\x1b[2Jb\x9b1mc\rd\u202ee"
    tame = "a[2Jb1mcde"
    told = shown(TextArrived(wild), CallFinished("c", wild, "success", 0.1, wild), Ended("error", wild), verbose=True)
    assert told == f"{tame}\n[{tame}: ok, 100 ms]\n← {tame}\n{tame}\n"
    out = Screen()
    assert shown(CallStarted("c", f"{wild}\n" * 50, "{}"), out=out).startswith(f"[{tame} {tame} ")
    assert len(out.getvalue()) < 100 and "\x1b" not in out.getvalue()


def test_what_is_not_the_answer_goes_aside_when_there_is_only_one() -> None:
    for screen, told in ((io.StringIO(), "(note)\n"), (Screen(), "(session s1, agent 'A', model m)\n(note)\n")):
        out = io.StringIO()
        show = TerminalRenderer(out, screen, once=True)
        show(ChatBegan("s1", "A", "m"))
        show(ChatNote("(note)"))
        assert (out.getvalue(), screen.getvalue()) == ("", told)


def test_json_lines_are_one_value_each() -> None:
    out = io.StringIO()
    show = JsonLines(out)
    show(ChatBegan("s1", "A", "m"))
    show(TextArrived("a\nb"))
    show(ChatNote("note"))
    show(MESSAGE)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"type": "session", "id": "s1", "agent": "A", "model": "m"},
        {"type": "text", "text": "a\nb"},
        {"type": "told", "text": "note"},
        {"type": "channel_message", "channel": "page", "chat_id": "all", "content": "Dinner\x1b[2J\nis ready"},
    ]


def test_a_message_of_an_agent_is_a_line_of_its_own_and_steers_nothing() -> None:
    out, aside = io.StringIO(), io.StringIO()
    show = TerminalRenderer(out, aside)
    show(TextArrived("half a line"))
    show(MESSAGE)
    assert out.getvalue() == "half a line\nMessage on 'page': Dinner[2J\nis ready\n"
    TerminalRenderer(io.StringIO(), aside, once=True)(MESSAGE)
    assert aside.getvalue() == "Message on 'page': Dinner[2J\nis ready\n", "it is not the answer"


def test_the_link_and_images_are_lines_and_nothing_moves() -> None:
    for show, told in (
        (TerminalRenderer(Screen(), io.StringIO()), None),
        (JsonLines(out := io.StringIO()), '{"type":"link","up":false}\n{"type":"link","up":true}\n'),
    ):
        show(LinkChanged(False))
        show(LinkChanged(True))
        show(ChatImage("photo.png", b"12345"))
        with show.hold():
            show.rest()
        assert told is None or out.getvalue() == told
    plain = io.StringIO()
    renderer = TerminalRenderer(plain, io.StringIO())
    renderer(LinkChanged(False))
    renderer(LinkChanged(True))
    renderer(ChatImage("photo.png", b"12345"))
    assert plain.getvalue() == ("(the gateway is away: reconnecting…)\n(connected again)\n[image photo.png, 5 bytes]\n")
