"""Sessions and messages: appended in order, paired, for their owner alone, and gone when deleted."""

import asyncio
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from handspan.core.errors import NotYours, StoreError, ToolError
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    Native,
    RepliesInARow,
    ResultsMessage,
    Text,
    Thinking,
    UnpairedCalls,
    Usage,
    UserMessage,
    check_next,
)
from handspan.core.records import SessionRecord
from handspan.core.results import Attachment, succeed
from handspan.core.store import Store
from handspan.core.values import encode
from tests.store.things import Clock, answers, asks, call, count, finished, load, question, says, started, user
from tests.stores import commits_of, is_sound, open_store
from tests.thoroughness import examples
from tests.waiting import soon

pytestmark = pytest.mark.anyio


# What is refused.


async def test_another_owner_can_do_nothing_with_a_session(store: Store, session: SessionRecord) -> None:
    talk = store.conversations
    words = set()
    for session_id, owner in ((session.id, "bob"), ("never", "ann"), ("\ud800", "ann")):
        for attempt in (
            talk.get(session_id, owner=owner),
            talk.load(session_id, owner=owner),
            talk.append(session_id, user(), owner=owner),
            talk.begin_turn(session_id, owner=owner),
            talk.end_turn(session_id, owner=owner),
            talk.rename(session_id, "mine", owner=owner),
            talk.choose_agent(session_id, "Mine", owner=owner),
            talk.choose_skills(session_id, ["mine"], owner=owner),
            talk.delete(session_id, owner=owner),
        ):
            with pytest.raises(ToolError) as refused:
                await soon(attempt)
            assert refused.value.code == "file_not_found"
            words.add(str(refused.value).replace(repr(session_id), "X"))
    assert len(words) == 1
    assert (await soon(talk.page(owner="bob"))).sessions == ()
    assert await soon(talk.get(session.id, owner="ann")) == session


@pytest.mark.parametrize(
    ("before", "coming"),
    [
        ((), answers("a")),
        ((user(),), answers("a")),
        ((user(),), ResultsMessage(())),
        ((asks("a", "b"),), user()),
        ((asks("a", "b"),), says()),
        ((asks("a", "b"),), answers("a")),
        ((asks("a", "b"),), answers("b", "a")),
        ((asks("a", "b"), answers("a", "b")), answers("a", "b")),
        ((user(), says()), says()),
        ((user(), says()), asks("a")),
        ((user(), says()), answers("a")),
        ((asks("a"), answers("a"), says()), says()),
        ((user(), AssistantMessage((), "aborted")), says()),
        ((user(), says("half \ud83d")), says()),
    ],
)
async def test_what_is_not_paired_is_not_kept(
    store: Store, session: SessionRecord, before: tuple[Message, ...], coming: Message
) -> None:
    await soon(store.conversations.append(session.id, *before, owner="ann"))
    with pytest.raises(UnpairedCalls):
        await soon(store.conversations.append(session.id, coming, owner="ann"))
    assert [encode(message) for message in await load(store, session)] == [encode(message) for message in before]


async def test_a_reply_after_a_reply_is_told_as_that(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.append(session.id, user(), says(), owner="ann"))
    with pytest.raises(RepliesInARow, match=rf"the session '{session.id}' ends with an assistant message"):
        await soon(store.conversations.append(session.id, says(), owner="ann"))
    with pytest.raises(RepliesInARow, match="a user message has to stand between them"):
        await soon(store.conversations.append(session.id, user(), says(), says(), owner="ann"))
    assert await load(store, session) == [user(), says()]
    assert await count(store, "usage") == 1


async def test_of_two_processes_that_reply_at_once_one_is_refused(
    store: Store, session: SessionRecord, state: Path
) -> None:
    await soon(store.conversations.append(session.id, user(), owner="ann"))
    async with open_store(state) as other:
        replies = [each.conversations.append(session.id, says(), owner="ann") for each in (store, other)]
        outcomes = await soon(asyncio.gather(*replies, return_exceptions=True))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "RepliesInARow"]
    assert await load(store, session) == [user(), says()]


async def test_several_messages_are_kept_all_or_none(store: Store, session: SessionRecord) -> None:
    for several in ((user(), asks("a"), user()), (answers("a"), says())):
        with pytest.raises(UnpairedCalls):
            await soon(store.conversations.append(session.id, *several, owner="ann"))
    assert await load(store, session) == []
    assert await count(store, "usage") == 0


async def test_who_does_not_know_the_last_message_is_told(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.append(session.id, user("1"), user("2"), owner="ann", after=0))
    with pytest.raises(ToolError, match="has 2 messages and not 1: load what was added meanwhile") as refused:
        await soon(store.conversations.append(session.id, user("late"), owner="ann", after=1))
    assert refused.value.code == "busy"
    await soon(store.conversations.append(session.id, user("3"), says(), owner="ann", after=2))
    assert (await soon(store.conversations.get(session.id, owner="ann"))).length == 4


async def test_a_session_runs_one_turn_at_a_time(store: Store, session: SessionRecord) -> None:
    attempts = [store.conversations.begin_turn(session.id, owner="ann") for _ in range(2)]
    running, refused = await soon(asyncio.gather(*attempts, return_exceptions=True))
    assert isinstance(running, SessionRecord) and running.state == "running"
    assert isinstance(refused, ToolError) and refused.code == "busy"
    await soon(store.conversations.end_turn(session.id, owner="ann", waiting=True))
    assert (await soon(store.conversations.get(session.id, owner="ann"))).state == "waiting"
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    await soon(store.conversations.end_turn(session.id, owner="ann"))
    assert (await soon(store.conversations.get(session.id, owner="ann"))).state == "idle"


async def test_a_running_session_is_not_deleted(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    with pytest.raises(ToolError, match="is running: wait for its turn to end, or stop it"):
        await soon(store.conversations.delete(session.id, owner="ann"))
    assert (await soon(store.conversations.get(session.id, owner="ann"))).id == session.id


# What is kept.


async def test_every_kind_of_message_comes_back_as_it_was(store: Store, session: SessionRecord) -> None:
    image = Attachment("image", "image/png", b"\x89PNG\x00\xff", name="a.png")
    native = Native("anthropic", "claude", [{"type": "thinking", "signature": "s==", "n": 2**60}])
    said: list[Message] = [
        UserMessage((Text("hello ü 😀 \u0000"), Media(image))),
        AssistantMessage(
            (Thinking("hm"), Text("so"), CallPart("c1", "camera", '{"broken', "toolu_1"), CallPart("c2", "x", "")),
            "calls",
            "claude",
            Usage(1, 2, None, 0),
            native,
        ),
        ResultsMessage((CallResult("c1", "camera", "{}", True), CallResult("c2", "x", "{}", False, (image,)))),
        AssistantMessage((), "aborted"),
    ]
    for message in said:
        await soon(store.conversations.append(session.id, message, owner="ann"))
    assert await load(store, session) == said


async def test_halves_of_characters_do_not_break_a_conversation(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.append(session.id, user("half \ud83d"), owner="ann"))
    assert await load(store, session) == [user("half ?")]


async def test_a_part_of_the_messages_can_be_loaded(store: Store, session: SessionRecord) -> None:
    said: list[Message] = [user(), asks("a"), answers("a"), says()]
    await soon(store.conversations.append(session.id, *said, owner="ann"))
    await soon(store.conversations.append(session.id, owner="ann"))
    for after in range(5):
        assert await soon(store.conversations.load(session.id, owner="ann", after=after)) == said[after:]


async def test_what_several_sessions_say_at_once_is_in_order_in_each(store: Store) -> None:
    sessions = [await soon(store.conversations.create(owner="ann")) for _ in range(20)]
    before = commits_of(store)

    async def talk(session: SessionRecord) -> None:
        for number in range(20):
            await store.conversations.append(session.id, user(str(number)), owner="ann", after=number)

    await soon(asyncio.gather(*(talk(session) for session in sessions)))
    for session in sessions:
        assert await load(store, session) == [user(str(number)) for number in range(20)]
    assert commits_of(store) - before < 200  # 400 messages


async def test_sessions_survive_a_restart(store: Store, session: SessionRecord, state: Path, clock: Clock) -> None:
    await soon(store.conversations.append(session.id, user(), says(), owner="ann"))
    await soon(store.close())
    async with open_store(state) as again:
        assert await load(again, session) == [user(), says()]
        kept = await soon(again.conversations.get(session.id, owner="ann"))
    assert kept == SessionRecord(session.id, "ann", "General", "Notes", clock.now, clock.now, "idle", 2)


async def test_sessions_are_listed_page_by_page_the_last_active_first(store: Store, clock: Clock) -> None:
    made = []
    for number in range(7):
        clock.now += number % 2  # some at the same time
        made.append(await soon(store.conversations.create(owner="ann", name=str(number))))
    await soon(store.conversations.create(owner="bob"))
    clock.now += 1
    await soon(store.conversations.append(made[0].id, user(), owner="ann"))
    seen: list[SessionRecord] = []
    after = None
    for size in (3, 3, 1):
        page = await soon(store.conversations.page(owner="ann", limit=3, after=after))
        assert len(page.sessions) == size
        seen += page.sessions
        after = page.next
    assert after is None
    assert seen[0].id == made[0].id
    assert {one.id for one in seen} == {one.id for one in made}
    assert [(one.active, one.id) for one in seen] == sorted(((one.active, one.id) for one in seen), reverse=True)


async def test_a_session_can_be_renamed_and_given_to_another_agent(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.rename(session.id, "Diary", owner="ann"))
    await soon(store.conversations.choose_agent(session.id, "Clerk", owner="ann"))
    kept = await soon(store.conversations.get(session.id, owner="ann"))
    assert (kept.name, kept.agent) == ("Diary", "Clerk")


async def test_the_skills_of_a_session_are_kept_until_it_gets_another_agent(
    store: Store, session: SessionRecord
) -> None:
    assert session.skills is None
    for names, kept in ((["a", "b"], "a\nb"), ([], "")):
        await soon(store.conversations.choose_skills(session.id, names, owner="ann"))
        assert (await soon(store.conversations.get(session.id, owner="ann"))).skills == kept
    await soon(store.conversations.choose_agent(session.id, "Clerk", owner="ann"))
    assert (await soon(store.conversations.get(session.id, owner="ann"))).skills is None


async def test_deleting_a_session_deletes_all_that_belongs_to_it(
    store: Store, session: SessionRecord, state: Path
) -> None:
    other = await soon(store.conversations.create(owner="ann"))
    artifacts = store.artifacts
    for one in (session, other):
        record = call(session=one.id)
        await soon(store.conversations.append(one.id, user("secret"), asks(record.id), answers(record.id), owner="ann"))
        await finished(store.ledger, await started(store.ledger, record), succeed("secret"))
        await soon(store.questions.ask(structs.replace(question(record.id), session=one.id)))
        await artifacts.keep(b"secret", owner="ann", session=one.id)
    await soon(store.conversations.delete(session.id, owner="ann"))
    for table, left in (("sessions", 1), ("messages", 3), ("calls", 1), ("questions", 1), ("usage", 1)):
        assert await count(store, table) == left, table
    assert [one.session for one in await artifacts.all(owner="ann")] == [other.id]
    with pytest.raises(ToolError):
        await load(store, session)
    assert len(await load(store, other)) == 3
    await soon(store.conversations.delete(other.id, owner="ann"))
    await soon(store.close())
    assert is_sound(state)


class SlowArtifacts:
    """Holds the removal of a session's artifacts until `may_go` is set; then it may fail."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.began, self.may_go = asyncio.Event(), asyncio.Event()
        self._error = error
        self._forget = store.artifacts.forget_session
        monkeypatch.setattr(store.artifacts, "forget_session", self)

    async def __call__(self, session: str, *, owner: str) -> int:
        self.began.set()
        await self.may_go.wait()
        if self._error is not None:
            raise self._error
        return await self._forget(session, owner=owner)


async def test_no_turn_begins_while_its_session_is_deleted(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.artifacts.keep(b"secret", owner="ann", session=session.id)
    slow = SlowArtifacts(store, monkeypatch)
    deleting = asyncio.create_task(store.conversations.delete(session.id, owner="ann"))
    await soon(slow.began.wait())
    with pytest.raises(ToolError) as refused:
        await soon(store.conversations.begin_turn(session.id, owner="ann"))
    assert refused.value.code == "busy"
    slow.may_go.set()
    await soon(deleting)
    assert await store.artifacts.all(owner="ann") == [] and await count(store, "sessions") == 0


async def test_a_session_whose_artifacts_can_not_be_removed_is_used_on(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = call(session=session.id)
    await soon(store.conversations.append(session.id, user("go"), asks(record.id), owner="ann"))
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    await soon(store.conversations.end_turn(session.id, owner="ann", waiting=True))
    SlowArtifacts(store, monkeypatch, StoreError("The disk is broken.")).may_go.set()
    with pytest.raises(StoreError, match="The disk is broken"):
        await soon(store.conversations.delete(session.id, owner="ann"))
    assert (await soon(store.conversations.get(session.id, owner="ann"))).state == "waiting"
    await soon(store.conversations.begin_turn(session.id, owner="ann"))


async def test_a_session_is_deleted_although_the_caller_is_cancelled(
    store: Store, session: SessionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowArtifacts(store, monkeypatch)
    deleting = asyncio.create_task(store.conversations.delete(session.id, owner="ann"))
    await soon(slow.began.wait())
    deleting.cancel()
    slow.may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(deleting)
    assert await count(store, "sessions") == 0


async def test_a_store_without_artifacts_deletes_sessions_too(state: Path) -> None:
    async with open_store(state) as store:
        session = await soon(store.conversations.create(owner="ann"))
        await soon(store.conversations.delete(session.id, owner="ann"))
        assert (await soon(store.conversations.page(owner="ann"))).sessions == ()


# Ids that clients choose.


async def test_an_id_that_another_owner_has_is_refused_to_a_caller_that_would_begin_a_session_under_it(
    store: Store,
) -> None:
    await soon(store.conversations.create(owner="ann", session="kitchen"))
    for trying in (
        store.conversations.create(owner="bob", session="kitchen"),
        store.conversations.find("kitchen", owner="bob"),
    ):
        with pytest.raises(NotYours, match="'kitchen' belongs to another owner"):
            await soon(trying)
    assert await soon(store.conversations.find("cellar", owner="bob")) is None


async def test_a_session_is_made_under_a_given_id_once(store: Store) -> None:
    made = await soon(store.conversations.create(owner="ann", session="kitchen", name="Kitchen"))
    await soon(store.conversations.append("kitchen", user(), owner="ann"))
    again = await soon(store.conversations.create(owner="ann", session="kitchen", name="other"))
    assert (made.id, again.name, again.length) == ("kitchen", "Kitchen", 1)
    assert await soon(store.conversations.find("kitchen", owner="ann")) == again


# Dropping an answer.


async def test_the_session_of_another_owner_can_not_be_rewound(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.append(session.id, user(), owner="ann"))
    with pytest.raises(ToolError, match="There is no session"):
        await soon(store.conversations.rewind(session.id, 0, owner="bob"))
    await soon(store.conversations.rewind(session.id, 5, owner="ann"))
    assert await load(store, session) == [user()]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
async def test_a_rewound_session_goes_on_as_if_the_rest_had_never_been_said(
    store: Store, session: SessionRecord, length: int
) -> None:
    said: list[Message] = [user(), asks("a"), answers("a"), says(), user("again"), asks("b")]
    await soon(store.conversations.append(session.id, *said, owner="ann"))
    await soon(store.conversations.rewind(session.id, length, owner="ann"))
    assert await load(store, session) == said[:length]
    assert (await soon(store.conversations.get(session.id, owner="ann"))).length == length
    wrong = says() if length in (2, 4) else answers("b")
    with pytest.raises(UnpairedCalls):
        await soon(store.conversations.append(session.id, wrong, owner="ann"))
    await soon(store.conversations.append(session.id, *said[length:], owner="ann"))
    assert await load(store, session) == said


async def test_dropped_answers_stay_in_the_journal_and_in_the_usage(store: Store, session: SessionRecord) -> None:
    record = await started(store.ledger, call("a", session=session.id))
    await finished(store.ledger, record, succeed(1))
    await soon(store.conversations.append(session.id, user(), owner="ann"))
    for _ in range(3):
        said: list[Message] = [asks("a", usage=Usage(10, 1)), answers("a"), says()]
        await soon(store.conversations.append(session.id, *said, owner="ann"))
        await soon(store.conversations.rewind(session.id, 1, owner="ann"))
    assert (await soon(store.ledger.get("a", owner="ann"))).result is not None
    (total,) = await soon(store.usage.sums("session", owner="ann", session=session.id))
    assert (total.replies, total.input.known) == (6, 30)


# Whatever is appended: what is kept is what `check_next` takes, one after the other.

SOME = st.sampled_from([user(), says(), asks("a"), asks("a", "b"), answers("a"), answers("a", "b"), answers("b", "a")])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(st.lists(SOME, min_size=1, max_size=3), max_size=8))
def test_the_store_keeps_exactly_what_pairs(tmp_path: Path, said: list[list[Message]]) -> None:
    async def play() -> None:
        kept: list[Message] = []
        async with open_store(tmp_path / "state") as store:
            session = await store.conversations.create(owner="ann")
            for several in said:
                try:
                    for last, coming in itertools.pairwise([None, *kept, *several]):
                        assert coming is not None
                        check_next(last, coming)
                except UnpairedCalls:
                    with pytest.raises(UnpairedCalls):
                        await store.conversations.append(session.id, *several, owner="ann")
                else:
                    await store.conversations.append(session.id, *several, owner="ann")
                    kept += several
            assert await store.conversations.load(session.id, owner="ann") == kept

    asyncio.run(play())


async def test_a_turn_that_is_handed_over_is_taken_once_and_goes_on_with_its_messages(state: Path) -> None:
    async with open_store(state) as store:
        talks = store.conversations
        session = (await talks.create(owner="ann")).id
        assert await talks.take_over_turn(session, owner="ann") is None
        await talks.begin_turn(session, owner="ann")
        await talks.append(session, UserMessage((Text("hello"),)), owner="ann", after=0)
        assert await talks.take_over_turn(session, owner="ann") is None  # it runs
        await talks.hand_over(session, owner="bob")
        assert await talks.handed_over_turns() == []
        await talks.hand_over(session, owner="ann")
        assert await talks.handed_over_turns() == [(session, "ann")]
        assert (await talks.get(session, owner="ann")).state == "running"
        assert await talks.take_over_turn(session, owner="bob") is None
        taken = await talks.take_over_turn(session, owner="ann")
        assert taken is not None and (taken.state, taken.length) == ("running", 1)
        assert await talks.take_over_turn(session, owner="ann") is None
        await talks.append(session, AssistantMessage((Text("hi"),)), owner="ann", after=1)
        await talks.end_turn(session, owner="ann", waiting=True)
        await talks.hand_over(session, owner="ann")  # one that waits
        await talks.begin_turn(session, owner="ann")  # the next message goes on with it
        await talks.end_turn(session, owner="ann")
        await talks.hand_over(session, owner="ann")  # nothing to hand over
        assert await talks.handed_over_turns() == []


async def test_a_gateway_that_is_alone_closes_turns_that_were_handed_over(state: Path) -> None:
    async with open_store(state) as store:
        session = (await store.conversations.create(owner="ann")).id
        await store.conversations.begin_turn(session, owner="ann")
        await store.conversations.hand_over(session, owner="ann")
        assert (await store.recover()).closed == (session,)
        assert (await store.conversations.get(session, owner="ann")).state == "idle"


# Sessions that last for one request.


async def test_a_brief_session_is_found_when_it_is_idle_and_leaves_what_it_used(store: Store) -> None:
    talk = store.conversations
    for name in ("brief-1", "brief-2", "other-1"):
        await talk.create(owner="ann", session=name)
    await talk.append("brief-1", user(), AssistantMessage((Text("yes"),), usage=Usage(3, 4)), owner="ann", cost=0.5)
    await talk.begin_turn("brief-2", owner="ann")
    later = store.ledger.now() + 3600
    assert [*await talk.find_idle("brief-", later)] == [("brief-1", "ann")]
    assert await talk.find_idle("brief-", 0.0) == []
    await talk.delete("brief-1", owner="ann", keeps_records=True)
    assert await talk.find("brief-1", owner="ann") is None
    (spent,) = await store.usage.sums("day", owner="ann")
    assert (spent.replies, spent.cost.known) == (1, 0.5)
