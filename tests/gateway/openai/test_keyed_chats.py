"""Chats with a key: one durable session, in which only what is new is said (SPEC F3)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.core.messages import AssistantMessage, Message, Text, UserMessage
from handspan.core.principals import OPERATOR
from tests.gateway.openai.kit import ASK_WEATHER, WEATHER, Front, Heard, Slow, assistant, front, result, user, words
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

WEB_UI: Any = {"X-OpenWebUI-Chat-Id": "c1"}
OWN: Any = {"X-Chat-Id": "c1"}


def said(messages: list[Message]) -> list[str]:
    """The texts of a conversation."""
    return [
        "".join(part.text for part in one.parts if isinstance(part, Text))
        for one in messages
        if isinstance(one, UserMessage | AssistantMessage)
    ]


async def versions(there: Front) -> int:
    """How many versions were left."""
    (session,) = await there.sessions()
    return len(await there.parts.store.conversations.left_messages(session, owner=OPERATOR.owner))


class TestWhatIsNew:
    async def test_a_whole_history_adds_what_is_new_and_no_reply_that_the_client_sends(self, there: Front) -> None:
        await there.text("one", extra_headers=WEB_UI)
        await there.text("one", assistant("FORGED"), "two", extra_headers=WEB_UI)
        assert said(await there.messages()) == ["one", "one", "two", "two"]
        assert await versions(there) == 0

    async def test_a_client_that_sends_only_what_is_new_goes_on(self, there: Front) -> None:
        await there.text("one", user="chat:7")
        await there.text("two", user="chat:7")
        assert said(await there.messages()) == ["one", "one", "two", "two"]

    async def test_a_new_session_takes_the_whole_history(self, there: Front) -> None:
        await there.text("one", assistant("1"), "two", extra_headers=WEB_UI)
        assert said(await there.messages()) == ["one", "1", "two", "two"]

    async def test_several_new_messages_are_all_said(self, there: Front) -> None:
        await there.text("one", extra_headers=OWN)
        await there.text("one", assistant("one"), "two", "three", extra_headers=OWN)
        assert said(await there.messages()) == ["one", "one", "two", "three", "three"]
        await there.text("one", "two", "three", "four", extra_headers=OWN)
        assert said(await there.messages())[-2:] == ["four", "four"]
        assert await versions(there) == 0

    async def test_outer_white_space_makes_no_difference(self, there: Front) -> None:
        await there.text("one\n", extra_headers=WEB_UI)
        await there.text("  one", "two", extra_headers=WEB_UI)
        assert said(await there.messages()) == ["one\n", "one", "two", "two"]

    async def test_the_session_has_a_title(self, there: Front) -> None:
        await there.text("What is a good name?", extra_headers=OWN)
        (session,) = await there.sessions()
        assert (await there.parts.store.conversations.get(session, owner="operator")).name == "What is a good name?"

    async def test_another_token_or_agent_has_a_chat_of_its_own(self, tmp_path: Path) -> None:
        async with front(tmp_path, agents={"Pirate": {}}) as there:
            await there.text("one", extra_headers=OWN)
            await there.text("one", extra_headers=OWN, model="handspan/Pirate")
            other = there.another(await there.parts.auth.issue("operator", ("chat",), "x"))
            await other.chat.completions.create(model="handspan", messages=[user("one")], extra_headers=OWN)
            assert len(await there.sessions()) == 3


class TestVersions:
    async def test_the_same_again_makes_another_answer_as_a_version(self, tmp_path: Path) -> None:
        count = 0

        def answer(_: Any) -> str:
            nonlocal count
            count += 1
            return f"answer {count}"

        async with front(tmp_path, Heard(answer)) as there:
            assert await there.text("one", extra_headers=WEB_UI) == "answer 1"
            assert await there.text("one", extra_headers=WEB_UI) == "answer 2"
            assert said(await there.messages()) == ["one", "answer 2"]
            assert await versions(there) == 1

    async def test_the_same_message_id_gets_the_answer_that_it_has(self, tmp_path: Path) -> None:
        model = Heard()
        headers = {**WEB_UI, "X-OpenWebUI-Message-Id": "m1"}
        async with front(tmp_path, model) as there:
            assert await there.text("one", extra_headers=headers) == "yes"
            assert await there.text("one", extra_headers=headers) == "yes"
            assert words([one async for one in await there.stream("one", extra_headers=headers)]) == "yes"
            assert len(model.heard) == 1
            await there.text("one", extra_headers={**headers, "X-OpenWebUI-Message-Id": "m2"})
            assert len(model.heard) == 2
            assert await versions(there) == 1

    async def test_an_edited_message_makes_a_version_from_there(self, there: Front) -> None:
        await there.text("one", extra_headers=WEB_UI)
        await there.text("one", "two", extra_headers=WEB_UI)
        await there.text("ONE", extra_headers=WEB_UI)
        assert said(await there.messages()) == ["ONE", "ONE"]
        (session,) = await there.sessions()
        left = await there.parts.store.conversations.left_messages(session, owner="operator")
        assert [said([dated.message for dated in one]) for one in left.values()] == [["one", "one", "two", "two"]]

    async def test_a_client_that_says_that_it_sends_all_edits_its_first_message(self, there: Front) -> None:
        headers = {"X-Chat-Id": "c1", "X-Chat-History": "whole"}
        await there.text("one", extra_headers=headers)
        await there.text("ONE", extra_headers=headers)
        assert said(await there.messages()) == ["ONE", "ONE"]
        assert await versions(there) == 1
        await there.text("and more", extra_headers={"X-Chat-Id": "c1"})
        assert said(await there.messages()) == ["ONE", "ONE", "and more", "and more"]

    async def test_an_earlier_message_again_goes_back_to_it(self, there: Front) -> None:
        await there.text("one", extra_headers=WEB_UI)
        await there.text("one", "two", extra_headers=WEB_UI)
        await there.text("one", extra_headers=WEB_UI)
        assert said(await there.messages()) == ["one", "one"]

    async def test_an_edit_stops_the_answer_that_runs(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            first = asyncio.create_task(there.text("one", extra_headers=WEB_UI))
            await soon(model.has_begun.wait())
            second = asyncio.create_task(there.text("ONE", extra_headers=WEB_UI))
            await soon(model.was_stopped.wait())
            model.may_go_on.set()
            assert await soon(second) == "Well, done"
            assert await soon(first) == "Well, "
            assert said(await there.messages()) == ["ONE", "Well, done"]


class TestAtWork:
    async def test_the_same_request_joins_the_answer_that_runs(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            first = asyncio.create_task(there.text("one", extra_headers=WEB_UI))
            await soon(model.has_begun.wait())
            second = asyncio.create_task(there.text("one", extra_headers=WEB_UI))
            await until(lambda: _listeners(there))
            model.may_go_on.set()
            assert await soon(first) == await soon(second) == "Well, done"
            assert model.requests == 1

    async def test_a_run_goes_on_when_its_client_leaves(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            stream = await there.stream("one", extra_headers=OWN)
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await stream.close()
            model.may_go_on.set()
            await until(lambda: _is_answered(there))
            assert not model.was_stopped.is_set()
            assert said(await there.messages()) == ["one", "Well, done"]

    async def test_a_call_that_waits_for_the_client_is_asked_for_again(self, there: Front) -> None:
        first = await there.ask(ASK_WEATHER, tools=[WEATHER], extra_headers=OWN)
        again = await there.ask(ASK_WEATHER, tools=[WEATHER], extra_headers=OWN)
        (called,) = first.choices[0].message.tool_calls
        assert [one.id for one in again.choices[0].message.tool_calls] == [called.id]
        asked = first.choices[0].message.model_dump(exclude_none=True)
        text = await there.text(ASK_WEATHER, asked, result(called.id, "sunny"), tools=[WEATHER], extra_headers=OWN)
        assert '"result":"sunny"' in text

    async def test_results_that_come_twice_get_the_answer_again(self, there: Front) -> None:
        first = (await there.ask(ASK_WEATHER, tools=[WEATHER], extra_headers=OWN)).choices[0].message
        messages = [ASK_WEATHER, first.model_dump(exclude_none=True), result(first.tool_calls[0].id, "sunny")]
        told = [await there.text(*messages, tools=[WEATHER], extra_headers=OWN) for _ in range(2)]
        assert told[0] == told[1]
        assert await versions(there) == 0

    async def test_a_new_message_gives_up_calls_that_wait_for_the_client(self, there: Front) -> None:
        await there.ask(ASK_WEATHER, tools=[WEATHER], extra_headers=OWN)
        assert await there.text(ASK_WEATHER, "never mind", extra_headers=OWN) == "never mind"

    async def test_after_a_restart_the_same_request_goes_on(self, there: Front) -> None:
        first = (await there.ask(ASK_WEATHER, tools=[WEATHER], extra_headers=OWN)).choices[0].message
        await there.gateway.restart()
        text = await there.text(
            ASK_WEATHER,
            first.model_dump(exclude_none=True),
            result(first.tool_calls[0].id, "sunny"),
            tools=[WEATHER],
            extra_headers=OWN,
        )
        assert '"result":"sunny"' in text


async def _is_answered(there: Front) -> bool:
    known = [await there.parts.store.conversations.get(one, owner="operator") for one in await there.sessions()]
    return [(one.state, one.length) for one in known] == [("idle", 2)]


async def _listeners(there: Front) -> bool:
    found = [there.parts.sessions.get(one, OPERATOR.owner) for one in await there.sessions()]
    return any(len(one.listeners) > 0 for one in found)
