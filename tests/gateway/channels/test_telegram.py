"""People write to an agent on Telegram: turns, questions with buttons, strangers, floods, outages, restarts."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.core.channels import ChannelSender
from handspan.core.messages import Text, UserMessage
from handspan.core.results import Success
from handspan.gateway.gateway import Gateway
from handspan.models.model import ModelError
from handspan.models.scripted import call
from handspan.testing.process import SPOKEN, GatewayProcess
from tests.channels.telegram_server import ADA, EVE, TelegramServer, labels
from tests.gateway.channels.place import gateway_with, telegram_settings
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

RUNS = call("http_request", url="http://127.0.0.1:9/", method="POST")
"""A call of a destructive tool; that no server answers it does not matter here."""


async def only_session(gateway: Gateway) -> str:
    """The id of the one session there is."""
    page = await soon(gateway.parts.store.conversations.page(owner="operator"))
    (record,) = page.sessions
    return record.id


async def test_a_stranger_is_told_once_how_to_be_paired_and_reaches_no_agent(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}) as place:
        telegram.write("let me in", EVE)
        telegram.write("please", EVE)
        assert "handspan channels pair telegram 66" in await telegram.until_sent(1)
        telegram.write("hello", ADA)
        assert await telegram.until_sent(2) == "Hello."
        assert [one["chat_id"] for one in telegram.sent] == ["66", "7"]
        session = await only_session(place.gateway)
        messages = await soon(place.gateway.parts.store.conversations.load(session, owner="operator"))
        assert [one.parts for one in messages if isinstance(one, UserMessage)] == [(Text("hello"),)]


async def test_a_person_who_was_paired_talks_in_one_session_until_they_ask_for_a_new_one(tmp_path: Path) -> None:
    turns = ["One.", "Two.", "Three."]
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"tg": telegram_settings(telegram, type="telegram", allow=[])}, turns) as place,
    ):
        await soon(place.gateway.parts.store.channels.pair(ChannelSender("tg", "7", "operator", "Ada")))
        telegram.write("first")
        assert await telegram.until_sent(1) == "One."
        telegram.write("second")
        assert await telegram.until_sent(2) == "Two."
        first = await only_session(place.gateway)
        assert first.startswith("channel-tg-")
        telegram.write("/new")
        assert "new conversation" in await telegram.until_sent(3)
        telegram.write("third")
        assert await telegram.until_sent(4) == "Three."
        assert len((await soon(place.gateway.parts.store.conversations.page(owner="operator"))).sessions) == 2
        assert [one.get("reply_parameters", {}).get("message_id") for one in telegram.sent] == [1000, 1010, None, 1030]


async def test_a_destructive_call_asks_in_the_chat_and_the_button_answers_it(tmp_path: Path) -> None:
    turns = [RUNS, "I tried.", RUNS, "I did not."]
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, turns) as place,
    ):
        telegram.write("send it")
        question = await telegram.until_sent(1)
        assert "http_request" in question and '"method":"POST"' in question
        assert labels(telegram.sent[0]) == ["Yes", "No", "Always"]
        telegram.press("Yes", EVE)  # she was not asked
        await until(lambda: any(method == "answerCallbackQuery" for method, _ in telegram.calls))
        assert len(await soon(place.gateway.parts.questions.open_for(owner="operator"))) == 1
        telegram.press("Yes")
        assert await telegram.until_sent(2) == "I tried."
        removed = {"chat_id": "7", "message_id": telegram.sent[0]["message_id"]}
        await until(lambda: ("editMessageReplyMarkup", removed) in telegram.calls)
        telegram.write("again")
        await telegram.until_sent(3)
        telegram.press("No")
        assert await telegram.until_sent(4) == "I did not."
        calls, _ = await soon(place.gateway.parts.store.ledger.page(owner="operator"))
        codes = [getattr(one.result, "code", "success") for one in calls]
        assert codes[0] == "approval_denied" and codes[1] != "approval_denied"


async def test_words_answer_a_question_and_other_words_are_answered_after_it(tmp_path: Path) -> None:
    ask = call("ask_user", question="Which colour?", options=["red", "green"])
    turns = [ask, "Noted.", "Rain.", call("ask_user", question="Your name?"), "Hello, Ada.", RUNS, "Fine."]
    async with TelegramServer() as telegram, gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, turns):
        telegram.write("paint")
        assert "1. red" in await telegram.until_sent(1)
        telegram.write("and the weather?")
        told = await telegram.until_sent(2)
        assert "I wait for your answer first" in told and "Your message comes after it." in told
        telegram.write("2")
        assert {await telegram.until_sent(n) for n in (3, 4, 5)} == {"Thank you.", "Noted.", "Rain."}
        assert telegram.sent[4]["text"] == "Rain."
        telegram.write("who")
        assert "Your name?" in await telegram.until_sent(6)
        telegram.write("Ada")
        assert {await telegram.until_sent(7), await telegram.until_sent(8)} == {"Thank you.", "Hello, Ada."}
        telegram.write("go")
        await telegram.until_sent(9)
        telegram.write("/stop")
        assert "stopped" in "".join([await telegram.until_sent(10), await telegram.until_sent(11)]).lower()


async def test_a_question_of_an_agent_that_works_for_the_one_in_the_chat_is_answered_there(tmp_path: Path) -> None:
    ask = call("ask_user", question="Which colour?", options=["red", "green"])
    turns = [call("ask_agent", agent="painter", task="Paint it."), ask, "It is painted.", "All done."]
    agents: Any = {"General": {"may_ask": ["painter"]}, "painter": {}}
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, turns, agents=agents),
    ):
        telegram.write("paint")
        assert "1. red" in await telegram.until_sent(1)
        telegram.write("2")
        assert {await telegram.until_sent(n) for n in (2, 3)} == {"Thank you.", "All done."}


async def test_what_is_no_text_and_what_has_an_unknown_form_moves_on(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}):
        telegram.add_raw({"message": {"message_id": "wrong"}})
        telegram.add_raw({"poll": {}})
        telegram.add_raw(
            {"message": {"message_id": 1, "from": {"id": 9, "is_bot": True}, "chat": {"id": 9}, "text": "x"}}
        )
        telegram.write("", photo=[{}])
        assert await telegram.until_sent(1) == "I can read text only."
        telegram.write("/help")
        assert "/new" in await telegram.until_sent(2)
        await until(lambda: telegram.offsets[-1] == 105)


async def test_a_flood_of_one_sender_is_bounded_and_told_once(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        for number in range(30):
            telegram.write(f"{number}")
        channels = {"telegram": telegram_settings(telegram, per_minute=3)}
        async with gateway_with(tmp_path, channels, ["A.", "B.", "C."]) as place:
            await telegram.until_sent(4)
            await until(lambda: telegram.offsets[-1] == 130)
            assert sorted(telegram.texts[:4], key=len)[:3] == ["A.", "B.", "C."]
            assert len([text for text in telegram.texts if "Too many messages" in text]) == 1
            queue = place.gateway.parts.app.messages.find("telegram")
            assert queue is not None and queue.received == 3


async def test_a_full_inbox_leaves_the_messages_at_telegram_until_there_is_room(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        telegram.refuse = lambda method: (502, "Bad Gateway", {}) if method == "sendMessage" else None
        telegram.write("one")
        telegram.write("two")
        channels = {"telegram": telegram_settings(telegram, queue=1)}
        async with gateway_with(tmp_path, channels, ["One.", "Two."]):
            await until(lambda: len(telegram.offsets) >= 3)
            assert telegram.offsets[:3] == [0, 101, 101], "the first one is not answered yet: the second one waits"
            telegram.refuse = lambda method: None
            await telegram.until_sent(2)
            assert telegram.texts == ["One.", "Two."]


async def test_a_channel_that_is_down_says_why_and_comes_back(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        await telegram.close()
        channels = {"telegram": telegram_settings(telegram)}
        async with gateway_with(tmp_path, channels) as place:
            queue = place.gateway.parts.app.messages.find("telegram")
            assert queue is not None
            await until(lambda: queue.status == "retrying" and "refused" in queue.reason)
            assert queue.state.retry_in is not None
            await telegram.open()
            telegram.write("hi")
            assert await telegram.until_sent(1) == "Hello."
            assert queue.state.status == "listening" and queue.state.reason == ""


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ((409, "Conflict: terminated by other getUpdates request", {}), "stop the other one"),
        ((429, "Too Many Requests: retry after 3000", {"retry_after": 3000}), "Too Many Requests"),
    ],
)
async def test_a_refusal_of_telegram_is_shown_with_what_to_do(
    tmp_path: Path, refused: tuple[int, str, dict[str, Any]], says: str
) -> None:
    async with TelegramServer() as telegram:
        telegram.refuse = lambda method: refused if method == "getUpdates" else None
        async with gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}) as place:
            queue = place.gateway.parts.app.messages.find("telegram")
            assert queue is not None
            await until(lambda: says in queue.reason)
            waits = queue.state.retry_in or 0
            assert waits > 2000 if refused[0] == 429 else waits < 60


async def test_an_answer_that_telegram_refuses_for_now_is_sent_again(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        refusals = iter([(429, "Too Many Requests: retry after 0", {"retry_after": 0})])
        telegram.refuse = lambda method: next(refusals, None) if method == "sendMessage" else None
        async with gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}):
            telegram.write("hi")
            assert await telegram.until_sent(1) == "Hello."


async def test_a_long_answer_comes_in_parts_that_telegram_takes(tmp_path: Path) -> None:
    text = "😀 words " * 1500
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, [text]),
    ):
        telegram.write("much")
        await telegram.until_sent(4)
        assert all(len(part.encode("utf-16-le")) // 2 <= 4096 for part in telegram.texts)
        assert " ".join(telegram.texts).split() == text.split()


async def test_of_a_long_answer_only_the_parts_that_are_missing_are_sent_again(tmp_path: Path) -> None:
    text = "word " * 2000
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, [text]),
    ):
        refusals = iter([None, (429, "Too Many Requests: retry after 0", {"retry_after": 0})])
        telegram.refuse = lambda method: next(refusals, None) if method == "sendMessage" else None
        telegram.write("much")
        await telegram.until_sent(3)
        assert " ".join(telegram.texts).split() == text.split()


@pytest.mark.parametrize("when", ["between", "on its way"])
async def test_after_a_kill_a_long_answer_goes_on_with_the_parts_that_are_missing(tmp_path: Path, when: str) -> None:
    words = [f"word{number}" for number in range(1500)]
    telegram = KilledTelegram(is_taken=when == "on its way")
    async with telegram:
        channels = msgspec.json.encode({"telegram": telegram_settings(telegram)}).decode()
        async with GatewayProcess(tmp_path, "--set", f"channels={channels}", model=SPOKEN) as gateway:
            telegram.write(" ".join(words))
            before = ("waiting", 1 if when == "between" else 2)
            await until(lambda: telegram.tries == 2 and stored_answer(gateway.state) == before)
            await gateway.kill()
            await gateway.start()
            await until(lambda: stored_answer(gateway.state)[0] == "done")
        assert " ".join(telegram.texts).split() == words, "each part came once, in its order"


def stored_answer(state: Path) -> tuple[str, int]:
    """The state of the one message, and how many parts of its answer have gone out."""
    with contextlib.closing(sqlite3.connect(state / "handspan.db")) as database:
        ((found, sent),) = database.execute("SELECT state, sent FROM channel_inbox").fetchall()
    return found, sent


class KilledTelegram(TelegramServer):
    """Never answers the second message that is sent. `is_taken`: the person gets it all the same."""

    def __init__(self, *, is_taken: bool) -> None:
        super().__init__()
        self._is_taken = is_taken
        self.tries = 0

    async def _answer(self, path: str, parameters: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.tries += path.endswith("/sendMessage")
        if not path.endswith("/sendMessage") or self.tries != 2:
            return await super()._answer(path, parameters)
        if not self._is_taken:
            wait = {"retry_after": 3600}
            return 429, {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": wait}
        await super()._answer(path, parameters)
        await asyncio.Event().wait()
        raise AssertionError("the gateway is killed first")


async def test_after_a_restart_no_message_is_lost_and_none_is_answered_twice(tmp_path: Path) -> None:
    """The first gateway stops while a question is open: the next one shows it again, and answers the message."""
    async with TelegramServer() as telegram:
        channels = {"telegram": telegram_settings(telegram)}
        async with gateway_with(tmp_path, channels, ["First.", RUNS]):
            telegram.write("one")
            assert await telegram.until_sent(1) == "First."
            telegram.write("two")
            assert "http_request" in await telegram.until_sent(2)
        async with gateway_with(tmp_path, channels, ["Second.", "Third."]):
            assert "http_request" in await telegram.until_sent(3)
            telegram.press("No")
            await until(lambda: "Second." in telegram.texts)
            telegram.write("three")
            await until(lambda: "Third." in telegram.texts)
        async with gateway_with(tmp_path, channels, []) as place:
            await until(lambda: telegram.offsets[-1] == 104)
            assert await soon(place.gateway.parts.store.channels.unanswered_messages("telegram")) == []
        assert [text for text in telegram.texts if "http_request" not in text] == ["First.", "Second.", "Third."]


@pytest.mark.parametrize("is_killed", [True, False], ids=["kill", "stop"])
async def test_after_a_kill_or_a_stop_an_open_question_is_shown_again_and_its_message_answered_once(
    tmp_path: Path, is_killed: bool
) -> None:
    async with TelegramServer() as telegram:
        channels = msgspec.json.encode({"telegram": telegram_settings(telegram)}).decode()
        async with GatewayProcess(tmp_path, "--set", f"channels={channels}", model=SPOKEN) as gateway:
            telegram.write('call http_request {"url": "http://127.0.0.1:9/", "method": "POST"}')
            assert "http_request" in await telegram.until_sent(1)
            await (gateway.kill() if is_killed else gateway.terminate())
            telegram.write("hello")
            await gateway.start()
            assert "http_request" in await telegram.until_sent(2)
            await telegram.until_sent(3)  # that "hello" comes after the question
            telegram.press("No")
            assert await telegram.until_sent(5) == "hello"
            await gateway.kill()
            await gateway.start()
            await until(lambda: telegram.offsets[-1] == 103)
        assert len(telegram.sent) == 5


async def test_several_questions_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    asks = [call("ask_user", question="Which one?", options=["a", "b"]), call("ask_user", question="How many?")]
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, [asks, "Both."]) as place,
    ):
        telegram.write("go")
        await telegram.until_sent(2)
        telegram.write("seven")
        listed = await telegram.until_sent(3)
        assert "Several questions are open" in listed
        first = 1 if listed.index("Which one?") < listed.index("How many?") else 2
        telegram.write(f"{3 - first} seven")
        await until(lambda: len(telegram.sent) >= 4)
        telegram.write("b")
        await until(lambda: "Both." in telegram.texts)
        calls, _ = await soon(place.gateway.parts.store.ledger.page(owner="operator"))
        assert {one.result.value for one in calls if isinstance(one.result, Success)} == {"b", "seven"}


async def test_a_session_of_a_channel_asks_also_when_the_page_goes_on_with_it(tmp_path: Path) -> None:
    turns = ["Hello.", RUNS, "Done."]
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, turns) as place,
    ):
        telegram.write("hi")
        await telegram.until_sent(1)
        session = await only_session(place.gateway)
        async with place.client(f"?session_id={session}") as client:
            await client.connected("questions")
            await client.send("message", content="send it")
            question = await client.hears_of("question")
            assert question["kind"] == "approval" and "ask_destructive" in question["subject"]
            await client.send("answer", id=question["id"], decision="deny")
            assert (await client.hears_of("done"))["full_response"] == "Done."
        assert len(telegram.sent) == 1  # it was not asked in the chat, where no message waits


async def test_an_agent_that_is_gone_and_a_model_that_fails_are_told_in_the_chat(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        channels = {"telegram": telegram_settings(telegram, agent="Nobody")}
        async with gateway_with(tmp_path, channels):
            telegram.write("hi")
            assert "I could not answer: There is no agent 'Nobody'" in await telegram.until_sent(1)
        async with gateway_with(
            tmp_path, {"telegram": telegram_settings(telegram)}, [ModelError("auth", "It is out.")]
        ):
            telegram.write("hi again")
            assert "I could not answer: " in await telegram.until_sent(2)
