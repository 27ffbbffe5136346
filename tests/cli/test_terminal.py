"""Questions at the terminal (SPEC P2, P5)."""

import asyncio
import io
import math
import os
import pty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

from handspan.cli import terminal_questions
from handspan.cli.device.log import DeviceLog
from handspan.cli.terminal_questions import TerminalQuestions
from handspan.core.questions import Answer, Question, QuestionAction
from handspan.core.values import JsonObject
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio


def question(kind: str = "approval", expires_in: float = 5.0, arguments: JsonObject | None = None) -> Question:
    return Question(
        id="q1",
        kind="permission" if kind == "permission" else "approval",
        call_id="c1",
        tool="camera",
        arguments=arguments or {"quality": "high"},
        subject="android.permission.CAMERA" if kind == "permission" else "The agent asks first.",
        owner="operator",
        session="",
        fingerprint="f",
        expires_in=expires_in,
    )


async def answer(typed: str, asked: Question) -> tuple[Answer, str]:
    written = io.StringIO()
    return await TerminalQuestions(io.StringIO(typed), written).ask(asked), written.getvalue()


@pytest.mark.parametrize(
    ("typed", "decision", "always"),
    [
        ("y\n", "allow", False),
        ("YES\n", "allow", False),
        ("always\n", "allow", True),
        ("n\n", "deny", False),
        ("never\n", "deny_forever", False),
        ("what?\nhm\ny\n", "allow", False),
        ("abort\nabsolutely not\nn\n", "deny", False),
        ("not now\nyesterday\nnever\n", "deny_forever", False),
        ("", "deny", False),
    ],
)
async def test_what_is_typed_is_the_answer(typed: str, decision: str, always: bool) -> None:
    given, _ = await answer(typed, question())
    assert (given.decision, given.always) == (decision, always)


async def test_the_question_shows_the_tool_the_arguments_and_what_is_asked() -> None:
    _, written = await answer("y\n", question("permission"))
    assert "camera" in written and '{"quality":"high"}' in written and "android.permission.CAMERA" in written
    _, written = await answer("y\n", question(arguments={"text": "x" * 5000}))
    assert "5011 characters" in written and len(written) < 1500


async def test_nobody_types_and_the_question_expires() -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(os.dup(theirs), "r", encoding="utf-8") as terminal:
            written = io.StringIO()
            given = await TerminalQuestions(terminal, written).ask(question(expires_in=0.05))
            assert given.decision == "expired"
            assert "no answer" in written.getvalue()
            os.write(ours, b"\n")  # the reading thread may end now
    finally:
        os.close(ours)
        os.close(theirs)


@contextmanager
def at_terminal(**more: Any) -> Iterator[tuple[TerminalQuestions, io.StringIO, Callable[[bytes], int]]]:
    """Questions at a real terminal, what they write there, and a way to type."""
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(os.dup(theirs), "r", encoding="utf-8") as terminal:
            written = io.StringIO()
            yield TerminalQuestions(terminal, written, **more), written, lambda typed: os.write(ours, typed)
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_question_that_is_taken_back_is_gone_and_what_is_typed_then_answers_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal_questions, "_REACTION", math.inf)  # however slow this machine is
    with at_terminal() as (questions, written, type_in):
        first = asyncio.create_task(questions.ask(question()))
        second = asyncio.create_task(questions.ask(question("permission")))
        await until(lambda: "never? " in written.getvalue())
        first.cancel()
        await until(lambda: "this question is over" in written.getvalue())
        await until(lambda: "android.permission.CAMERA" in written.getvalue())
        type_in(b"y\n")  # the person meant the first one
        await until(lambda: "Please answer this one again" in written.getvalue())
        assert not second.done()
        type_in(b"n\n")
        assert await asyncio.wait_for(second, WAIT) == Answer("deny")


async def test_an_answer_long_after_a_question_was_taken_back_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_questions, "_REACTION", math.inf)
    with at_terminal() as (questions, written, type_in):
        first = asyncio.create_task(questions.ask(question()))
        second = asyncio.create_task(questions.ask(question("permission")))
        await until(lambda: "never? " in written.getvalue())
        first.cancel()
        await until(lambda: "android.permission.CAMERA" in written.getvalue())
        monkeypatch.setattr(terminal_questions, "_REACTION", 0.0)  # the time for a late answer is over
        type_in(b"never\n")
        assert await asyncio.wait_for(second, WAIT) == Answer("deny_forever")


@pytest.mark.parametrize(
    ("kind", "grants_once", "said"),
    [
        ("approval", False, "[y]es, this call; [a]lways; [n]o, not this call; or the word never? "),
        ("permission", True, "[y]es, this call; [a]lways; [n]o, not this call; or the word never? "),
        ("permission", False, "[y]es, this and later calls of this tool; [n]o, not this call; or the word never? "),
    ],
)
async def test_the_prompt_says_what_a_yes_covers(kind: str, grants_once: bool, said: str) -> None:
    written = io.StringIO()
    await TerminalQuestions(io.StringIO("y\n"), written, grants_once=grants_once).ask(question(kind))
    assert said in written.getvalue()


async def test_the_question_says_which_agent_asks_and_shows_what_is_invisible() -> None:
    asked = structs.replace(question(arguments={"command": "rm \u202efdp.x\U000e0041"}), agent="Gen\u200beral")
    _, written = await answer("y\n", asked)
    assert r"""The agent 'General' calls camera {"command":"rm \u202efdp.x\udb40\udc41"}""" in written


def test_log_lines_wait_while_the_person_is_asked() -> None:
    out = io.StringIO()
    log = DeviceLog(out)
    with log.hold_back():
        log.note("one")
        with log.hold_back():
            log.note("two")
        assert out.getvalue() == ""
    log.note("three")
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["one", "two", "three"]


# Questions for a value, logins, changed definitions.


def asking(kind: Any, **more: Any) -> Question:
    return Question("q1", kind, "", "paint", {}, "Which colour?", "operator", "", "f", 5.0, **more)


OPTIONS: list[tuple[JsonObject, str, Any]] = [
    ({"type": "string"}, "light blue\n", "light blue"),
    ({"type": "string", "enum": ["red", "blue"]}, "2\n", "blue"),
    ({"type": "string", "enum": ["red", "blue"]}, "red\n", "red"),
    ({"oneOf": [{"const": "r", "title": "Red"}, {"const": 7}]}, "2\n", 7),
    ({"type": "boolean"}, "1\n", True),
    ({"type": "integer"}, "12\n", 12),
    ({"type": "object", "properties": {"size": {"type": "integer"}}}, '{"size": 3}\n', {"size": 3}),
]


@pytest.mark.parametrize(("schema", "typed", "value"), OPTIONS)
async def test_what_is_typed_is_the_value(schema: JsonObject, typed: str, value: Any) -> None:
    given, written = await answer(typed, asking("input", schema=schema))
    assert given == Answer("allow", value=value)
    assert "paint" in written and "Which colour?" in written


async def test_a_value_that_does_not_fit_is_asked_for_again() -> None:
    schema: JsonObject = {"type": "string", "enum": ["red", "blue"]}
    given, written = await answer("green\n3\n1\n", asking("input", schema=schema))
    assert given == Answer("allow", value="red")
    assert written.count("must be one of") == 2 and "  1. red\n  2. blue\n" in written
    given, written = await answer("{\n7\n", asking("input", schema={"type": "integer", "maximum": 9}))
    assert given.value == 7 and "Not JSON: " in written and '"maximum": 9' in written


@pytest.mark.parametrize("typed", ["", "\n"])
async def test_an_empty_line_is_no_answer(typed: str) -> None:
    given, _ = await answer(typed, asking("input", schema={"type": "string"}))
    assert given == Answer("deny")


async def test_a_login_shows_where_to_go_and_is_about_this_once() -> None:
    action = QuestionAction("https://shop.example/login", hint="Use the code 1234.")
    given, written = await answer("always\nnever\ny\n", asking("login", action=action))
    assert given == Answer("deny"), "never begins like no, and there is no always"
    assert "Open https://shop.example/login" in written and "Use the code 1234." in written
    _, written = await answer("y\n", asking("login", action=QuestionAction(intent="com.example.LOGIN")))
    assert "handspan questions start q1" in written, "the device starts it"


async def test_a_changed_definition_is_shown_beside_the_old_one_and_can_not_steer_the_terminal() -> None:
    action = QuestionAction(old={"description": "Paints."}, new={"description": "Paints \x1b[2J\u202e."})
    given, written = await answer("y\n", asking("trust", action=action))
    assert given == Answer("allow")
    assert written.index('"description": "Paints."') < written.index("Now:")
    assert "\x1b" not in written and "\u202e" not in written
    _, written = await answer("n\n", asking("trust", action=QuestionAction(new={})))
    assert "(there was none)" in written
