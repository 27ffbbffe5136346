"""Questions at the terminal (SPEC P2, P5)."""

import io
import os
import pty

import pytest

from handspan.cli.terminal import TerminalQuestions
from handspan.core.questions import Answer, Question
from handspan.core.values import JsonObject

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
