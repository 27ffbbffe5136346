"""Signed messages at `POST /channels/{name}`, answers to the receiver's address, and the tool `message` everywhere."""

import time
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from handspan.channels.webhook import check_signature, sign
from handspan.core.channels import OutgoingMessage
from handspan.core.results import Success
from handspan.models.scripted import call
from tests.channels.telegram_server import TelegramServer
from tests.gateway.channels.place import SECRET, gateway_with, telegram_settings
from tests.gateway.raw_clients import Place
from tests.net.site import Seen, Site, response
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


def hook(site: Site, **more: Any) -> dict[str, Any]:
    return {"hook": {"type": "webhook", "url": site.url("/in"), "secret": SECRET, "allow": ["ada"], **more}}


def receiver() -> Site:
    """The operator's own program, which takes what the gateway posts."""
    return Site({"/in": response(b"ok")})


async def post(
    place: Place, body: dict[str, Any], at: int | None = None, secret: str = SECRET, name: str = "hook"
) -> tuple[int, dict[str, Any]]:
    content = msgspec.json.encode(body)
    return await post_signed(place, content, sign(secret, content, at), name)


async def post_signed(
    place: Place, content: bytes, headers: dict[str, str], name: str = "hook"
) -> tuple[int, dict[str, Any]]:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{place.url}/channels/{name}", content=content, headers=headers)
    return answer.status_code, answer.json()


def said(seen: Seen) -> dict[str, Any]:
    """The body of a request that the gateway posted; its signature is right."""
    moment, signature = seen.headers["x-handspan-timestamp"], seen.headers["x-handspan-signature"]
    assert check_signature(SECRET, seen.body, moment, signature)
    decoded: dict[str, Any] = msgspec.json.decode(seen.body)
    return decoded


async def test_what_is_not_signed_well_is_refused_and_an_unknown_channel_looks_the_same(tmp_path: Path) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site)) as place:
        body = {"sender_id": "ada", "content": "hi"}
        for status, answer in (
            await post(place, body, secret="another secret here"),
            await post(place, body, at=int(time.time()) - 301),
            await post(place, body, at=int(time.time()) + 301),
            await post(place, body, name="nothing"),
            await post(place, body, secret="", name="nothing"),
            await post_signed(place, b"{}", {}),
        ):
            assert (status, answer["code"]) == (401, "bad_signature"), answer
        content = b'{"sender_id": 7}'
        assert (await post_signed(place, content, sign(SECRET, content)))[0] == 400
        assert (await post_signed(place, b"[", sign(SECRET, b"[")))[0] == 400
        assert (await post(place, {**body, "media": [1]}))[0] == 400
        status, answer = await post(place, {"sender_id": "ada", "content": " "})
        assert status == 400 and "put its text into `content`" in answer["error"]
        assert (await post(place, {"sender_id": "ada", "content": "x" * 32_001}))[0] == 400
        large = b" " * 70_000
        assert (await post_signed(place, large, sign(SECRET, large)))[0] == 413
        assert (await soon(place.gateway.parts.store.conversations.page(owner="operator"))).sessions == ()


async def test_a_message_is_taken_once_and_its_answer_is_posted_signed(tmp_path: Path) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site), ["Hello, Ada."]) as place:
        content = msgspec.json.encode({"sender_id": "ada", "chat_id": "room", "content": "hi", "id": "m1"})
        headers = sign(SECRET, content)
        assert await post_signed(place, content, headers) == (202, {"status": "accepted", "id": "m1", "text": ""})
        await until(lambda: site.seen)
        answer = said(site.seen[0])
        assert answer["chat_id"] == "room" and answer["content"] == "Hello, Ada." and answer["reply_to"] == "m1"
        assert answer["metadata"]["session"].startswith("channel-hook-")
        status, replayed = await post_signed(place, content, headers)
        assert (status, replayed["code"]) == (409, "replayed")
        status, again = await post(place, msgspec.json.decode(content), at=int(time.time()) + 1)
        assert (status, again["status"]) == (200, "duplicate")
    async with receiver() as other, gateway_with(tmp_path, hook(other)) as place:  # a restart forgets no signature
        assert (await post_signed(place, content, headers))[0] == 409
        assert other.seen == []


async def test_the_ids_of_messages_count_for_one_sender_in_one_chat(tmp_path: Path) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site, allow=["*"]), ["One.", "Two.", "Three."]) as place:
        for number, (sender, chat) in enumerate((("ada", "room"), ("bob", "room"), ("ada", "hall")), 1):
            body = {"sender_id": sender, "chat_id": chat, "content": "hi", "id": "m1"}
            assert await post(place, body) == (202, {"status": "accepted", "id": "m1", "text": ""}), (sender, chat)
            await until(lambda number=number: len(site.seen) == number)  # type: ignore[misc] # mypy wants no default
            answer = said(site.seen[-1])
            assert answer["content"] == ["One.", "Two.", "Three."][number - 1] and answer["reply_to"] == "m1"
            status, again = await post(place, body, at=int(time.time()) + 1)
            assert (status, again["status"], again["id"]) == (200, "duplicate", "m1")
        assert len({one.headers["x-handspan-id"] for one in site.seen}) == 3


@pytest.mark.parametrize(
    ("sender", "shown"),
    [
        ("a;reboot", "handspan channels pair hook 'a;reboot'"),
        ("a b", "handspan channels pair hook 'a b'"),
        ("-x", "handspan channels pair hook -- -x"),
        ("a\x1b[2Jb", "It is too long, or has characters that can't be shown"),
        ("a\nhandspan tokens", "It is too long, or has characters that can't be shown"),
    ],
)
async def test_the_line_that_lets_a_sender_in_is_quoted_and_clean(tmp_path: Path, sender: str, shown: str) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site, allow=[])) as place:
        status, answer = await post(place, {"sender_id": sender, "content": "hi"})
        assert status == 403 and shown in answer["error"] and "\x1b" not in answer["error"]
        assert answer["error"].count("\n") == ("handspan channels pair" in answer["error"])


async def test_a_sender_who_is_not_paired_is_refused_and_told_how(tmp_path: Path) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site, allow=[])) as place:
        body = {"sender_id": "ada", "content": "hi"}
        for second in (0, 3):
            status, answer = await post(place, body, at=int(time.time()) + second)
            assert status == 403 and "handspan channels pair hook ada" in answer["error"]
        headers = {"Authorization": f"Bearer {place.gateway.operator_token}"}
        async with httpx2.AsyncClient(base_url=place.url, headers=headers, trust_env=False, timeout=60) as client:
            made = await client.post("/api/channels/hook/senders", json={"sender": "ada", "name": "Ada"})
            assert (made.status_code, made.json()["paired"]) == (201, True)
            listed = (await client.get("/api/channels")).json()["channels"]
            assert [one["sender"] for one in listed[0]["senders"]] == ["ada"]
            assert (await post(place, body, at=int(time.time()) + 1))[0] == 202
            assert (await client.delete("/api/channels/hook/senders/ada")).status_code == 200
            assert (await client.delete("/api/channels/hook/senders/ada")).status_code == 404
        assert (await post(place, body, at=int(time.time()) + 2))[0] == 403


async def test_a_question_is_posted_with_its_buttons_and_answered_by_one(tmp_path: Path) -> None:
    turns = [call("ask_user", question="Which?", options=["red", "green"]), "Thanks."]
    async with receiver() as site, gateway_with(tmp_path, hook(site), turns) as place:
        await post(place, {"sender_id": "ada", "content": "paint"})
        await until(lambda: site.seen)
        buttons = said(site.seen[0])["metadata"]["buttons"]
        assert [one["label"] for one in buttons] == ["red", "green"]
        status, taken = await post(place, {"sender_id": "ada", "button": buttons[1]["data"]})
        assert (status, taken["status"], taken["text"]) == (200, "answered", "Thank you.")
        await until(lambda: len(site.seen) == 2)
        assert said(site.seen[1])["content"] == "Thanks."
        calls, _ = await soon(place.gateway.parts.store.ledger.page(owner="operator"))
        result = calls[0].result
        assert isinstance(result, Success) and result.value == "green"
        late = await post(place, {"sender_id": "ada", "button": buttons[0]["data"]})
        assert late[1]["text"] == "This question is not open any more."


async def test_a_receiver_that_fails_gets_the_answer_again_under_the_same_id(tmp_path: Path) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site)) as place:
        site.routes["/in"] = response(b"later", "503 Busy")
        await post(place, {"sender_id": "ada", "content": "hi"})
        await until(lambda: site.seen)
        queue = place.gateway.parts.app.messages.find("hook")
        assert queue is not None
        await until(lambda: "HTTP 503" in queue.state.reason)
        site.routes["/in"] = response(b"ok")
        await until(lambda: queue.delivered)
        assert len({one.headers["x-handspan-id"] for one in site.seen}) == 1


async def test_floods_of_one_sender_are_refused(tmp_path: Path) -> None:
    async with receiver() as site, gateway_with(tmp_path, hook(site, per_minute=2), ["1", "2"]) as place:
        statuses = [(await post(place, {"sender_id": "ada", "content": str(number)}))[0] for number in range(4)]
        assert statuses == [202, 202, 429, 429]


async def test_a_channel_that_can_not_be_used_is_logged_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_with(tmp_path, {"telegram": {"token": "env:NO_SUCH_TOKEN"}, "page": {}}):
        words = (
            "The channel 'telegram' can't be used: channels.telegram.token: the environment variable 'NO_SUCH_TOKEN'"
        )
        await until(lambda: words in caplog.text)
        assert "'page'" not in caplog.text


# The tool `message`.


async def test_the_tool_delivers_where_it_may_and_says_where_it_may_not(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, receiver() as site:
        channels = {**hook(site), "telegram": telegram_settings(telegram, receive=False), "page": {}}
        async with gateway_with(tmp_path, channels) as place:
            headers = {"Authorization": f"Bearer {place.gateway.operator_token}"}
            async with httpx2.AsyncClient(base_url=place.url, headers=headers, trust_env=False, timeout=60) as client:

                async def send(channel: str, chat_id: str) -> dict[str, Any]:
                    arguments = {"channel": channel, "chat_id": chat_id, "content": "Grüße"}
                    answer = await client.post("/api/tools/message/call", json={"args": arguments})
                    envelope: dict[str, Any] = answer.json()
                    return envelope

                sent = await send("telegram", "7")
                assert sent["status"] == "success" and sent["result"]["content_length"] == 7, sent
                assert (await send("hook", "anyone"))["status"] == "success"
                assert said(site.seen[0])["content"] == "Grüße" and telegram.texts == ["Grüße"]
                unknown = await send("pigeon", "1")
                assert unknown["code"] == "invalid_arguments" and "hook, telegram, page" in unknown["message"]
                stranger = await send("telegram", "66")
                assert stranger["code"] == "policy_denied" and "The known ones: 7." in stranger["message"]
                assert (await send("page", "all"))["code"] == "disconnected"
                calls = (await client.get("/api/calls", params={"tool": "message"})).json()["calls"]
                assert len(calls) == 5
                tested = await client.post("/api/channels/telegram/test", json={"chat_id": "7"})
                assert tested.json() == {"channel": "telegram", "chat_id": "7", "sent": True}
                status = (await client.get("/api/status")).json()["channels"]
                assert status["telegram"]["delivered"] == 2 and status["page"]["kind"] == "page"


async def test_the_page_channel_reaches_live_pages_and_clients_that_take_messages(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, {"page": {}}) as place, place.client("?session_id=here") as client:
        await client.connected("messages")
        async with place.client("?session_id=there") as other, place.client("?session_id=old") as old:
            await other.connected("messages")
            await old.connected("resume")
            queue = place.gateway.parts.app.messages.find("page")
            assert queue is not None
            stream = place.gateway.parts.live.subscribe("operator")
            await soon(queue.send(OutgoingMessage("page", "all", "to all", "operator")))
            await soon(queue.send(OutgoingMessage("page", "here", "to one", "operator")))
            frame = {"type": "channel_message", "channel": "page", "chat_id": "all", "content": "to all"}
            assert await client.hears() == frame and await other.hears() == frame
            assert (await client.hears())["content"] == "to one"
            updates = [await soon(stream.next()) for _ in range(2)]
            assert [update and update.topic for update in updates] == ["messages", "messages"]
            stream.end()
            await old.send("ping")
            assert (await old.hears())["type"] == "pong"


async def test_without_a_channel_no_model_is_offered_the_tool_and_why_says_so(tmp_path: Path) -> None:
    async with gateway_with(tmp_path, {}) as place:
        reasons = place.gateway.parts.app.explain(place.gateway.parts.app.caller().box, "message")
        assert any("no channel is configured: the operator has to add one" in one.text for one in reasons)
        assert "message" not in {spec.name for spec in place.gateway.parts.app.caller().box.specs()}
    async with gateway_with(tmp_path, {"page": {}}) as place:
        spec = next(one for one in place.gateway.parts.app.caller().box.specs() if one.name == "message")
        assert "page (chat_id: 'all', or a session id)" in spec.description
