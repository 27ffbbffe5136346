"""Sessions over REST, in the words that ClawSeed's clients read."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from handspan.agent.refusals import SessionRefused
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.records import SessionEdit
from handspan.core.tool import ToolSpec
from handspan.models.choice import Choice
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelError, ModelEvent, Projection, Replied, TextDelta
from handspan.models.scripted import call
from tests.gateway.rest.served import STRANGER, Counting, Rest, RestClient, is_error, session_of

pytestmark = pytest.mark.anyio

TALK = (
    UserMessage((Text("What time is it?"),)),
    AssistantMessage((CallPart("c1", "get_current_time", "{}"),), "calls", "m"),
    ResultsMessage((CallResult("c1", "get_current_time", '{"status":"success","result":1}'),)),
    AssistantMessage((Text("One."),), "end", "m"),
)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("GET", "/messages", None),
        ("GET", "/state", None),
        ("PUT", "", {"name": "mine"}),
        ("DELETE", "", None),
        ("POST", "/abort", None),
        ("POST", "/restore", None),
        ("POST", "/undo", None),
        ("POST", "/retry", None),
        ("GET", "/versions", None),
        ("GET", "/versions/1", None),
        ("POST", "/versions/1", None),
        ("GET", "/context", None),
        ("POST", "/compact", {}),
    ],
)
async def test_somebody_elses_session_is_one_that_never_was(
    client: RestClient, rest: Rest, method: str, path: str, body: Any
) -> None:
    theirs = await session_of(rest, STRANGER, TALK)
    answer = await client.ask(method, f"/api/sessions/{theirs}{path}", body)
    never = await client.ask(method, f"/api/sessions/{'0' * 24}{path}", body)
    assert is_error(answer, 404, "not_found") and is_error(never, 404, "not_found")
    assert answer.text.replace(theirs, "") == never.text.replace("0" * 24, "")
    assert (await client.stranger("GET", f"/api/sessions/{theirs}")).status_code == 200


async def test_a_session_is_listed_for_its_owner_alone(client: RestClient, rest: Rest) -> None:
    theirs, mine = await session_of(rest, STRANGER), await session_of(rest)
    listed = [one["session_id"] for one in (await client.get("/api/sessions")).json()["sessions"]]
    assert listed == [mine] and theirs not in listed


async def test_pages_hold_every_session_once(client: RestClient, rest: Rest) -> None:
    made = {await session_of(rest) for _ in range(7)}
    seen: list[str] = []
    after = ""
    for _ in range(4):
        page = (await client.get(f"/api/sessions?limit=2&after={after}")).json()
        seen += [one["session_id"] for one in page["sessions"]]
        after = page["next"]
        if after is None:
            break
    assert len(seen) == 7 and set(seen) == made
    assert after is None


async def test_a_session_has_the_fields_that_old_clients_read(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    shown = (await client.get("/api/sessions")).json()["sessions"][0]
    assert shown["session_id"] == session and shown["message_count"] == 4 and shown["persona"] == "General"
    assert datetime.fromisoformat(shown["created_at"]) <= datetime.fromisoformat(shown["last_activity"])
    assert "name" not in shown


async def test_messages_are_what_was_said(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    answer = (await client.get(f"/api/sessions/{session}/messages")).json()
    assert [(one["role"], one["content"]) for one in answer["messages"]] == [
        ("user", "What time is it?"),
        ("assistant", "One."),
    ]
    assert answer["session_id"] == session and answer["session_persistence"] is True
    record = (await client.get(f"/api/sessions/{session}")).json()
    times = [datetime.fromisoformat(one["at"]) for one in answer["messages"]]
    assert datetime.fromisoformat(record["created_at"]) <= times[0] <= times[1]
    assert times[1] == datetime.fromisoformat(record["last_activity"])


async def test_the_last_message_and_its_answer_can_be_removed(client: RestClient, rest: Rest) -> None:
    more = (UserMessage((Text("And now?"),)), AssistantMessage((Text("Two."),), "end", "m"))
    session = await session_of(rest, said=(*TALK, *more))
    for removed, left in ((2, 4), (4, 0)):
        undone = await client.post(f"/api/sessions/{session}/undo")
        assert (undone.status_code, undone.json()) == (200, {"session_id": session, "removed": removed})
        assert (await client.get(f"/api/sessions/{session}")).json()["message_count"] == left
    assert is_error(await client.post(f"/api/sessions/{session}/undo"), 409, "no_user_message")


async def test_an_undone_message_is_a_version_that_can_be_chosen(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    path = f"/api/sessions/{session}"
    assert (await client.get(f"{path}/versions")).json() == {"session_id": session, "versions": []}
    await client.post(f"{path}/undo")
    (left,) = (await client.get(f"{path}/versions")).json()["versions"]
    shown = {key: left[key] for key in ("branch", "fork", "seq", "length", "text", "is_current")}
    assert shown == {
        "branch": 1,
        "fork": 0,
        "seq": 1,
        "length": 4,
        "text": "What time is it?",
        "is_current": False,
    }
    assert datetime.fromisoformat(left["at"]) <= datetime.fromisoformat(left["left_at"])
    chosen = await client.post(f"{path}/versions/1")
    assert (chosen.status_code, chosen.json()) == (200, {"session_id": session, "branch": 1, "message_count": 4})
    assert (await client.get(f"{path}/messages")).json()["messages"][0]["content"] == "What time is it?"


async def test_an_answer_that_was_made_again_can_be_chosen_again(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    path = f"/api/sessions/{session}"
    retried = (await client.post(f"{path}/retry")).json()["text"]
    first, second = (await client.get(f"{path}/versions")).json()["versions"]
    assert (first["fork"], second["fork"], first["seq"]) == (1, 1, 2)
    assert (first["is_current"], second["is_current"]) == (False, True)
    await client.post(f"{path}/versions/{first['branch']}")
    assert (await client.get(f"{path}/messages")).json()["messages"][-1]["content"] == "One."
    again = (await client.post(f"{path}/retry")).json()["text"]  # the conversation in memory has changed, too
    assert again == retried
    branches = [one["branch"] for one in (await client.get(f"{path}/versions")).json()["versions"]]
    assert len(branches) == 3


async def test_a_version_that_was_left_is_read_and_searched_when_asked(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    said = (await client.get(f"/api/sessions/{session}/messages?full=true")).json()
    await client.post(f"/api/sessions/{session}/undo")
    left = (await client.get(f"/api/sessions/{session}/versions/1")).json()
    assert [(one["seq"], one["role"]) for one in left["messages"]] == [
        (1, "user"),
        (2, "assistant"),
        (3, "tool"),
        (4, "assistant"),
    ]
    assert [one["at"] for one in left["messages"]] == [one["at"] for one in said["messages"]]
    assert (await client.get("/api/sessions/search?query=what%20time")).json()["found"] == []
    (found,) = (await client.get("/api/sessions/search?query=what%20time&left=true")).json()["found"]
    assert (found["branch"], found["seq"], found["excerpt"]) == (1, 1, "What time is it?")
    assert found["marked"] == [
        {"text": "What", "found": True},
        {"text": " "},
        {"text": "time", "found": True},
        {"text": " is it?"},
    ]


@pytest.mark.parametrize("branch", ["2", "99999", "99999999999999999999999", "x", "-1"])
async def test_a_version_that_is_not_there_is_refused(client: RestClient, rest: Rest, branch: str) -> None:
    session = await session_of(rest, said=TALK)
    await client.post(f"/api/sessions/{session}/undo")
    path = f"/api/sessions/{session}/versions/{branch}"
    assert is_error(await client.post(path), 404, "not_found")
    assert is_error(await client.get(path), 404, "not_found")


async def test_full_messages_show_calls_and_results(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    answer = (await client.get(f"/api/sessions/{session}/messages?full=true&after=1")).json()["messages"]
    assert [one["seq"] for one in answer] == [2, 3, 4]
    assert answer[0]["calls"] == [{"id": "c1", "name": "get_current_time", "arguments": "{}"}]
    assert (answer[1]["role"], answer[1]["call_id"], answer[1]["name"]) == ("tool", "c1", "get_current_time")


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "  \n"}, {"name": 5}, {"name": None}])
async def test_a_session_needs_a_name_to_be_renamed(client: RestClient, rest: Rest, body: Any) -> None:
    session = await session_of(rest)
    answer = await client.ask("PUT", f"/api/sessions/{session}", body)
    assert is_error(answer, 400, "name_required")
    assert answer.json()["error"] == "name is required"


async def test_a_session_is_made_renamed_and_deleted(client: RestClient) -> None:
    made = await client.post("/api/sessions", {"name": "first"})
    session = made.json()["session_id"]
    assert made.status_code == 201 and made.json()["name"] == "first"
    renamed = await client.ask("PUT", f"/api/sessions/{session}", {"name": "second", "unknown": 1})
    flags = {"kind": "chat", "pinned": False, "archived": False, "model": ""}
    assert renamed.json() == {"session_id": session, "name": "second", **flags}
    assert (await client.get(f"/api/sessions/{session}")).json()["name"] == "second"
    gone = await client.ask("DELETE", f"/api/sessions/{session}")
    assert gone.json() == {"deleted": True, "session_id": session}
    assert is_error(await client.ask("DELETE", f"/api/sessions/{session}"), 404, "not_found")


async def names(client: RestClient, query: str = "") -> list[str]:
    return [one.get("name", "") for one in (await client.get(f"/api/sessions{query}")).json()["sessions"]]


async def test_flags_are_set_shown_and_filter_the_list(client: RestClient) -> None:
    made = {}
    for name, kind in (("a", "chat"), ("b", "chat"), ("c", "one_shot"), ("d", "run")):
        made[name] = (await client.post("/api/sessions", {"name": name, "kind": kind})).json()["session_id"]
    path = f"/api/sessions/{made['a']}"
    before = (await client.get(path)).json()
    changed = await client.ask("PUT", path, {"pinned": True, "archived": True})
    assert changed.json() == {
        "session_id": made["a"],
        "name": "a",
        "kind": "chat",
        "pinned": True,
        "archived": True,
        "model": "",
    }
    assert (await client.get(path)).json() == {**before, "pinned": True, "archived": True}
    await client.ask("PUT", f"/api/sessions/{made['c']}", {"kind": "chat"})
    assert await names(client) == ["d", "c", "b", "a"]
    assert await names(client, "?kind=chat&archived=false") == ["c", "b"]
    assert await names(client, "?pinned=true") == ["a"]
    assert await names(client, "?pinned=false&kind=chat") == ["c", "b"]
    assert await names(client, "?kind=run,one_shot") == ["d"]
    for wrong in ("?kind=cat", "?kind=chat,", "?pinned=perhaps", "?archived="):
        assert is_error(await client.get(f"/api/sessions{wrong}"), 422, "invalid_request")


@pytest.mark.parametrize(
    "body", [{"pinned": 1}, {"archived": "yes"}, {"kind": "cat"}, {"model": 5}, {"name": "x", "kind": None}]
)
async def test_a_wrong_flag_is_refused_with_its_name(client: RestClient, rest: Rest, body: Any) -> None:
    session = await session_of(rest)
    answer = await client.ask("PUT", f"/api/sessions/{session}", body)
    assert is_error(answer, 422, "invalid_request")
    assert next(field for field in body if field != "name") in answer.json()["error"]


async def test_a_session_that_was_deleted_with_undo_comes_back(client: RestClient, rest: Rest) -> None:
    session, path = await session_of(rest, said=TALK), "/api/sessions"
    updates = rest.parts.live.subscribe(OPERATOR.owner)
    ref = await client.post(f"/api/artifacts?session={session}", content=b"x")
    deleted = (await client.ask("DELETE", f"{path}/{session}?undo=true")).json()
    assert deleted["deleted"] is True and datetime.fromisoformat(deleted["until"]) > datetime.now(UTC)
    for hidden in ("", "/messages", "/state", "/versions", "/skills"):
        assert is_error(await client.get(f"{path}/{session}{hidden}"), 404, "not_found")
    assert is_error(await client.ask("DELETE", f"{path}/{session}?undo=true"), 404, "not_found")
    assert is_error(await client.ask("PUT", f"{path}/{session}", {"pinned": True}), 404, "not_found")
    assert await names(client) == [] and (await client.get("/api/artifacts")).json()["artifacts"] == []
    assert (await client.get("/api/sessions/search?query=time")).json()["found"] == []
    assert is_error(await client.stranger("POST", f"{path}/{session}/restore"), 404, "not_found")
    restored = await client.post(f"{path}/{session}/restore")
    assert restored.json() == (await client.get(f"{path}/{session}")).json()
    assert len((await client.get(f"{path}/{session}/messages")).json()["messages"]) == 2
    assert [one["id"] for one in (await client.get("/api/artifacts")).json()["artifacts"]] == [ref.json()["id"]]
    assert is_error(await client.post(f"{path}/{session}/restore"), 404, "not_found")
    changes = [(await updates.next()) for _ in range(2)]
    assert [one.data for one in changes if one is not None] == [
        {"session_id": session, "change": "deleted"},
        {"session_id": session, "change": "restored"},
    ]


async def test_nobody_writes_to_a_session_that_was_deleted(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    await client.ask("DELETE", f"/api/sessions/{session}?undo=true")
    with pytest.raises(SessionRefused, match="restore it first"):
        await rest.sessions.bind(session, OPERATOR)
    handle = rest.sessions.get(session, OPERATOR.owner).say(OPERATOR, UserMessage((Text("more"),)), lambda *_: None)
    with pytest.raises(SessionRefused, match="restore it first"):
        await handle.wait_for_end()
    restored = (await client.post(f"/api/sessions/{session}/restore")).json()
    assert restored["message_count"] == len(TALK)


async def test_a_session_without_a_message_has_flags_too(client: RestClient, rest: Rest) -> None:
    bound = await rest.sessions.bind("new", OPERATOR, kind="one_shot")
    release = rest.sessions.announce(bound, OPERATOR.owner)
    await client.ask("PUT", "/api/sessions/new", {"pinned": True, "model": "offline", "name": "Soon"})
    assert await names(client, "?pinned=true&kind=one_shot") == ["Soon"]
    assert await names(client, "?pinned=false") == []
    assert (await client.get("/api/models/which?session=new")).json()["model"] == "offline"
    said = UserMessage((Text("hi"),))
    await rest.sessions.get("new", OPERATOR.owner).say(OPERATOR, said, lambda *_: None).wait_for_end()
    release()
    stored = (await client.get("/api/sessions/new")).json()
    assert (stored["pinned"], stored["kind"], stored["model"], stored["name"]) == (True, "one_shot", "offline", "Soon")
    assert (await client.get("/api/sessions/new/messages")).json()["messages"][-1]["model"] == "offline"


async def test_the_model_of_one_chat_answers_from_its_next_turn_on(client: RestClient, rest: Rest) -> None:
    session = (await client.post("/api/sessions", {})).json()["session_id"]
    path, hook = f"/api/sessions/{session}", {"headers": {"x-session-id": session}}
    models = []
    for choice in (None, "offline", ""):
        if choice is not None:
            changed = await client.ask("PUT", path, {"model": choice})
            assert changed.json()["model"] == choice
        which = (await client.get(f"/api/models/which?session={session}")).json()
        answer = (await client.post("/webhook", {"message": "hello"}, **hook)).json()
        models.append((which["model"], answer["model"]))
        if choice:
            assert "this chat was given it" in which["why"]
    assert models == [("scripted", "scripted"), ("offline", "offline"), ("scripted", "scripted")]
    listed = (await client.get(f"{path}/messages")).json()["messages"]
    assert [one["model"] for one in listed if one["role"] == "assistant"] == ["scripted", "offline", "scripted"]
    assert (await client.get("/api/models")).json()["chosen"] == "", "the choice is this chat's alone"


async def test_each_reply_names_its_agent_when_a_chat_goes_on_with_another_one(client: RestClient, rest: Rest) -> None:
    await client.post("/api/agents", {"name": "Careful"})
    session = await session_of(rest, said=TALK)
    hook = {"headers": {"x-session-id": session}}
    for agent in ("General", "Careful", "Careful", "General"):
        assert (await client.post("/webhook", {"message": "hello", "persona": agent}, **hook)).status_code == 200
    listed = (await client.get(f"/api/sessions/{session}/messages")).json()["messages"]
    replies = [one["agent"] for one in listed if one["role"] == "assistant"]
    assert replies == ["General", "General", "Careful", "Careful", "General"]


async def test_a_model_that_can_not_be_used_is_refused(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    assert is_error(await client.ask("PUT", f"/api/sessions/{session}", {"model": "nope"}), 404, "not_found")
    assert is_error(await client.post("/api/sessions", {"model": "nope"}), 404, "not_found")
    store = rest.app.store
    assert store is not None
    await store.conversations.edit(session, SessionEdit(model="gone"), owner=OPERATOR.owner)
    hook = {"headers": {"x-session-id": session}}
    answer = await client.post("/webhook", {"message": "hello"}, **hook)
    assert answer.status_code == 500 and "This session was given that model alone" in answer.json()["error"]
    assert (await client.ask("PUT", f"/api/sessions/{session}", {"model": ""})).status_code == 200
    assert (await client.post("/webhook", {"message": "hello"}, **hook)).status_code == 200


async def test_a_message_by_webhook_that_names_no_session_is_a_single_question(client: RestClient) -> None:
    one = (await client.post("/webhook", {"message": "hello"})).json()["session_id"]
    two = await client.post("/webhook", {"message": "hello"}, headers={"x-session-id": "mine"})
    assert two.json()["session_id"] == "mine"
    kinds = {one["session_id"]: one["kind"] for one in (await client.get("/api/sessions")).json()["sessions"]}
    assert kinds == {one: "one_shot", "mine": "chat"}


async def test_a_search_takes_any_words_and_says_where_they_are(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=TALK)
    await client.ask("PUT", f"/api/sessions/{session}", {"name": "Clocks of Europe"})
    found = await client.get("/api/sessions/search?query=TIM%20what")
    assert found.json()["unindexed"] == 0
    (place,) = found.json()["found"]
    assert (place["seq"], place["excerpt"], place["session"]["session_id"]) == (1, "What time is it?", session)
    (name,) = (await client.get("/api/sessions/search?query=europe")).json()["found"]
    assert (name["seq"], name["excerpt"], name["marked"][-1]) == (0, "", {"text": "Europe", "found": True})
    for query in ('"', "time%20AND", "%00", "%F0%9F%8D%95", "x" * 7000, "'%3B--", "", "%20"):
        answer = await client.get(f"/api/sessions/search?query={query}")
        assert answer.status_code == 200, answer.text
    assert (await client.get("/api/sessions/search?query=time&kind=run")).json()["found"] == []
    assert (await client.get("/api/sessions/search?query=1&results=true")).json()["found"][0]["in_result"] is True
    assert is_error(await client.get("/api/sessions/search"), 422, "invalid_request")


async def test_a_session_with_an_agent_that_is_not_there_is_not_made(client: RestClient) -> None:
    assert is_error(await client.post("/api/sessions", {"persona": "Nobody"}), 404, "not_found")
    assert (await client.get("/api/sessions")).json()["sessions"] == []


async def test_a_turn_whose_end_was_told_is_not_called_running(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.script = [ModelError("auth", "The key is wrong.")]
    told, may_store = asyncio.Event(), asyncio.Event()
    conversations = rest.gateway.parts.store.conversations
    end_turn = type(conversations).end_turn

    async def end_turn_late(self: Any, *args: Any, **kwargs: Any) -> None:
        told.set()  # the loop publishes the end before it is stored
        await may_store.wait()
        await end_turn(self, *args, **kwargs)

    monkeypatch.setattr(type(conversations), "end_turn", end_turn_late)
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await told.wait()
        asked = [
            asyncio.create_task(client.get(f"/api/sessions/mine{path}")) for path in ("/state", "", "/messages?full=1")
        ]
        await asyncio.wait(asked, timeout=0.5)  # an answer before the store has the end would be untrue
        may_store.set()
        state, session, messages = [(await one).json() for one in asked]
        await turn
    assert state == {"session_id": "mine", "state": "idle"}
    assert session["state"] == "idle" and session["ended"]["reason"] == "error"
    assert [end["reason"] for end in messages["ends"]] == ["error"]


async def test_a_running_session_is_shown_can_be_stopped_and_not_be_deleted(client: RestClient, rest: Rest) -> None:
    tool = Counting(rest)
    tool.may_end.clear()
    rest.script = [call("counting"), "Done."]
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await tool.began.wait()
    running = (await client.get("/api/sessions/running")).json()["sessions"]
    assert [one["session_id"] for one in running] == ["mine"]
    state = (await client.get("/api/sessions/mine/state")).json()
    assert state["state"] == "running" and state["turn_id"] == running[0]["turn_id"]
    assert datetime.fromisoformat(state["turn_started_at"]) <= datetime.now(UTC)
    assert is_error(await client.ask("DELETE", "/api/sessions/mine"), 409, "busy")
    assert (await client.stranger("GET", "/api/sessions/running")).json()["sessions"] == []
    assert is_error(await client.stranger("POST", "/api/sessions/mine/abort"), 404, "not_found")
    assert (await client.post("/api/sessions/mine/abort")).json() == {"status": "aborted"}
    async with asyncio.timeout(60):
        assert is_error(await turn, 409, "aborted")
    assert (await client.post("/api/sessions/mine/abort")).json() == {"status": "no_active_response"}
    assert (await client.get("/api/sessions/mine/state")).json() == {"session_id": "mine", "state": "idle"}
    assert (await client.get("/api/sessions/running")).json()["sessions"] == []


def hold_choice_of_model(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Let each turn wait before it has a model. Set: the first when a turn waits; the second by the test, to go on."""
    opening = rest.sessions._opening
    asked, may_answer, choose = asyncio.Event(), asyncio.Event(), opening._choose_model

    async def slowly(name: str, then: tuple[str, ...] | None = None, /) -> Choice:
        asked.set()
        await may_answer.wait()
        return await choose(name, then)

    monkeypatch.setattr(opening, "_choose_model", slowly)
    return asked, may_answer


async def test_a_session_whose_first_turn_begins_is_not_deleted(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = hold_choice_of_model(rest, monkeypatch)
    bound = await rest.sessions.bind("mine", OPERATOR)
    rest.sessions.announce(bound, OPERATOR.owner)
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await asked.wait()
        refused = await client.ask("DELETE", "/api/sessions/mine")
        may_answer.set()
        assert (await turn).status_code == 200
    assert is_error(refused, 409, "busy")
    assert (await client.ask("DELETE", "/api/sessions/mine")).json() == {"deleted": True, "session_id": "mine"}


async def test_a_session_that_is_not_kept_yet_disturbs_no_list(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_answer = hold_choice_of_model(rest, monkeypatch)
    turn = asyncio.create_task(client.post("/webhook", {"message": "go"}, headers={"x-session-id": "mine"}))
    async with asyncio.timeout(60):
        await asked.wait()
        answer = await client.get("/api/sessions/running")
        may_answer.set()
        assert (await turn).status_code == 200
    assert (answer.status_code, answer.json()) == (200, {"sessions": []})


async def test_a_look_at_the_skills_of_a_session_as_another_agent_changes_nothing(
    client: RestClient, rest: Rest
) -> None:
    await client.post("/api/agents", {"name": "Reader", "tools": ["read_file"]})
    session = await session_of(rest)
    before = (await client.get(f"/api/sessions/{session}")).json()
    seen = (await client.get(f"/api/sessions/{session}/skills?agent=Reader")).json()
    assert [tool["name"] for tool in seen["tools"]] == ["read_file"]
    assert (await client.get(f"/api/sessions/{session}")).json() == before
    own = (await client.get(f"/api/sessions/{session}/skills")).json()
    assert len(own["tools"]) > 1


class FailingModel:
    """A model that says some words and fails, until it is mended."""

    name = "moody"

    def __init__(self) -> None:
        self.is_mended = False

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        yield TextDelta("Once")
        if not self.is_mended:
            raise ModelError("cut", "The answer broke off. Try again.")
        yield Replied(AssistantMessage((Text("Once upon a time"),), "end", "moody"))


async def test_a_session_shows_how_its_turns_ended_and_retry_answers_again(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FailingModel()

    async def choose(_: str, then: tuple[str, ...] | None = None) -> Choice:
        return Choice(model, "for a test")

    monkeypatch.setattr(rest.sessions._opening, "_choose_model", choose)
    failed = await client.post("/webhook", {"message": "Tell me a story"}, headers={"x-session-id": "s"})
    assert failed.status_code == 500
    shown = (await client.get("/api/sessions/s")).json()
    ended = shown["ended"]
    assert shown["name"] == "Tell me a story"
    assert datetime.fromisoformat(ended["at"]).year >= 2026
    assert {**ended, "at": ""} == {
        "after": 2,
        "reason": "error",
        "at": "",
        "model": "moody",
        "text": "The answer broke off. Try again.",
        "fault": {"of": "model", "code": "cut"},
    }
    answer = (await client.get("/api/sessions/s/messages")).json()
    assert [one["content"] for one in answer["messages"]] == ["Tell me a story", "Once"] and answer["ends"] == [ended]
    assert (await client.get("/api/sessions/s/messages?after=2")).json()["ends"] == [ended]
    assert "ended" not in (await client.get("/api/sessions")).json()["sessions"][0]

    again = (await client.post("/api/sessions/s/retry")).json()
    assert (again["reason"], again["fault"]["code"]) == ("error", "cut")
    model.is_mended = True
    retried = await client.post("/api/sessions/s/retry")
    assert (retried.status_code, retried.json()) == (
        200,
        {"session_id": "s", "reason": "done", "text": "Once upon a time"},
    )
    answer = (await client.get("/api/sessions/s/messages")).json()
    assert [one["content"] for one in answer["messages"]] == ["Tell me a story", "Once upon a time"]
    assert answer["ends"] == [] and "ended" not in (await client.get("/api/sessions/s")).json()


async def test_a_session_without_a_message_has_nothing_to_retry(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest)
    assert is_error(await client.post(f"/api/sessions/{session}/retry"), 409, "no_user_message")
    assert is_error(await client.post("/api/sessions/nowhere/retry"), 404, "not_found")
