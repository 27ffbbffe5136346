"""Names of sessions that nobody has named."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from handspan.core.errors import StoreError
from handspan.core.events import Titled
from handspan.core.messages import Media, Message, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.results import Attachment
from handspan.core.titles import make_title, shorten
from tests.gateway.sessions.session_kit import RecordingListener, SessionKit, said
from tests.waiting import soon

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner


async def test_a_session_gets_its_name_from_the_first_words_once(kit: SessionKit) -> None:
    kit.plays("one", "two")
    listener = RecordingListener()
    await kit.say("What  is\nthe \u202etime\u200b in Tokyo?", listener)
    assert listener.heard[-1] == Titled("What is the time in Tokyo?")
    await kit.say("And in Rome?", listener)
    assert len(listener.of(Titled)) == 1
    assert (await soon(kit.sessions.bind("s", OPERATOR))).name == "What is the time in Tokyo?"


async def test_a_session_that_has_a_name_keeps_it(kit: SessionKit) -> None:
    kit.plays("one", "two", "three")
    listener = RecordingListener()
    await kit.say("1", listener, name="Mine")
    await kit.store.conversations.create(owner=OWNER, session="bare")
    await kit.say("2", listener, session="bare", name="Given")

    renaming: list[asyncio.Future[None]] = []

    def rename(_: Sequence[Message]) -> str:
        renaming.append(asyncio.ensure_future(kit.store.conversations.rename("t", "Renamed", owner=OWNER)))
        return "three"

    kit.plays(rename)
    await kit.say("3", listener, session="t")
    assert listener.of(Titled) == []
    names = [(await soon(kit.sessions.bind(session, OPERATOR))).name for session in ("s", "bare", "t")]
    assert names == ["Mine", "Given", "Renamed"]


async def test_a_picture_alone_gives_no_name(kit: SessionKit) -> None:
    kit.plays("nice", "yes")
    picture = UserMessage((Media(Attachment("image", "image/png", b"png")),))
    listener = RecordingListener()
    await soon(kit.sessions.get("s", OPERATOR.owner).say(OPERATOR, picture, listener).wait_for_end())
    assert listener.of(Titled) == []
    await kit.say("is it?", listener)
    assert listener.of(Titled) == [Titled("is it?")]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("shorten", "shorten"),
        ("word " * 20, "word word word word word word word word word word word word…"[:60]),
        ("x" * 80, "x" * 59 + "…"),
        ("Hello, " + "y" * 80, "Hello, " + "y" * 52 + "…"),
        ("\u200b\u202e", ""),
    ],
)
def test_a_title_is_one_line_of_at_most_60_characters(text: str, title: str) -> None:
    made = make_title([said(""), said(text)])
    assert made == title and len(made) <= 60


def test_a_name_that_is_huge_is_cut_without_reading_all_of_it() -> None:
    assert shorten("a " * 10_000_000, 120) == "a " * 59 + "a…"


async def test_a_title_that_can_not_be_kept_disturbs_nothing(kit: SessionKit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.plays("hello")

    async def full(*_: Any, **__: Any) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(kit.store.conversations, "give_name", full)
    listener = RecordingListener()
    assert (await kit.say("hi", listener)).reason == "done"
    assert not listener.of(Titled)
