"""What a person sets of sessions, and a deletion that can be taken back."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.errors import SessionDeleted, StoreError, ToolError
from handspan.core.records import SessionEdit, SessionFilter, SessionKind, SessionRecord
from handspan.core.results import succeed
from handspan.core.store import Store
from handspan.store.tables.store import TableStore
from tests.store.things import Clock, call, finished, question, says, started, user
from tests.stores import open_store, run_sql
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def listed(store: Store, wanted: SessionFilter | None = None) -> list[str]:
    page = await soon(store.conversations.page(wanted or SessionFilter(), owner="ann"))
    return [one.name for one in page.sessions]


async def fill(store: Store, clock: Clock) -> None:
    """Four sessions: a plain chat, a pinned one, one in the archive, and a run."""
    changes: dict[str, tuple[SessionKind, SessionEdit]] = {
        "plain": ("chat", SessionEdit()),
        "pinned": ("chat", SessionEdit(pinned=True)),
        "old": ("chat", SessionEdit(archived=True)),
        "run": ("run", SessionEdit(model="m")),
    }
    for name, (kind, change) in changes.items():
        clock.now += 1
        made = await soon(store.conversations.create(owner="ann", name=name, kind=kind))
        await soon(store.conversations.edit(made.id, change, owner="ann"))


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (SessionFilter(), ["run", "old", "pinned", "plain"]),
        (SessionFilter(kinds=("chat",)), ["old", "pinned", "plain"]),
        (SessionFilter(kinds=("run", "one_shot")), ["run"]),
        (SessionFilter(kinds=()), []),
        (SessionFilter(pinned=True), ["pinned"]),
        (SessionFilter(pinned=False), ["run", "old", "plain"]),
        (SessionFilter(archived=True), ["old"]),
        (SessionFilter(("chat",), pinned=False, archived=False), ["plain"]),
    ],
)
async def test_lists_are_filtered_by_flags(store: Store, clock: Clock, wanted: SessionFilter, names: list[str]) -> None:
    await fill(store, clock)
    assert await listed(store, wanted) == names
    page = await soon(store.conversations.page(owner="ann"))
    assert [one.name for one in page.sessions if wanted.fits(one)] == names


async def test_a_filtered_list_has_pages(store: Store, clock: Clock) -> None:
    for number in range(9):
        clock.now += 1
        made = await soon(store.conversations.create(owner="ann", name=str(number)))
        await soon(store.conversations.edit(made.id, SessionEdit(pinned=number % 2 == 0), owner="ann"))
    seen, after = [], None
    for _ in range(3):
        wanted = SessionFilter(pinned=True)
        page = await soon(store.conversations.page(wanted, owner="ann", limit=2, after=after))
        seen += [one.name for one in page.sessions]
        after = page.next
    assert (seen, after) == (["8", "6", "4", "2", "0"], None)


async def test_a_change_changes_what_it_names_and_survives_a_restart(store: Store, state: Path, clock: Clock) -> None:
    made = await soon(store.conversations.create(owner="ann", name="a", kind="one_shot"))
    assert (made.kind, made.pinned, made.archived, made.model) == ("one_shot", False, False, "")
    clock.now += 10
    await soon(store.conversations.edit(made.id, SessionEdit(pinned=True, model="m"), owner="ann"))
    await soon(store.conversations.edit(made.id, SessionEdit(archived=True, kind="chat"), owner="ann"))
    await soon(store.conversations.edit(made.id, SessionEdit(), owner="ann"))
    await soon(store.close())
    async with open_store(state) as again:
        kept = await soon(again.conversations.get(made.id, owner="ann"))
    assert kept == structs.replace(made, kind="chat", pinned=True, archived=True, model="m")
    assert kept.pinned is True, "SQLite has 1 for it"


async def test_somebody_elses_session_is_not_changed(store: Store, session: SessionRecord) -> None:
    with pytest.raises(ToolError, match="There is no session"):
        await soon(store.conversations.edit(session.id, SessionEdit(pinned=True), owner="bob"))
    assert await soon(store.conversations.get(session.id, owner="ann")) == session


async def belongings(store: Store, session: SessionRecord) -> list[object]:
    """What of a session can be seen."""
    return [
        await listed(store),
        [one.name for one in await soon(store.threads.page(owner="ann"))],
        list((await soon(store.ledger.page(owner="ann")))[0]),
        list(await soon(store.ledger.timings(owner="ann"))),
        [one.id for one in await soon(store.questions.open_for(owner="ann"))],
        list(await soon(store.usage.sums("session", owner="ann"))),
        list((await soon(store.search.find("hello", owner="ann"))).found),
    ]


async def make_all(store: Store, session: SessionRecord) -> tuple[str, str]:
    """Return the ids of a call and of an artifact of a session that has a little of everything."""
    record = call(session=session.id)
    await soon(store.conversations.append(session.id, user("hello"), says("hello"), owner="ann"))
    await finished(store.ledger, await started(store.ledger, record), succeed("x"))
    asked = structs.replace(question("c2"), session=session.id)
    await soon(store.questions.ask(asked))
    ref = await soon(store.artifacts.keep(b"x", owner="ann", session=session.id))
    return record.id, ref.id


async def test_a_session_that_was_deleted_is_hidden_and_comes_back_whole(
    store: Store, session: SessionRecord, clock: Clock
) -> None:
    talk = store.conversations
    call_id, _ = await make_all(store, session)
    before, record = await belongings(store, session), await soon(talk.get(session.id, owner="ann"))
    assert all(before)
    assert await soon(talk.delete(session.id, owner="ann", undo=True)) == clock.now + 30
    assert await belongings(store, session) == [[]] * 7
    for hidden in (
        talk.get(session.id, owner="ann"),
        talk.load(session.id, owner="ann"),
        talk.rename(session.id, "x", owner="ann"),
        talk.begin_turn(session.id, owner="ann"),
        talk.versions(session.id, owner="ann"),
        talk.delete(session.id, owner="ann"),
        talk.delete(session.id, owner="ann", undo=True),
        store.ledger.get(call_id, owner="ann"),
    ):
        with pytest.raises(ToolError) as refused:
            await soon(hidden)
        assert refused.value.code == "file_not_found"
    for refusal in (talk.find(session.id, owner="ann"), talk.create(owner="ann", session=session.id)):
        with pytest.raises(SessionDeleted, match="restore it first"):
            await soon(refusal)
    assert await soon(talk.deleted(owner="ann")) == [session.id]
    assert await soon(talk.deleted(owner="bob")) == []
    with pytest.raises(ToolError, match="There is no session"):
        await soon(talk.restore(session.id, owner="bob"))
    clock.now += 29
    assert await soon(talk.remove_deleted()) == 0
    assert await soon(talk.restore(session.id, owner="ann")) == record
    assert await belongings(store, session) == before
    clock.now += 60
    assert await soon(talk.remove_deleted()) == 0


async def test_when_its_time_is_over_it_is_gone_with_all_that_belongs_to_it(
    store: Store, session: SessionRecord, clock: Clock
) -> None:
    talk = store.conversations
    _, artifact = await make_all(store, session)
    await soon(store.search.index())
    await soon(talk.delete(session.id, owner="ann", undo=True))
    clock.now += 30
    assert await soon(talk.remove_deleted()) == 1
    for table in ("sessions", "messages", "searched", "calls", "questions", "usage"):
        assert await run_sql(store, f"SELECT COUNT(*) FROM {table}") == [(0,)], table
    with pytest.raises(ToolError):
        await soon(store.artifacts.get(artifact, owner="ann"))
    with pytest.raises(ToolError, match="There is no session"):
        await soon(talk.restore(session.id, owner="ann"))
    assert (await soon(talk.create(owner="ann", session=session.id))).length == 0, "the id is free again"


async def test_the_sweep_removes_it_also_in_a_later_process(
    store: Store, session: SessionRecord, state: Path, clock: Clock
) -> None:
    await soon(store.conversations.delete(session.id, owner="ann", undo=True))
    await soon(store.close())
    clock.now += 31
    async with open_store(state, clock=clock) as again:
        await soon(again.recover())
        await soon(again.expire())
        assert isinstance(again, TableStore)
        assert again._sweeping is not None
        await soon(again._sweeping)
        assert await run_sql(again, "SELECT COUNT(*) FROM sessions") == [(0,)]


async def test_a_running_session_is_not_deleted(store: Store, session: SessionRecord) -> None:
    await soon(store.conversations.begin_turn(session.id, owner="ann"))
    with pytest.raises(ToolError, match="is running"):
        await soon(store.conversations.delete(session.id, owner="ann", undo=True))
    assert await listed(store) == ["Notes"]


async def test_a_removal_that_fails_is_tried_again(
    store: Store, session: SessionRecord, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> int:
        raise StoreError("no disk")

    await soon(store.conversations.delete(session.id, owner="ann", undo=True))
    clock.now += 31
    with monkeypatch.context() as patched:
        patched.setattr(store.artifacts, "forget_session", broken)
        with pytest.raises(StoreError, match="no disk"):
            await soon(store.conversations.remove_deleted())
    assert await soon(store.conversations.remove_deleted()) == 1


async def test_of_a_restore_and_a_removal_at_once_one_wins(store: Store, session: SessionRecord, clock: Clock) -> None:
    talk = store.conversations
    for _ in range(10):
        made = await soon(talk.create(owner="ann"))
        await soon(talk.append(made.id, user(), owner="ann"))
        await soon(talk.delete(made.id, owner="ann", undo=True))
        clock.now += 30
        removed, restored = await soon(
            asyncio.gather(talk.remove_deleted(), talk.restore(made.id, owner="ann"), return_exceptions=True)
        )
        assert (removed == 1) == isinstance(restored, ToolError)
        if isinstance(restored, SessionRecord):
            assert len(await soon(talk.load(made.id, owner="ann"))) == 1


async def test_without_seconds_to_undo_it_is_deleted_at_once(state: Path) -> None:
    async with open_store(state, undo_seconds=0) as store:
        made = await soon(store.conversations.create(owner="ann"))
        assert await soon(store.conversations.delete(made.id, owner="ann", undo=True)) is None
        assert await run_sql(store, "SELECT COUNT(*) FROM sessions") == [(0,)]
