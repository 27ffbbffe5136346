"""The messages of a thread over HTTP: read in parts, put there, taken away with their other halves (graph.md 8.3)."""

import base64
import json
import time
from typing import Any

import pytest

from tests.gateway.graph.pages import ECHO, Graph, Page, result, tool

pytestmark = pytest.mark.anyio


def text(role: str, words: str) -> dict[str, Any]:
    """As the unmodified client sends it: with an id that is null, and a time in milliseconds."""
    content = [{"type": "text", "text": words}]
    return {"role": role, "message_id": None, "content": content, "timestamp": time.time() * 1000}


async def shown(page: Page, query: str = "", thread: str = "t") -> list[dict[str, Any]]:
    return (await page.ask("GET", f"/v1/threads/{thread}/messages{query}")).messages


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["message_id"] for message in messages]


def words(messages: list[dict[str, Any]]) -> list[str]:
    return [block.get("text", block["type"]) for message in messages for block in message["content"]]


async def add(page: Page, *messages: dict[str, Any]) -> Any:
    return await page.ask("POST", "/v1/threads/t/messages", {"messages": list(messages), "config": {}, "metadata": {}})


async def delete(page: Page, message_id: str) -> Any:
    return await page.ask("DELETE", f"/v1/threads/t/messages/{message_id}", {"config": {}})


# What is refused.


@pytest.mark.parametrize(
    "message_id",
    ["nope", "t:0", "t:9", "t:-1", "t:1.0", "t:3", "t:3.1", "t:٣", "u:1", "t:1:1", ":1", "t:", "t:999999999999999999"],
)
async def test_a_message_that_is_not_there_is_404_and_nothing_is_removed(page: Page, message_id: str) -> None:
    await page.say("call get_current_time", "t")
    for method in ("GET", "DELETE"):
        refused = await page.ask(method, f"/v1/threads/t/messages/{message_id}")
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND"), method
    assert len(await shown(page)) == 4


async def test_what_cant_be_put_there_is_refused_by_its_place(page: Page) -> None:
    await page.say("hello", "t")
    for messages, place in (
        ([], ["body", "messages"]),
        ([{"role": "system", "content": [{"type": "text", "text": "obey"}]}], ["body", "messages", "0", "role"]),
        ([{"role": "tool", "content": []}], ["body", "messages", "0", "role"]),
        ([{"role": "user", "content": "plain"}], ["body", "messages", "0", "content"]),
        ([{"role": "user", "content": []}], ["body", "messages", "0", "content"]),
        ([text("assistant", "I go on")], ["body", "messages"]),
        ([text("user", "a"), text("assistant", "b"), text("assistant", "c")], ["body", "messages"]),
    ):
        refused = await page.ask("POST", "/v1/threads/t/messages", {"messages": messages})
        assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR"), messages
        assert refused.error["details"][0]["loc"] == place
    assert words(await shown(page)) == ["hello", "hello"]


async def test_somebody_elses_file_cant_be_put_there(there: Graph, page: Page) -> None:
    await page.say("hello", "t")
    stranger = await there.another("somebody else")
    files = {"file": ("a.txt", b"secret", "text/plain")}
    sent = await stranger.http.post("/v1/files/upload", files=files)
    media = {"kind": "file_id", "file_id": sent.json()["data"]["file_id"]}
    refused = await add(page, {"role": "user", "content": [{"type": "document", "media": media}]})
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    assert len(await shown(page)) == 2


async def test_a_suspended_run_is_in_the_way_of_what_would_break_it(page: Page) -> None:
    await page.set_up(ECHO)
    await page.say("before", "t")
    call = (await page.say("call echo\nthen\nend", "t")).calls[0]["id"]
    for refused in (await add(page, text("user", "more")), await delete(page, "t:3"), await delete(page, "t:4")):
        assert (refused.status, refused.error["code"]) == (409, "GRAPH_BUSY")
        assert "/v1/graph/stop" in refused.error["message"]
    assert (await delete(page, "t:2")).status == 200
    assert (await page.answer(result(call, 1))).words == "end"
    assert words(await shown(page))[:2] == ["before", "call echo\nthen\nend"]


# Reading.


async def test_messages_are_shown_as_their_requests_showed_them(page: Page) -> None:
    began = time.time()
    await page.set_up(ECHO)
    first = await page.say('Look\ncall echo {"x": 1}\ncall get_current_time\nthen\nend', "t")
    last = await page.answer(result(first.calls[0]["id"], {"got": 1}), thread="t")
    messages = await shown(page)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    for message in messages:
        assert began - 1 <= message["timestamp"] <= time.time()
        assert message["delta"] is False
        assert (await page.ask("GET", f"/v1/threads/t/messages/{message['message_id']}")).data == message
    known = {message["message_id"]: message for message in (*first.messages, *last.messages)}
    for message in messages:
        there = known[message["message_id"]]
        if there["content"][0]["type"] != "remote_tool_call":
            assert {**there, "timestamp": 0} == {**message, "timestamp": 0}
    answered = messages[2]
    assert answered["content"][0]["output"] == {"got": 1}
    assert answered["metadata"]["function_name"] == "echo"


async def test_tools_have_the_names_that_their_client_gave_them(there: Graph, page: Page) -> None:
    await page.say("call tools__get_current_time\nthen\nend", "t", tools=[tool("get_current_time")])
    (message,) = [message for message in await shown(page) if message["role"] == "assistant"]
    assert message["content"][0]["name"] == "get_current_time"
    other = await there.another()
    assert (await shown(other))[1]["tools_calls"][0]["function"]["name"] == "get_current_time"


async def test_messages_are_read_in_parts(page: Page) -> None:
    for number in range(3):
        await page.say(f"number {number}\ncall get_current_time\ncall get_current_time\nthen\nend", "t")
    whole = await shown(page)
    assert len(whole) == 15
    for offset, limit in ((0, 4), (3, 1), (2, 5), (7, 100), (14, 3), (15, 1)):
        assert await shown(page, f"?offset={offset}&limit={limit}") == whole[offset : offset + limit]


async def test_messages_are_searched_in_what_was_said_and_answered(page: Page) -> None:
    await page.set_up(ECHO)
    first = await page.say('ÄPFEL\ncall echo {"fruit": "melon"}\nthen\nbye', "t")
    await page.answer(result(first.calls[0]["id"], {"colour": "Grün"}), thread="t")
    whole = await shown(page)
    for search, places in (("äpfel", [0, 1]), ("MELON", [0, 1]), ("gr%C3%BCn", [2]), ("bye", [0, 3]), ("nothing", [])):
        assert await shown(page, f"?search={search}") == [whole[place] for place in places], search
    assert await shown(page, "?search=bye&offset=1&limit=1") == [whole[3]]


async def test_a_thread_can_be_long(page: Page) -> None:
    await page.say("begin", "t")
    many = [text("user", f"number {number}") for number in range(1500)]
    assert (await add(page, *many)).status == 200
    assert len(await shown(page)) == 100
    assert words(await shown(page, "?offset=1499&limit=1000")) == [f"number {number}" for number in range(1497, 1500)]


# Putting.


async def test_what_is_put_there_is_part_of_the_conversation_and_asks_nobody(page: Page) -> None:
    await page.say("hello", "t")
    picture = {"kind": "data", "data_base64": base64.b64encode(b"png").decode(), "mime_type": "image/png"}
    reply = {"role": "assistant", "content": [{"type": "reasoning", "summary": "hm"}, {"type": "text", "text": "手"}]}
    seen = {"role": "user", "content": [{"type": "text", "text": "look 😀"}, {"type": "image", "media": picture}]}
    done = await add(page, seen, reply, text("user", "call get_current_time\nthen\nIt is {results}"))
    assert done.data == {"success": True, "message": "Messages put successfully", "data": True}
    messages = await shown(page)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[2]["content"][1]["media"] == picture
    assert await shown(page, "?search=LOOK") == messages[2:3]
    assert messages[3]["reasoning"] == "hm"
    assert (await page.say("on", "t")).words == "on"
    assert len({message["message_id"] for message in await shown(page)}) == 7


# Taking away.


async def test_a_call_takes_its_results_along_and_a_result_its_call(page: Page) -> None:
    for taken in ("t:2", "t:3.0", "t:3.1"):
        await page.say("call get_current_time\ncall get_current_time\nthen\nend", "t")
        assert len(await shown(page)) == 5
        done = (await delete(page, taken)).data
        assert done == {"success": True, "message": "Message deleted successfully", "data": True}
        assert [message["role"] for message in await shown(page)] == ["user", "assistant"]
        assert (await page.ask("DELETE", "/v1/threads/t")).status == 200


async def test_what_was_taken_away_is_told_to_no_model_any_more(page: Page) -> None:
    await page.say("the secret is 42", "t")
    await page.say("kept", "t")
    assert (await delete(page, "t:1")).status == 200  # its answer goes too: it would stand at the beginning
    assert words(await shown(page)) == ["kept", "kept"]
    answer = await page.say("and now?", "t", response_granularity="full")
    assert words(answer.data["context"]) == ["kept", "kept", "and now?", "and now?"]
    assert ids(await shown(page)) == ids(answer.data["context"]) == ["t:3", "t:4", "t:5", "t:6"]
    assert "secret" not in json.dumps(await shown(page))


async def test_an_id_stays_with_its_message_and_is_never_anothers(page: Page) -> None:
    for number in range(3):
        await page.say(f"number {number}", "t")
    assert (await delete(page, "t:1")).status == 200
    for gone in ("t:1", "t:2"):
        assert (await page.ask("GET", f"/v1/threads/t/messages/{gone}")).status == 404
        assert (await delete(page, gone)).status == 404
    assert (await page.ask("GET", "/v1/threads/t/messages/t:5")).data["content"][0]["text"] == "number 2"
    assert (await delete(page, "t:6")).status == 200  # the last one: its id is not given to the next one
    said = await page.say("more", "t")
    assert ids(said.messages) == ["t:7", "t:8"]
    streamed = await page.stream([text("user", "and more")], config={"thread_id": "t"})
    assert {chunk["message"]["message_id"] for chunk in streamed.chunks} == {"t:9", "t:10"}
    assert ids(await shown(page)) == ["t:3", "t:4", "t:5", "t:7", "t:8", "t:9", "t:10"]


async def test_a_run_that_goes_on_calls_its_messages_what_the_thread_calls_them(page: Page) -> None:
    await page.set_up(ECHO)
    first = await page.say("call get_current_time\nthen\ncall echo\nthen\nend", "t")
    assert (await delete(page, "t:3.0")).status == 200  # the first round, while the run waits in its second
    last = await page.answer(result(first.calls[0]["id"], 1))
    assert ids(await shown(page)) == ["t:1", "t:4", "t:5.0", "t:6"]
    assert first.messages[-1]["message_id"] == "t:5.0"
    assert ids(last.messages) == ["t:1", "t:6", "t:7.0"]  # this model counts rounds: it asks once more


async def test_a_name_made_of_what_was_taken_away_goes_with_it(there: Graph, page: Page) -> None:
    async def name(thread: str = "t") -> str | None:
        found = (await page.ask("GET", f"/v1/threads/{thread}")).data["thread_data"]["thread"]["thread_name"]
        return None if found is None else str(found)

    await page.say("the secret is 42", "t")
    await page.say("something else", "t")
    assert (await delete(page, "t:3")).status == 200
    assert await name() == "the secret is 42"
    assert (await delete(page, "t:1")).status == 200
    assert await name() is None
    await page.say("new words", "t")
    assert await name() == "new words"
    assert (await page.ask("DELETE", "/v1/threads/t/state")).status == 200
    assert await name() is None
    await page.say("and again", "t")
    await there.gateway.gateway.parts.store.conversations.rename("t", "Chosen", owner="operator")
    assert (await page.ask("DELETE", "/v1/threads/t/state")).status == 200
    assert await name() == "Chosen"


async def test_without_a_body_it_is_done_too(page: Page) -> None:
    await page.say("hello", "t")
    assert (await page.ask("DELETE", "/v1/threads/t/messages/t%3A2")).status == 200
    assert words(await shown(page)) == ["hello"]
