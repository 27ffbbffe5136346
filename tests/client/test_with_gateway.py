"""The SDK against the real gateway."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.client import (
    Backoff,
    CallContext,
    ChannelMessage,
    Client,
    GatewayRefused,
    Image,
    PermissionQuestion,
    ToolSpec,
)
from handspan.config.tool_settings import McpServer
from handspan.core.context import ToolContext
from handspan.core.errors import InvalidAnswer
from handspan.core.events import CallFinished, CallProgress, CallStarted, Ended, QuestionAsked, TextArrived
from handspan.core.principals import OPERATOR, Origin
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question, QuestionAction
from handspan.core.results import Failure, Success
from handspan.core.values import Arguments
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, call
from handspan.testing import FaultProxy, running_gateway
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SOON = Backoff(0.01, 0.1)


async def test_a_wrong_token_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        with pytest.raises(GatewayRefused, match="refused the token"):
            await Client(gateway.url, "wrong", backoff=SOON).run()


async def test_a_client_that_asks_for_an_unknown_host_is_told_that_and_not_of_its_token(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        address = gateway.url.replace("127.0.0.1", "127.1")  # the same address, and another name
        with pytest.raises(GatewayRefused, match=r"not known as '127\.1.*add that to `gateway\.hosts`") as refused:
            await asyncio.wait_for(Client(address, gateway.token, backoff=SOON).run(), WAIT)
        assert "token" not in str(refused.value)


async def test_a_device_whose_token_is_revoked_ends_with_what_to_do(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        auth = gateway.gateway.parts.auth
        client = Client(gateway.url, await auth.issue("operator", ("device",), "phone"), label="phone", backoff=SOON)
        running = asyncio.create_task(client.run())
        await client.connected()
        (known,) = [
            one for one in await gateway.gateway.parts.store.tokens.all(owner="operator") if one.label == "phone"
        ]
        await auth.revoke(known.hash, "operator")
        with pytest.raises(GatewayRefused, match=r"the token was revoked.*pair this device anew"):
            await asyncio.wait_for(running, 60)


async def test_a_device_that_was_closed_and_starts_again_has_its_label_again(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        for _ in range(3):
            async with Client(gateway.url, gateway.token, label="phone", backoff=SOON) as client:
                assert client.label == "phone"


async def test_a_device_is_told_that_its_label_or_the_name_of_its_tool_belongs_to_the_gateways_own_tools(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(tmp_path) as gateway:
        app = gateway.gateway.parts.app
        device = Client(gateway.url, gateway.token, label="files", backoff=SOON, prefix=False)
        device.register(ToolSpec("look", "Looks.", {"type": "object"}), lambda arguments, ctx: "mine")
        with caplog.at_level("INFO"):
            async with device:
                assert (device.label, device.notice, device.rejected) == ("files", "", {})
                await app.mcp.add("files", McpServer(url="http://127.0.0.1:9/mcp"))
                await until(lambda: device.label == "files_2")
                assert "are for the MCP server 'files'" in device.notice and device.notice in caplog.text
                await until(lambda: app.caller().box.knows("look"))
                app.registry.register(Look(), Origin("plugin", "eyes"))
                await until(lambda: device.rejected)
        assert "the plugin or tools file 'eyes'" in device.rejected["look"]
        assert "the gateway has taken the tool 'look' away" in caplog.text


class Look:
    spec = ToolSpec("look", "Looks.", {"type": "object"})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        return "ours"


async def test_a_devices_tools_are_called_with_progress_images_and_large_results(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        client = Client(gateway.url, gateway.token, label="My Phone", backoff=SOON)

        @client.tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @client.tool
        def photo(size: int, ctx: CallContext) -> Image:
            """Take a photo."""
            ctx.progress("smile")
            return Image(b"x" * size, name="me.png")

        @client.tool
        def essay() -> str:
            """Write a lot."""
            return "x" * 2_000_000

        async with client:
            assert client.label == "my_phone"
            assert await gateway.call("my_phone__add", a=2, b=3) == Success(5, (), b'{"status":"success","result":5}')
            wrong = await gateway.call("my_phone__add", a="two", b=3)
            assert isinstance(wrong, Failure)
            assert wrong.code == "invalid_arguments"
            for size in (100, 400_000):
                taken = await gateway.call("my_phone__photo", size=size)
                assert isinstance(taken, Success)
                (attachment,) = taken.attachments
                kept = attachment.artifact
                assert (attachment.kind, attachment.media_type, attachment.name) == ("image", "image/png", "me.png")
                assert (len(attachment.data) if kept is None else kept.size) == size
            written = await gateway.call("my_phone__essay")
            assert isinstance(written, Success)
            assert [one.artifact.size for one in written.attachments if one.artifact] == [2_000_000]


async def test_a_question_at_the_device_ends_with_its_call_and_says_who_asks(tmp_path: Path) -> None:
    asked: asyncio.Queue[PermissionQuestion] = asyncio.Queue()
    ended = asyncio.Event()

    async def ask(question: PermissionQuestion) -> Any:
        asked.put_nowait(question)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    async with running_gateway(tmp_path) as gateway:
        client = Client(gateway.url, gateway.token, label="phone", backoff=SOON, ask_permission=ask)

        @client.tool(permissions=("camera",))
        def photo(flash: bool) -> str:
            """Take a photo."""
            return "click"

        async with client:
            calling = asyncio.create_task(gateway.call("phone__photo", flash=True))
            question = await asyncio.wait_for(asked.get(), WAIT)
            assert (question.tool, question.arguments, question.agent) == ("photo", {"flash": True}, "General")
            calling.cancel()
            await asyncio.wait_for(ended.wait(), WAIT)


async def test_permissions_are_asked_here(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    async def ask(question: PermissionQuestion) -> str:
        asked.append((question.permission, question.tool))
        return "allow" if question.permission == "camera" else "deny"

    async with running_gateway(tmp_path) as gateway:
        client = Client(gateway.url, gateway.token, label="phone", backoff=SOON, ask_permission=ask)  # type: ignore[arg-type] # one of the words

        @client.tool(permissions=("camera",))
        def photo() -> str:
            """Take a photo."""
            return "click"

        @client.tool(permissions=("money",))
        def pay() -> str:
            """Pay."""
            return "paid"

        async with client:
            taken = await gateway.call("phone__photo")
            assert isinstance(taken, Success)
            paid = await gateway.call("phone__pay")
            assert isinstance(paid, Failure)
            assert paid.code == "permission_denied"
    assert asked == [("camera", "photo"), ("money", "pay")]


async def test_a_call_survives_a_dropped_link_and_runs_once(tmp_path: Path) -> None:
    runs: list[str] = []
    began, go = asyncio.Event(), asyncio.Event()
    async with running_gateway(tmp_path) as gateway, FaultProxy(gateway.url) as proxy:
        client = Client(proxy.url, gateway.token, label="phone", backoff=SOON)

        @client.tool
        async def slow(ctx: CallContext) -> str:
            """Take some time."""
            runs.append(ctx.call_id)
            began.set()
            await go.wait()
            return "done"

        async with client:
            calling = asyncio.create_task(gateway.call("phone__slow"))
            await asyncio.wait_for(began.wait(), 60)
            proxy.cut()
            while client.state == "connected":
                await asyncio.sleep(0)
            go.set()
            result = await asyncio.wait_for(calling, 60)
            assert isinstance(result, Success)
            assert result.value == "done"
            await client.connected()
    assert len(runs) == 1


async def test_a_device_is_there_again_after_a_restart_of_the_gateway(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        client = Client(gateway.url, gateway.token, label="phone", backoff=SOON)

        @client.tool
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        async with client:
            assert isinstance(await gateway.call("phone__add", a=1, b=2), Success)
            await gateway.restart()
            async with asyncio.timeout(60):
                while not isinstance(await gateway.call("phone__add", a=1, b=2), Success):
                    await asyncio.sleep(0)


async def test_a_chat_uses_its_own_tools_and_hears_everything_once(tmp_path: Path) -> None:
    model = Scripted([call("battery"), "It is at 80 %."])
    async with running_gateway(tmp_path, model=model) as gateway:
        client = Client(gateway.url, gateway.token, backoff=SOON)

        @client.tool
        def battery(ctx: CallContext) -> int:
            """How full it is."""
            ctx.progress("looking")
            return 80

        async with client.chat() as chat:
            async with asyncio.timeout(60):
                events = [event async for event in chat.send("How full is the battery?")]
            session = chat.session_id
        kinds = [type(event) for event in events]
        assert kinds.count(CallStarted) == kinds.count(CallProgress) == kinds.count(CallFinished) == 1
        assert "".join(event.text for event in events if isinstance(event, TextArrived)) == "It is at 80 %."
        assert events[-1] == Ended("done", "It is at 80 %.")
        async with client.chat(session) as again:
            assert (again.session_id, again.message_count > 0) == (session, True)


async def test_a_chat_heals_in_mid_turn_without_losing_or_doubling_an_event(tmp_path: Path) -> None:
    began, go = asyncio.Event(), asyncio.Event()
    model = Scripted([call("wait"), "Over."])
    async with running_gateway(tmp_path, model=model) as gateway, FaultProxy(gateway.url) as proxy:
        client = Client(proxy.url, gateway.token, backoff=SOON)

        @client.tool
        async def wait() -> str:
            """Wait."""
            began.set()
            await go.wait()
            return "waited"

        async with client.chat() as chat:

            async def turn() -> list[object]:
                return [event async for event in chat.send("wait")]

            turning = asyncio.create_task(turn())
            await asyncio.wait_for(began.wait(), 60)
            proxy.cut()
            go.set()
            events = await asyncio.wait_for(turning, 60)
    assert sum(isinstance(event, CallFinished) for event in events) == 1
    assert [event for event in events if isinstance(event, Ended)] == [Ended("done", "Over.")]


async def test_a_failed_turn_ends_and_the_next_one_works(tmp_path: Path) -> None:
    model = Scripted([ModelError("auth", "The key is wrong."), "Fine."])
    async with (
        running_gateway(tmp_path, model=model) as gateway,
        Client(gateway.url, gateway.token, backoff=SOON).chat() as chat,
        asyncio.timeout(60),
    ):
        first = [event async for event in chat.send("one")]
        second = [event async for event in chat.send("two")]
    assert isinstance(first[-1], Ended)
    assert first[-1].reason == "error"
    assert second[-1] == Ended("done", "Fine.")


async def test_a_turn_can_be_stopped(tmp_path: Path) -> None:
    began = asyncio.Event()
    model = Scripted([call("wait"), "Never."])
    async with running_gateway(tmp_path, model=model) as gateway:
        client = Client(gateway.url, gateway.token, backoff=SOON)
        stopped = asyncio.Event()

        @client.tool
        async def wait() -> None:
            """Wait."""
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async with client.chat() as chat:

            async def turn() -> list[object]:
                return [event async for event in chat.send("wait")]

            turning = asyncio.create_task(turn())
            await asyncio.wait_for(began.wait(), 60)
            assert await asyncio.wait_for(chat.abort(), 60)
            events = await asyncio.wait_for(turning, 60)
            assert isinstance(events[-1], Ended)
            assert events[-1].reason == "aborted"
            await asyncio.wait_for(stopped.wait(), 60)


async def test_on_question_answers_and_ends_when_another_client_does(tmp_path: Path) -> None:
    model = Scripted([call("pay"), call("pay"), "Paid."])
    asked: asyncio.Queue[Question] = asyncio.Queue()
    ended = asyncio.Event()

    async def on_question(question: Question) -> Any:
        asked.put_nowait(question)
        if asked.qsize() == 1 and not ended.is_set():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.set()
        return Answer("deny", reason="Too dear")

    async with running_gateway(tmp_path, model=model, agents={"General": {"mode": "ask_always"}}) as gateway:
        client = Client(gateway.url, gateway.token, backoff=SOON)

        @client.tool
        def pay() -> str:
            """Pay."""
            return "paid"

        async with client.chat(on_question=on_question) as chat:

            async def turn() -> list[object]:
                return [event async for event in chat.send("pay")]

            turning = asyncio.create_task(turn())
            first = await asyncio.wait_for(asked.get(), WAIT)
            assert (first.tool, first.agent) == ("pay", "General")
            await gateway.gateway.parts.questions.answer(first.id, Answer("deny"), person(OPERATOR))  # another client
            await asyncio.wait_for(ended.wait(), WAIT)
            events = await asyncio.wait_for(turning, WAIT)
    finished = [event.envelope for event in events if isinstance(event, CallFinished)]
    assert ["Too dear" in envelope for envelope in finished] == [False, True]


async def test_a_question_is_answered_from_the_chat(tmp_path: Path) -> None:
    model = Scripted([call("pay"), "Paid."])
    agents = {"General": {"mode": "ask_always"}}
    async with running_gateway(tmp_path, model=model, agents=agents) as gateway:
        client = Client(gateway.url, gateway.token, backoff=SOON)

        @client.tool
        def pay() -> str:
            """Pay."""
            return "paid"

        asked = 0
        async with client.chat() as chat, asyncio.timeout(60):
            async for event in chat.send("pay"):
                if isinstance(event, QuestionAsked):
                    asked += 1
                    await chat.answer(event.question.id, "allow")
            assert event == Ended("done", "Paid.")
    assert asked == 1


async def test_a_tool_of_the_gateway_gets_a_value_from_the_person_of_the_chat(tmp_path: Path) -> None:
    class Paint:
        spec = ToolSpec("paint", "Paint.", {"type": "object"})

        async def run(self, arguments: Any, ctx: ToolContext) -> Any:
            return (await ctx.ask("input", "Which colour?", schema={"type": "string", "maxLength": 4})).value

    async with running_gateway(tmp_path, model=Scripted([call("paint"), "Done."])) as gateway:
        gateway.gateway.parts.app.registry.register(Paint(), Origin("plugin", "test"))
        client = Client(gateway.url, gateway.token, backoff=SOON)
        results = []
        async with client.chat() as chat, asyncio.timeout(20):
            async for event in chat.send("paint"):
                if isinstance(event, QuestionAsked):
                    with pytest.raises(InvalidAnswer):
                        await chat.answer(event.question.id, "allow", value="yellow")
                    await chat.answer(event.question.id, "allow", value="blue")
                elif isinstance(event, CallFinished):
                    results.append(event.envelope)
        assert results == ['{"status":"success","result":"blue"}']


async def test_a_question_that_is_answered_by_another_chat_is_over_for_this_one(tmp_path: Path) -> None:
    action = QuestionAction("https://shop.example/login")
    question = Question("login", "login", "", "shop", {}, "Log in.", "operator", "", "f", 60.0, None, action)
    async with running_gateway(tmp_path) as gateway, asyncio.timeout(20):
        client = Client(gateway.url, gateway.token, backoff=SOON)
        async with client.chat() as first, client.chat() as second:
            watching = [first.watch(), second.watch()]
            asking = asyncio.create_task(gateway.gateway.parts.questions.ask(question))
            for one in watching:
                asked = await anext(one)
                assert isinstance(asked, QuestionAsked) and asked.question.action == action
            over = [asyncio.create_task(chat.closed("login")) for chat in (first, second)]
            await second.answer("login", "allow")
            assert await asyncio.gather(*over) == [False, True]
            assert (await asking).decision == "allow"


async def test_what_an_agent_writes_to_the_person_reaches_every_client_that_shows_it(tmp_path: Path) -> None:
    shown: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    def show_and_fail(message: ChannelMessage) -> None:
        shown.put_nowait(("chat", message.chat_id, message.content))
        raise RuntimeError("the program's own fault")

    async def show(channel: str, chat_id: str, content: str) -> None:
        shown.put_nowait((channel, chat_id, content))

    async with running_gateway(tmp_path, model=Scripted(["Hello."]), channels={"page": {}}) as gateway:
        about = (gateway.url, gateway.token)
        watch = Client(
            *about,
            label="watch",
            backoff=SOON,
            on_channel_message=lambda message: shown.put_nowait(("watch", message.chat_id, message.content)),
        )
        built = Client.builder(gateway.url).auth_token(gateway.token).on_channel_message(show).build()
        silent = Client(*about, label="silent", backoff=SOON)
        async with watch, built, silent, silent.chat("here", on_channel_message=show_and_fail) as chat:
            sent = await gateway.call("message", channel="page", chat_id="all", content="Dinner")
            assert isinstance(sent, Success)
            got = [await asyncio.wait_for(shown.get(), WAIT) for _ in range(3)]
            assert sorted(got) == [(name, "all", "Dinner") for name in ("chat", "page", "watch")]
            sent = await gateway.call("message", channel="page", chat_id="here", content="Only you")
            assert isinstance(sent, Success)
            assert await asyncio.wait_for(shown.get(), WAIT) == ("chat", "here", "Only you")
            ended = [event async for event in chat.send("hi")][-1]
            assert ended == Ended("done", "Hello."), "a listener that fails ends nothing"
