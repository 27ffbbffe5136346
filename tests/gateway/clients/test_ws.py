"""`/ws/chat` as its clients see it: a real gateway, real sockets, raw frames (ws.md)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from handspan import tool
from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.messages import ResultsMessage
from handspan.core.principals import OPERATOR, Origin
from handspan.core.results import Failure, Success
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, call
from tests.gateway.raw_clients import Client, Place, running
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

INFO: dict[str, Json] = {"name": "device_info", "description": "About this phone.", "parameters": {"type": "object"}}
PIXEL = '{"model":"Pixel 8"}'


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with running(tmp_path) as running_place:
        yield running_place


def scripted(*turns: Any) -> Scripted:
    return Scripted(turns)


# Coming in.


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_nobody_comes_in_without_a_valid_token(place: Place, token: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with place.client(token=token):
            pass
    assert refused.value.response.status_code == 401


async def test_a_foreign_host_or_origin_is_refused_even_with_a_token(place: Place) -> None:
    token = {"Authorization": f"Bearer {place.gateway.operator_token}"}
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}):
        with pytest.raises(InvalidStatus) as refused:
            await connect(place.ws, additional_headers={**token, **headers}, compression=None, proxy=None)
        assert refused.value.response.status_code == 403


async def test_the_gateway_speaks_first(place: Place) -> None:
    async with place.client() as client:
        start = await client.hears()
    assert start.items() >= {"type": "session_start", "v": 1, "resumed": False, "message_count": 0}.items()
    assert start["session_id"]


async def test_connect_is_answered_and_an_old_client_hears_nothing_new(place: Place) -> None:
    async with place.client() as client:
        await client.hears()
        await client.send("connect", v=1)
        assert await client.hears() == {"type": "connected", "v": 1, "message": "Connection established"}


async def test_who_names_capabilities_hears_which_are_agreed_on_and_the_limits(place: Place) -> None:
    async with place.client() as client:
        connected = await client.connected("cancel", "resume", "flying")
    assert connected["capabilities"] == ["cancel", "resume"]
    assert connected["limits"]["tools"] == 256
    assert connected["resume_token"] and connected["grace_ms"] == 60_000 and connected["resumed"] is False


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["clawseed.v1"], "clawseed.v1"), (["other", "handspan.v1"], "handspan.v1"), (["other"], None)],
)
async def test_a_known_subprotocol_is_echoed(place: Place, offered: list[Any], chosen: str | None) -> None:
    headers = {"Authorization": f"Bearer {place.gateway.operator_token}"}
    async with connect(
        place.ws, additional_headers=headers, subprotocols=offered, compression=None, proxy=None
    ) as socket:
        assert socket.subprotocol == chosen


async def test_the_token_may_stand_in_the_subprotocol_which_is_never_echoed(place: Place) -> None:
    offered: list[Any] = [f"bearer.{place.gateway.operator_token}", "clawseed.v1"]
    async with connect(place.ws, subprotocols=offered, compression=None, proxy=None) as socket:
        assert socket.subprotocol == "clawseed.v1"
        assert (await Client(socket).hears())["type"] == "session_start"


async def test_the_token_may_stand_in_the_query(place: Place) -> None:
    async with place.client(f"?token={place.gateway.operator_token}", token="") as client:
        assert (await client.hears())["type"] == "session_start"


@pytest.mark.parametrize("first", [b'{"type":"abort"}', b'{"type":"nonsense"}', b"no json", b"[]"])
async def test_a_wrong_first_frame_is_an_error_without_a_code_and_the_next_may_be_right(
    place: Place, first: bytes
) -> None:
    async with place.client() as client:
        await client.hears()
        await client.socket.send(first, text=True)
        error = await client.hears()
        assert error["type"] == "error" and error["message"] and "code" not in error
        await client.send("connect", v=1)
        assert (await client.hears())["type"] == "connected"


async def test_frames_may_follow_each_other_without_waiting(place: Place) -> None:
    async with place.client() as client:
        await client.send("connect", v=1)
        await client.send("register_tools", tools=[INFO])
        await client.send("message", content="hello")
        heard = [frame["type"] for frame in await client.hears_until("done")]
    assert heard[:3] == ["session_start", "connected", "tools_registered"]
    assert heard[-2:] == ["chunk_reset", "done"]


async def test_a_session_that_is_somebody_elses_is_refused(place: Place) -> None:
    bob = await place.gateway.parts.auth.issue("bob", ("chat", "device"))
    async with place.client("?session_id=mine") as client:
        await client.connected()
        await client.send("message", content="hello")
        await client.hears_until("done")
    async with place.client("?session_id=mine", token=bob) as client:
        error = await client.hears()
        assert (error["type"], error["code"]) == ("error", "SESSION_OWNER_MISMATCH")
        assert await client.closed() == 1000


async def test_a_session_id_that_can_not_be_one_is_refused(place: Place) -> None:
    async with place.client("?session_id=no%20spaces") as client:
        assert (await client.hears())["code"] == "SESSION_BIND_FAILED"
        assert await client.closed() == 1000


async def test_an_unknown_agent_is_said_and_closes(place: Place) -> None:
    async with place.client("?persona=nobody") as client:
        assert (await client.hears())["code"] == "AGENT_INIT_FAILED"
        assert await client.closed() == 1011


# Frames that are none.


async def test_what_can_not_be_read_or_is_not_known_is_said_and_the_socket_stays(place: Place) -> None:
    async with place.client() as client:
        await client.connected()
        for data, code in (
            (b"{", "INVALID_JSON"),
            (b'{"type":"message","type":"message"}', "INVALID_JSON"),
            (b'{"type":"nonsense"}', "UNKNOWN_MESSAGE_TYPE"),
            (b'{"type":"connect"}', "UNKNOWN_MESSAGE_TYPE"),
            (b'{"type":"unregister_tools","names":["x"]}', "UNKNOWN_MESSAGE_TYPE"),
            (b'{"no":"type"}', "INVALID_FRAME"),
            (b'{"type":"register_tools","tools":7}', "INVALID_FRAME"),
            (b'{"type":"message","content":""}', "EMPTY_CONTENT"),
            (b'{"type":"message","content":7}', "EMPTY_CONTENT"),
            (b'{"type":"regenerate"}', "NO_USER_MESSAGE"),
            (b'{"type":"message","content":' + b"[" * 500 + b"]" * 500 + b"}", "INVALID_JSON"),
        ):
            await client.socket.send(data, text=True)
            assert (await client.hears()).get("code") == code, data
        await client.send("get_registered_tools")
        assert await client.hears() == {"type": "registered_tools", "tools": []}


async def test_a_message_above_the_limit_closes_with_1009(tmp_path: Path) -> None:
    async with running(tmp_path, limits={"message_bytes": 2000}) as place, place.client() as client:
        await client.connected()
        await client.send("message", content="x" * 3000)
        assert await client.closed() == 1009


PHOTO: dict[str, Any] = {"name": "photo", "description": "Take a photo.", "parameters": {"type": "object"}}


@contextlib.asynccontextmanager
async def photographing(folder: Path, *can: str) -> AsyncIterator[tuple[Place, Client, str]]:
    """An old client with a call that waits for its answer, and the call's id."""
    model = scripted([call("photo")], "A nice photo.")
    async with running(folder, model) as place, place.client() as client:
        await client.connected(*can)
        await client.offers(PHOTO)
        await client.send("message", content="Take one")
        yield place, client, (await client.hears_of("tool_call_request"))["id"]


@pytest.mark.parametrize("fragments", [1, 5])
async def test_a_client_that_knows_no_parts_may_answer_an_open_call_with_16_mib(tmp_path: Path, fragments: int) -> None:
    async with photographing(tmp_path) as (place, client, asked):
        big = msgspec.json.encode({"type": "tool_result", "id": asked, "output": "x" * 15_000_000, "success": True})
        part = len(big) // fragments + 1
        pieces = [big[at : at + part].decode() for at in range(0, len(big), part)]
        await client.socket.send(pieces[0] if fragments == 1 else pieces)
        done = await client.hears_of("done")
        assert done["full_response"] == "A nice photo."
        record = await place.gateway.parts.store.ledger.get(asked, owner="operator")
        assert isinstance(record.result, Success)
        await client.send("get_registered_tools")
        assert len((await client.hears_of("registered_tools"))["tools"]) == 1
        await client.send("tool_result", id=asked, output="x" * 1_100_000, success=True)  # no call waits any more
        assert await client.closed() == 1009


@pytest.mark.parametrize("can", [(), ("parts",)])
@pytest.mark.parametrize(
    "unasked",
    [
        {"type": "message", "content": "x" * 2_000_000},
        {"type": "tool_result", "id": "another", "output": "x" * 2_000_000},
        "x" * 2_000_000,
        {"type": "tool_result", "id": "", "output": "x" * 17_000_000},
    ],
)
async def test_a_large_message_that_no_call_waits_for_closes_with_1009_also_while_a_call_is_open(
    tmp_path: Path, unasked: Any, can: tuple[str, ...]
) -> None:
    async with photographing(tmp_path, *can) as (_, client, asked):
        if isinstance(unasked, dict) and unasked.get("id") == "":
            unasked = {**unasked, "id": asked}
        data = unasked if isinstance(unasked, str) else msgspec.json.encode(unasked).decode()
        with contextlib.suppress(ConnectionClosed):  # it may be closed before all is sent
            await client.socket.send(data)
        assert await client.closed() == 1009


async def test_who_floods_is_read_more_slowly_and_disturbs_nobody(tmp_path: Path) -> None:
    async with (
        running(tmp_path, limits={"messages_per_second": 20}) as place,
        place.client() as noisy,
        place.client() as good,
    ):
        await noisy.connected()
        await good.connected()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(120):
            await noisy.send("get_registered_tools")
        await good.send("get_registered_tools")
        assert (await good.hears())["type"] == "registered_tools"
        good_waited = loop.time() - began
        for _ in range(120):
            assert (await noisy.hears())["type"] == "registered_tools"
        await noisy.send("get_registered_tools")
        assert (await noisy.hears())["type"] == "registered_tools"
        # 40 at once, then 20 a second: however they are read, the last one is not heard before the fourth second.
        assert loop.time() - began > 3.5 > good_waited


# Conversations.


async def test_a_turn_on_the_wire_has_the_order_of_the_protocol(tmp_path: Path) -> None:
    model = scripted(["One moment. ", call("list_directory", path=".")], "There is nothing.")
    async with running(tmp_path, model) as place, place.client() as client:
        await client.connected()
        await client.send("message", content="what is here?")
        heard = await client.hears_until("title_updated")
    kinds = [frame["type"] for frame in heard if frame["type"] != "chunk"]
    assert kinds == ["tool_call", "tool_result", "chunk_reset", "done", "title_updated"]
    note, result = (next(one for one in heard if one["type"] == kind) for kind in ("tool_call", "tool_result"))
    assert note["args"] == {"path": "."} and note["id"] == result["id"]
    assert next(one for one in heard if one["type"] == "done")["full_response"] == "One moment. There is nothing."
    assert heard[-1]["title"] == "what is here?"


async def test_a_session_is_resumed_by_its_id(tmp_path: Path) -> None:
    async with running(tmp_path, scripted("one", "two")) as place:
        async with place.client("?session_id=s1&name=Work") as client:
            assert (await client.connected())["name"] == "Work"
            await client.send("message", content="first")
            await client.hears_until("done")
        async with place.client("?session_id=s1") as client:
            start = await client.hears()
    assert (start["resumed"], start["message_count"], start["name"]) == (True, 2, "Work")


async def test_abort_is_heard_in_mid_turn(tmp_path: Path) -> None:
    async with running(tmp_path, scripted([call("device_info")])) as place, place.client() as client:
        await client.connected()
        await client.offers(INFO)
        await client.send("message", content="go")
        request = await client.hears_of("tool_call_request")
        await client.send("abort")
        heard = [await client.hears(), await client.hears()]
        assert {frame["type"] for frame in heard} == {"abort_ack", "aborted"}
        assert {"type": "abort_ack", "status": "aborted"} in heard
        record = await place.gateway.parts.store.ledger.get(request["id"], owner="operator")
        assert record.state == "done"
        await client.send("abort")
        assert await client.hears() == {"type": "abort_ack", "status": "no_active_response"}


async def test_regenerate_answers_the_last_message_again(tmp_path: Path) -> None:
    async with running(tmp_path, scripted("one", "two")) as place, place.client("?session_id=r") as client:
        await client.connected()
        await client.send("message", content="say a number")
        assert (await client.hears_of("done"))["full_response"] == "one"
        await client.hears_of("title_updated")
        await client.send("regenerate")
        assert (await client.hears_of("done"))["full_response"] == "two"
        assert len(await place.gateway.parts.store.conversations.load("r", owner="operator")) == 2


@pytest.mark.parametrize("capabilities", [["versions"], ["versions", "events"], []])
async def test_a_client_with_versions_is_told_when_the_conversation_goes_on_from_another_place(
    tmp_path: Path, capabilities: list[str]
) -> None:
    async with running(tmp_path, scripted("one", "two")) as place, place.client("?session_id=v") as client:
        await client.connected(*capabilities)
        await client.send("message", content="say a number")
        await client.hears_of("title_updated")
        session = place.gateway.parts.sessions.get("v", "operator")
        conversations = place.gateway.parts.store.conversations
        await session.regenerate(OPERATOR, lambda *_: None).wait_for_end()
        await session.undo(OPERATOR).wait_for_end()
        await session.choose_version(OPERATOR, 1).wait_for_end()
        assert len(await conversations.load("v", owner="operator")) == 2
        await client.send("get_registered_tools")
        heard = await client.hears_until("registered_tools")
    told = [frame["message_count"] for frame in heard if frame["type"] == "versions"]
    assert told == ([1, 0, 2] if capabilities else [])


async def test_a_message_takes_the_place_of_an_earlier_one_and_of_all_after_it(tmp_path: Path) -> None:
    async with running(tmp_path, scripted("one", "two", "three")) as place, place.client("?session_id=e") as client:
        await client.connected()
        for text in ("first", "second"):
            await client.send("message", content=text)
            await client.hears_of("done")
        await client.send("message", content="wrong", replaces=2)
        assert (await client.hears_of("error"))["code"] == "NO_USER_MESSAGE"
        await client.send("message", content="instead", replaces=1)
        assert (await client.hears_of("done"))["full_response"] == "three"
        said = await place.gateway.parts.store.conversations.load("e", owner="operator")
        assert [message.parts[0].text for message in said] == ["instead", "three"]  # type: ignore[union-attr] # texts


async def test_files_of_a_person_are_part_of_the_message_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, scripted("I see it.")) as place, place.client("?session_id=f") as client:
        await client.connected("resume", "events")
        unknown = {"kind": "image", "media_type": "image/png", "artifact": "nothing"}
        await client.send("message", content="look", id="m1", parts=[unknown])
        assert (await client.hears_of("error"))["id"] == "m1"
        small = {"kind": "image", "media_type": "image/png", "data": "iVBORw0KGgo=", "name": "a.png"}
        await client.send("message", content="", id="m2", parts=[small])
        assert (await client.hears_of("message_accepted"))["id"] == "m2"
        token = {"authorization": f"Bearer {place.gateway.operator_token}"}
        async with httpx2.AsyncClient(base_url=place.url, headers=token, timeout=60) as rest:
            await until(lambda: len(place.gateway.parts.sessions.running("operator")) == 0)
            (first, *_) = (await rest.get("/api/sessions/f/messages?full=true")).json()["messages"]
            assert first["files"] == [{"index": 0, "kind": "image", "media_type": "image/png", "name": "a.png"}]
            file = await rest.get("/api/sessions/f/messages/1/files/0")
            assert (file.content[:4], file.headers["content-type"]) == (b"\x89PNG", "image/png")
            assert "sandbox" in file.headers["content-security-policy"]
            assert (await rest.get("/api/sessions/f/messages/1/files/1")).status_code == 404


async def test_a_message_with_files_is_not_overtaken_by_the_one_after_it(tmp_path: Path) -> None:
    async with running(tmp_path, scripted("one", "two", "three")) as place, place.client("?session_id=o") as client:
        await client.connected("resume", "events")
        small = {"kind": "image", "media_type": "image/png", "data": "iVBORw0KGgo=", "name": "a.png"}
        await client.send("message", content="look", id="m1", parts=[small])
        for name in ("m2", "m3"):
            await client.send("message", content="and tell me", id=name)
        assert [(await client.hears_of("message_accepted"))["id"] for _ in range(3)] == ["m1", "m2", "m3"]


async def test_a_client_that_comes_in_the_middle_of_a_round_gets_what_has_arrived(tmp_path: Path) -> None:
    model = scripted(call("device_info"), "It is a Pixel.")
    async with running(tmp_path, model) as place, place.client("?session_id=m") as chat:
        await chat.connected("events", "resume")
        await chat.offers(INFO)
        await chat.send("message", content="which phone?", id="m1")
        asked = await chat.hears_of("tool_call_request")
        async with place.client("?session_id=m") as other:
            await other.connected("events")
            kinds = [(await other.hears_of("event"))["event"]["type"] for _ in range(2)]
            assert kinds == ["round", "call_started"]
            await chat.send("tool_result", id=asked["id"], output=PIXEL)
            assert (await other.hears_of("event"))["event"]["type"] == "call_finished"


async def test_a_failing_model_is_an_error_and_the_next_turn_works(tmp_path: Path) -> None:
    model = Scripted(["fine"])
    async with running(tmp_path, model) as place, place.client() as client:
        await client.connected()
        await client.send("message", content="one")
        await client.hears_of("done")
        await client.send("message", content="two")
        error = await client.hears_of("error")
        assert error["code"] in ("PROVIDER_ERROR", "AGENT_ERROR")


async def test_a_client_that_connects_later_is_told_how_the_last_turn_ended(tmp_path: Path) -> None:
    model = Scripted([ModelError("auth", "The key is wrong."), "fine"])
    async with running(tmp_path, model) as place:
        async with place.client("?session_id=s") as client:
            assert "ended" not in await client.connected("events")
            await client.send("message", content="one")
            await client.hears_of("title_updated")
        async with place.client("?session_id=s") as old:
            assert "ended" not in await old.connected("cancel")
        async with place.client("?session_id=s") as client:
            ended = (await client.connected("events"))["ended"]
            assert ended.pop("at") > 1_700_000_000
            fault = {"of": "model", "code": "auth"}
            assert ended == {"reason": "error", "model": model.name, "text": "The key is wrong.", "fault": fault}
            await client.send("regenerate")
            while (await client.hears_of("event"))["event"]["type"] != "ended":
                pass
        async with place.client("?session_id=s") as client:
            assert "ended" not in await client.connected("events")


async def test_a_closed_socket_cancels_its_turn_and_what_was_sent_has_an_unknown_outcome(tmp_path: Path) -> None:
    serial: dict[str, Json] = {**INFO, "annotations": {"serial": True}}
    sms = [call("device_info", to="Ann"), call("device_info", to="Bob")]  # the second one waits for the first
    async with running(tmp_path, scripted(sms, "never")) as place:
        async with place.client("?session_id=c") as client:
            await client.connected()
            await client.offers(serial)
            await client.send("message", content="go")
            await client.hears_of("tool_call_request")
            client.drop()
        store = place.gateway.parts.store

        async def is_over() -> bool:
            record = await store.conversations.get("c", owner="operator")
            return record.state == "idle" and record.length == 3

        await until(is_over)
        results = (await store.conversations.load("c", owner="operator"))[-1]
        assert isinstance(results, ResultsMessage)  # the model is told so in the next turn, and looks first
        codes = [msgspec.json.decode(one.envelope)["code"] for one in results.results]
        assert codes == ["unknown_outcome", "disconnected"]


# Remote tools.


async def test_a_tool_of_the_client_is_called_and_its_answer_reaches_the_model(tmp_path: Path) -> None:
    async with running(tmp_path, scripted([call("device_info")], "It is a Pixel.")) as place, place.client() as client:
        await client.connected()
        assert await client.offers(INFO) == {"type": "tools_registered", "count": 1, "registered": 1}
        await client.send("message", content="which phone is this?")
        request = await client.hears_of("tool_call_request")
        assert request == {"type": "tool_call_request", "id": request["id"], "name": "device_info", "args": {}}
        await client.send("tool_result", id=request["id"], output=PIXEL, success=True)
        heard = await client.hears_until("done")
    kinds = [frame["type"] for frame in heard if frame["type"] != "chunk"]
    assert kinds == ["result_acknowledged", "tool_result", "chunk_reset", "done"]
    assert heard[0] == {"type": "result_acknowledged", "id": request["id"]}
    assert next(one for one in heard if one["type"] == "tool_result")["output"] == PIXEL


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "tool_error", "error": "no battery", "success": False},
        {"kind": "tool_result", "output": "", "success": False, "error": "no battery"},
    ],
)
async def test_a_failing_tool_is_told_to_the_model(tmp_path: Path, answer: dict[str, Any]) -> None:
    async with running(tmp_path, scripted([call("device_info")], "A pity.")) as place, place.client() as client:
        await client.connected()
        await client.offers(INFO)
        await client.send("message", content="go")
        request = await client.hears_of("tool_call_request")
        await client.send(id=request["id"], **answer)
        assert (await client.hears_of("tool_result"))["output"] == "Error: no battery"
        assert (await client.hears_of("done"))["full_response"] == "A pity."


async def test_results_without_an_id_are_skipped_and_unknown_ones_are_acknowledged(place: Place) -> None:
    async with place.client() as client:
        await client.connected()
        await client.send("tool_result", output="whose?")
        await client.send("tool_result", id="", output="whose?")
        await client.send("tool_error", id=7)
        await client.send("tool_result", call_id="550e8400-e29b-41d4-a716-446655440000", output="whose?")
        assert await client.hears() == {"type": "result_acknowledged", "id": "550e8400-e29b-41d4-a716-446655440000"}


async def test_a_result_of_another_connection_is_refused_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running(tmp_path, scripted([call("device_info")], "done")) as place,
        place.client() as phone,
        place.client() as thief,
    ):
        await phone.connected()
        await thief.connected()
        await phone.offers(INFO)
        await phone.send("message", content="go")
        request = await phone.hears_of("tool_call_request")
        await thief.send("tool_result", id=request["id"], output="stolen")
        assert (await thief.hears())["type"] == "result_acknowledged"
        await phone.send("tool_result", id=request["id"], output="mine")
        assert (await phone.hears_of("tool_result"))["output"] == "mine"
        await until(lambda: request["id"] in caplog.text and "another client" in caplog.text)


async def test_the_tools_of_a_closed_connection_are_gone_everywhere(place: Place) -> None:
    async with place.client("?session_id=t") as client:
        await client.connected()
        await client.offers(INFO)
        assert any(entry.spec.name == "device_info" for entry in place.gateway.parts.app.registry)
    async with asyncio.timeout(WAIT):
        while any(entry.spec.name == "device_info" for entry in place.gateway.parts.app.registry):
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def rest_of(place: Place) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {place.gateway.operator_token}"}
    async with httpx2.AsyncClient(base_url=place.url, headers=headers, timeout=WAIT, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(("query", "kind"), [("", "chat"), ("?kind=one_shot", "one_shot"), ("?kind=run", "chat")])
async def test_a_client_says_that_its_session_is_for_one_question(place: Place, query: str, kind: str) -> None:
    async with rest_of(place) as rest, place.client(query) as chat:
        session = (await chat.hears())["session_id"]
        await chat.send("connect", v=1)
        assert (await rest.get(f"/api/sessions/{session}")).json()["kind"] == kind
        await chat.send("message", content="hello")
        await chat.hears_of("done")
        assert (await rest.get(f"/api/sessions/{session}")).json()["kind"] == kind
        listed = (await rest.get(f"/api/sessions?kind={kind}")).json()["sessions"]
        assert [one["session_id"] for one in listed] == [session]


async def test_a_session_and_its_tools_are_there_for_rest_before_the_first_message(place: Place) -> None:
    async with rest_of(place) as rest:
        async with place.client("?name=Phone") as chat:
            session = (await chat.hears())["session_id"]
            (listed,) = (await rest.get("/api/sessions")).json()["sessions"]
            assert (listed["session_id"], listed["name"], listed["message_count"]) == (session, "Phone", 0)
            await chat.send("connect", v=1)
            await chat.offers(INFO)
            found = {one["name"]: one for one in (await rest.get("/api/tools")).json()["tools"]}
            assert (found["device_info"]["source_type"], found["device_info"]["agents"]) == ("remote", ["General"])
            why = (await rest.get(f"/api/tools/device_info/why?session={session}")).json()
            assert why["usable"] is True
            calling = asyncio.create_task(
                rest.post("/api/tools/device_info/call", json={"session": session, "args": {}})
            )
            await chat.send("tool_result", id=(await chat.hears_of("tool_call_request"))["id"], output=PIXEL)
            assert (await calling).json() == {"status": "success", "result": PIXEL}
            assert (await rest.get(f"/api/sessions/{session}/messages")).json()["messages"] == []
            assert (await rest.get(f"/api/sessions/{session}/state")).json()["state"] == "idle"
            await rest.put(f"/api/sessions/{session}", json={"name": "Renamed"})
            assert (await rest.get(f"/api/sessions/{session}")).json()["name"] == "Renamed"

        async def is_gone() -> bool:
            return (await rest.get(f"/api/sessions/{session}")).status_code == 404

        await until(is_gone)
        assert (await rest.get("/api/sessions")).json()["sessions"] == []
        assert await place.gateway.parts.store.conversations.find(session, owner="operator") is None


async def test_the_first_message_stores_the_session_under_the_name_that_rest_gave_it(tmp_path: Path) -> None:
    async with running(tmp_path, scripted("Hi.")) as place, rest_of(place) as rest, place.client() as chat:
        session = (await chat.connected())["session_id"]
        assert (await rest.put(f"/api/sessions/{session}", json={"name": "Mine"})).status_code == 200
        await chat.send("message", content="hello")
        await chat.hears_of("done")
        (listed,) = (await rest.get("/api/sessions")).json()["sessions"]
        assert (listed["session_id"], listed["name"], listed["message_count"]) == (session, "Mine", 2)
        assert (await rest.delete(f"/api/sessions/{session}")).status_code == 200
        assert (await rest.get(f"/api/sessions/{session}")).status_code == 404


async def test_a_device_is_no_session_and_another_owner_sees_none(place: Place) -> None:
    stranger = await place.gateway.parts.auth.issue("stranger", ("chat",))
    async with rest_of(place) as rest, place.client() as device, place.client() as chat:
        await device.connected("cancel", role="device", label="lamp")
        session = (await chat.connected())["session_id"]
        assert [one["session_id"] for one in (await rest.get("/api/sessions")).json()["sessions"]] == [session]
        rest.headers["Authorization"] = f"Bearer {stranger}"
        assert (await rest.get("/api/sessions")).json()["sessions"] == []
        assert (await rest.get(f"/api/sessions/{session}")).status_code == 404


async def test_a_call_that_ends_with_the_gateway_says_so(place: Place) -> None:
    reached = asyncio.Event()

    @tool
    async def nap() -> None:
        """Sleep."""
        reached.set()
        await asyncio.Event().wait()

    place.gateway.parts.app.registry.register(nap, Origin("plugin", "test"))
    async with rest_of(place) as rest:
        calling = asyncio.create_task(rest.post("/api/tools/nap/call", json={"args": {}}))
        await asyncio.wait_for(reached.wait(), WAIT)
        assert place.gateway.work_left() == (0, 1)
        await place.gateway.drain(0)
        assert (await calling).status_code == 503
        (record,), _ = await place.gateway.parts.store.ledger.page(owner="operator")
        assert isinstance(record.result, Failure)
        assert (record.result.code, "the gateway was stopped" in record.result.message) == ("cancelled", True)


async def test_a_call_can_be_cancelled_and_one_that_is_over_stays_as_it_ended(place: Place) -> None:
    async with rest_of(place) as rest, place.client() as phone:
        await phone.connected("cancel", role="device", label="phone")
        await phone.offers(INFO)
        calling = asyncio.create_task(rest.post("/api/tools/phone__device_info/call", json={"args": {}}))
        call_id = (await phone.hears_of("tool_call_request"))["id"]
        assert (await rest.post("/api/calls/unknown/cancel")).status_code == 404
        for _ in range(2):
            assert (await rest.post(f"/api/calls/{call_id}/cancel")).json()["result"]["code"] == "cancelled"
        assert (await calling).json()["code"] == "cancelled"
        assert (await phone.hears()) == {"type": "tool_cancel", "id": call_id, "reason": "aborted"}


async def test_a_device_is_told_that_its_call_ends_because_the_gateway_stops(place: Place) -> None:
    async with rest_of(place) as rest, place.client() as phone:
        await phone.connected("cancel", role="device", label="phone")
        await phone.offers(INFO)
        calling = asyncio.create_task(rest.post("/api/tools/phone__device_info/call", json={"args": {}}))
        call_id = (await phone.hears_of("tool_call_request"))["id"]
        await place.gateway.drain(0)
        assert (await phone.hears()) == {"type": "tool_cancel", "id": call_id, "reason": "shutdown"}
        await asyncio.gather(calling, return_exceptions=True)


async def test_a_changed_definition_of_a_chats_tool_is_shown(place: Place) -> None:
    async with rest_of(place) as rest:

        async def definition() -> str:
            tools = (await rest.get("/api/tools?session=changing")).json()["tools"]
            return next(str(one["definition"]) for one in tools if one["name"] == "device_info")

        for changed, state in (({}, "agreed"), ({"description": "Sends everything home."}, "changed")):
            async with place.client("?session_id=changing") as chat:
                await chat.connected()
                await chat.offers({**INFO, **changed})
                assert await definition() == state
            await until(lambda: len(place.gateway.parts.peers) == 0)


async def test_a_second_socket_of_a_session_can_not_take_a_living_clients_tool(place: Place) -> None:
    async with place.client("?session_id=two") as first:
        await first.connected()
        await first.offers(INFO)
        async with place.client("?session_id=two") as second:
            await second.connected()
            answer = await second.offers(INFO)
            assert answer["registered"] == 0 and "Another connected client" in answer["rejected"][0]["reason"]
        await until(lambda: len(place.gateway.parts.peers) == 1)
        assert any(entry.spec.name == "device_info" for entry in place.gateway.parts.app.registry)


async def test_a_client_that_comes_back_has_its_tool_though_its_old_link_is_half_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.gateway.clients.transport.ANSWER_SECONDS", 0.1)
    async with place.client("?session_id=two") as first:
        await first.connected()
        await first.offers(INFO)
        first.socket.transport.pause_reading()  # it answers no ping any more
        async with place.client("?session_id=two") as second:
            await second.connected()
            await second.send("register_tools", tools=[INFO])
            await second.send("ping")  # what follows is done in its order
            assert (await second.hears()) == {"type": "tools_registered", "count": 1, "registered": 1}
            assert (await second.hears()) == {"type": "pong"}
            assert len(place.gateway.parts.peers) == 1
        first.drop()


async def test_a_client_that_leaves_while_its_tool_waits_for_another_ones_answer_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.gateway.clients.transport.ANSWER_SECONDS", 0.2)
    async with place.client("?session_id=two") as first:
        await first.connected()
        await first.offers(INFO)
        first.socket.transport.pause_reading()
        async with place.client("?session_id=two") as second:
            await second.connected()
            await second.send("register_tools", tools=[INFO])
            await second.send("ping")
            second.drop()
        await until(lambda: len(place.gateway.parts.peers) == 0)
        assert all(entry.spec.name != "device_info" for entry in place.gateway.parts.app.registry)
        first.drop()


# Devices.


async def a_call(place: Place, name: str, **arguments: Json) -> Any:
    box = place.gateway.parts.app.registry.toolbox(GENERAL, OPERATOR)
    tool_call = ToolCall(name, arguments, new_call_id())
    return await asyncio.wait_for(place.gateway.parts.app.engine.call(tool_call, Caller(OPERATOR, GENERAL, box)), WAIT)


async def test_a_devices_tools_are_for_every_session_of_its_owner(tmp_path: Path) -> None:
    async with (
        running(tmp_path, scripted([call("phone__device_info")], "A Pixel.")) as place,
        place.client() as phone,
        place.client() as laptop,
    ):
        assert (await phone.connected(role="device", label="Phone"))["label"] == "phone"
        await phone.offers(INFO)
        await laptop.connected()
        await laptop.send("message", content="which phone?")
        request = await phone.hears_of("tool_call_request")
        assert request["name"] == "device_info"
        await phone.send("tool_result", id=request["id"], output=PIXEL)
        assert (await laptop.hears_of("tool_result"))["output"] == PIXEL


async def test_the_tool_of_a_device_that_is_away_says_so_to_models_and_people(tmp_path: Path) -> None:
    model = scripted([call("phone__device_info")], "It is away.")
    async with running(tmp_path, model) as place, rest_of(place) as rest, place.client() as chat:
        async with place.client() as phone:
            await phone.connected("resume", role="device", label="phone")
            await phone.offers(INFO)
        await until(lambda: len(place.gateway.parts.peers) == 0)
        away = "the device 'phone' is not connected (last seen 20"
        why = (await rest.get("/api/tools/phone__device_info/why")).json()
        assert why["usable"] is False and away in f"t{why['reasons'][0]['text'][1:]}"
        called = (await rest.post("/api/tools/phone__device_info/call", json={"args": {}})).json()
        assert (called["code"], away in called["message"]) == ("tool_not_available", True)
        assert "`handspan device --label phone`" in called["message"]
        await chat.connected()
        await chat.send("message", content="which phone?")
        assert away in (await chat.hears_of("tool_result"))["output"]


async def test_the_tool_of_a_device_that_is_back_and_has_not_offered_it_yet_is_not_unknown(place: Place) -> None:
    async with rest_of(place) as rest:

        async def code() -> str:
            called = await rest.post("/api/tools/phone__device_info/call", json={"args": {}})
            return str(called.json()["code"])

        async with place.client() as phone:
            await phone.connected(role="device", label="phone")
            assert await code() == "tool_not_found"  # it never had one
            await phone.offers(INFO)
        await until(lambda: len(place.gateway.parts.peers) == 0)
        async with place.client() as phone:
            await phone.connected(role="device", label="phone")
            assert await code() == "tool_not_available"
            await phone.offers({**INFO, "name": "another"})
            assert await code() == "tool_not_found"


async def test_a_device_has_no_conversation(place: Place) -> None:
    async with place.client() as phone:
        await phone.connected(role="device", label="phone")
        await phone.send("message", content="hello")
        assert (await phone.hears())["code"] == "UNKNOWN_MESSAGE_TYPE"


async def test_a_token_for_devices_lets_in_devices_only(place: Place) -> None:
    token = await place.gateway.parts.auth.issue("operator", ("device",))
    async with place.client(token=token) as phone:
        assert (await phone.connected(role="device", label="phone"))["type"] == "connected"
    async with place.client(token=token) as phone:
        await phone.hears()
        await phone.send("message", content="hello")
        assert (await phone.hears())["code"] == "AUTH_ERROR"
        assert await phone.closed() == 1008


async def test_two_devices_of_one_label_are_told_apart(place: Place) -> None:
    async with place.client() as one, place.client() as two:
        assert (await one.connected(role="device", label="phone"))["label"] == "phone"
        assert (await two.connected(role="device", label="phone"))["label"] == "phone_2"


async def test_a_revoked_token_closes_its_connections_at_once(place: Place) -> None:
    token = await place.gateway.parts.auth.issue("operator", ("device", "chat"), "old phone")
    async with place.client(token=token) as phone, place.client(token=token) as silent:
        await phone.connected(role="device", label="phone")
        await silent.hears()
        [known] = [
            one for one in await place.gateway.parts.store.tokens.all(owner="operator") if one.label == "old phone"
        ]
        assert await place.gateway.parts.auth.revoke(known.hash, "operator")
        assert [await phone.closed(), await silent.closed()] == [1008, 1008]


# Coming back (ws.md 6).


async def test_a_call_survives_a_dropped_link(place: Place) -> None:
    async with place.client() as phone:
        token = (await phone.connected("resume", role="device", label="phone"))["resume_token"]
        await phone.offers(INFO)
        running_call = asyncio.create_task(a_call(place, "phone__device_info"))
        request = await phone.hears_of("tool_call_request")
        phone.drop()
    async with place.client() as phone:
        assert (await phone.connected("resume", role="device", label="phone", resume=token))["resumed"] is True
        again = await phone.hears()
        assert again == {**request, "again": True}
        await phone.send("tool_result", id=request["id"], output="back")
        assert (await running_call).value == "back"
        assert await phone.hears() == {"type": "result_acknowledged", "id": request["id"]}


async def test_after_the_grace_time_a_sent_call_has_an_unknown_outcome(tmp_path: Path) -> None:
    async with running(tmp_path, resume_grace=0.05) as place:
        async with place.client() as phone:
            await phone.connected("resume", role="device", label="phone")
            await phone.offers(INFO)
            running_call = asyncio.create_task(a_call(place, "phone__device_info"))
            await phone.hears_of("tool_call_request")
            phone.drop()
        assert (await running_call).code == "unknown_outcome"


async def test_a_newer_connection_of_the_same_client_takes_over(place: Place) -> None:
    async with place.client() as old:
        token = (await old.connected("resume", role="device", label="phone"))["resume_token"]
        async with place.client() as new:
            assert (await new.connected("resume", role="device", label="phone", resume=token))["label"] == "phone"
            assert await old.closed() == 4001
            await new.offers(INFO)
            running_call = asyncio.create_task(a_call(place, "phone__device_info"))
            await new.send("tool_result", id=(await new.hears_of("tool_call_request"))["id"], output="new")
            assert (await running_call).value == "new"


async def test_a_resume_token_is_worth_nothing_to_another_owner(place: Place) -> None:
    bob = await place.gateway.parts.auth.issue("bob", ("device",))
    async with place.client() as phone:
        token = (await phone.connected("resume", role="device", label="phone"))["resume_token"]
        async with place.client(token=bob) as thief:
            connected = await thief.connected("resume", role="device", label="phone", resume=token)
            assert connected["resumed"] is False
        await phone.offers(INFO)


async def test_a_resume_token_is_worth_nothing_with_another_access_token_of_its_owner(place: Place) -> None:
    own, other = [await place.gateway.parts.auth.issue("operator", ("device",)) for _ in range(2)]
    async with place.client(token=own) as phone:
        token = (await phone.connected("resume", role="device", label="phone"))["resume_token"]
        async with place.client(token=other) as thief:
            connected = await thief.connected("resume", role="device", label="phone", resume=token)
            assert connected["resumed"] is False and connected["label"] == "phone_2"
        await phone.offers(INFO)
    async with place.client(token=own) as phone:
        assert (await phone.connected("resume", role="device", label="phone", resume=token))["resumed"] is True


async def test_a_resume_token_is_worth_nothing_in_another_role(place: Place) -> None:
    async with place.client() as chat:
        token = (await chat.connected("resume"))["resume_token"]
        async with place.client() as device:
            connected = await device.connected("resume", role="device", label="phone", resume=token)
            assert connected["resumed"] is False
            assert len(place.gateway.parts.peers) == 2 and len({peer.id for peer in place.gateway.parts.peers}) == 2


async def test_a_call_survives_the_end_of_the_gateway(tmp_path: Path) -> None:
    """ws.md 6.7 i: the gateway dies in mid-call; the device answers the next one, and the turn goes on."""
    async with (
        running(tmp_path, scripted([call("phone__device_info")])) as place,
        place.client() as phone,
        place.client("?session_id=s") as chat,
    ):
        token = (await phone.connected("resume", role="device", label="phone"))["resume_token"]
        await phone.offers(INFO)
        await chat.connected("events", "resume")
        await chat.send("message", content="go")
        request = await phone.hears_of("tool_call_request")
        await place.gateway.parts.store.close()  # as if it were killed: nothing more is written
    async with running(tmp_path, scripted("It is a Pixel.")) as place, place.client() as phone:
        assert (await phone.connected("resume", role="device", label="phone", resume=token))["resumed"] is True
        await phone.offers(INFO)
        assert (await phone.hears_of("tool_call_request"))["id"] == request["id"]
        await phone.send("tool_result", id=request["id"], output=PIXEL)
        assert await phone.hears() == {"type": "result_acknowledged", "id": request["id"]}
        async with asyncio.timeout(WAIT):
            while (await place.gateway.parts.store.conversations.get("s", owner="operator")).state != "idle":
                await asyncio.sleep(0.01)
        said = await place.gateway.parts.store.conversations.load("s", owner="operator")
        assert getattr(said[-1], "text", "") == "It is a Pixel."


async def test_a_late_result_is_kept_as_a_note(place: Place) -> None:
    async with place.client() as phone:
        await phone.connected("resume", role="device", label="phone")
        await phone.offers({**INFO, "timeout": 0.05})
        failure = await a_call(place, "phone__device_info")
        assert failure.code == "timeout"
        assert failure.message == (
            "Tool 'phone__device_info' gave no answer within 0.05 s (the tool's own limit). "
            "The program that runs it can't be stopped from here, and may still be at work on it."
        )
        request = await phone.hears_of("tool_call_request")
        await phone.send("tool_result", id=request["id"], output="too late")
        assert (await phone.hears())["type"] == "result_acknowledged"
        ledger = place.gateway.parts.store.ledger
        async with asyncio.timeout(WAIT):
            while not (notes := await ledger.notes(request["id"], owner="operator")):
                await asyncio.sleep(0.01)
        assert "too late" in notes[0].text
        assert (await ledger.get(request["id"], owner="operator")).result.code == "timeout"  # type: ignore[union-attr] # it is one


async def test_a_turn_goes_on_while_its_client_is_away_and_events_are_told_again(tmp_path: Path) -> None:
    model = scripted([call("device_info")], "It is a Pixel.")
    async with running(tmp_path, model) as place:
        async with place.client("?session_id=s") as chat:
            token = (await chat.connected("resume", "events"))["resume_token"]
            await chat.offers(INFO)
            await chat.send("message", content="go")
            request = await chat.hears_of("tool_call_request")
            chat.drop()
        async with place.client("?session_id=s") as chat:
            assert (await chat.connected("resume", "events", resume=token, last_event=0))["resumed"] is True
            await chat.send("tool_result", id=request["id"], output=PIXEL)
            events: list[dict[str, Any]] = []
            while not events or events[-1]["event"]["type"] != "ended":
                frame = await chat.hears()
                events += [frame] if frame["type"] == "event" else []
    assert [frame["seq"] for frame in events] == list(range(1, len(events) + 1))
    assert events[-1]["event"] == {"type": "ended", "reason": "done", "text": "It is a Pixel."}
