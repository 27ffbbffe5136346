"""Artifacts: for their owner alone, read by range, gone with their session (SPEC X3, S6)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.config.store_settings import ArtifactSettings
from handspan.core.errors import ToolError
from handspan.core.store import ArtifactStore, Store
from tests.stores import open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def artifacts(store: Store) -> ArtifactStore:
    return store.artifacts


async def refusal(artifacts: ArtifactStore, artifact_id: str, hide: str = "", show: str = "") -> str:
    with pytest.raises(ToolError) as refused:
        await artifacts.read(artifact_id, owner="ann")
    assert refused.value.code == "file_not_found"
    return str(refused.value).replace(hide, show) if hide else str(refused.value)


async def pieces_of(*pieces: bytes, then: BaseException | None = None) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if then is not None:
        raise then


async def test_another_owner_gets_the_same_words_as_for_an_artifact_that_never_was(artifacts: ArtifactStore) -> None:
    ref = await artifacts.keep(b"secret", owner="ann")
    for attempt in (artifacts.get(ref.id, owner="bob"), artifacts.read(ref.id, owner="bob")):
        with pytest.raises(ToolError) as refused:
            await attempt
        assert refused.value.code == "file_not_found"
        assert str(refused.value) == await refusal(artifacts, "0" * 24, hide="0" * 24, show=ref.id)
    assert await artifacts.read(ref.id, owner="ann") == b"secret"


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        "a" * 23,
        "A" * 24,
        "g" * 24,
        "٠" * 24,
        "\0" * 24,
        "\ud800" * 24,
        "x" * 9999,
    ],
)
async def test_an_id_that_is_none_of_ours_finds_nothing(artifacts: ArtifactStore, hostile: str) -> None:
    await artifacts.keep(b"x", owner="ann")
    assert len(await refusal(artifacts, hostile)) < 300


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, None, b"0123456789"),
        (3, 4, b"3456"),
        (8, 100, b"89"),
        (10, 5, b""),
        (2**70, 5, b""),
        (-4, 2, b"01"),
        (0, -1, b""),
    ],
)
async def test_any_range_gives_the_bytes_that_are_there(
    artifacts: ArtifactStore, offset: int, limit: int | None, expected: bytes
) -> None:
    ref = await artifacts.keep(b"0123456789", owner="ann")
    assert await artifacts.read(ref.id, owner="ann", offset=offset, limit=limit) == expected


async def test_the_handle_says_what_was_kept_and_survives_a_restart(artifacts: ArtifactStore, state: Path) -> None:
    ref = await artifacts.keep(b"\x89PNG", owner="ann", session="s", media_type="image/png", name="a.png")
    assert (ref.size, ref.media_type, ref.name) == (4, "image/png", "a.png")
    async with open_store(state) as later:
        assert await later.artifacts.get(ref.id, owner="ann") == ref


async def test_one_that_is_removed_is_gone_and_only_its_owner_can_do_that(artifacts: ArtifactStore) -> None:
    ref, other = [await artifacts.keep(b"x", owner="ann") for _ in range(2)]
    await artifacts.remove(ref.id, owner="bob")
    assert await artifacts.read(ref.id, owner="ann") == b"x"
    for _ in range(2):  # the second time there is nothing
        await artifacts.remove(ref.id, owner="ann")
    await refusal(artifacts, ref.id)
    assert [one.ref for one in await artifacts.all(owner="ann")] == [other]


async def test_a_session_takes_its_own_artifacts_with_it_and_no_others(artifacts: ArtifactStore) -> None:
    assert await artifacts.forget_session("s", owner="ann") == 0  # there is nothing yet
    gone = [await artifacts.keep(b"x", owner="ann", session="s") for _ in range(2)]
    kept = [
        (owner, await artifacts.keep(b"x", owner=owner, session=session))
        for owner, session in (("ann", "t"), ("ann", ""), ("bob", "s"))
    ]
    assert await artifacts.forget_session("s", owner="ann") == 2
    assert await artifacts.forget_session("", owner="ann") == 0
    for ref in gone:
        await refusal(artifacts, ref.id)
    for owner, ref in kept:
        assert await artifacts.get(ref.id, owner=owner) == ref


@pytest.mark.parametrize("pieces", [(), (b"",), (b"a", b"", b"bc"), (b"x" * 300_000, b"y" * 300_000)])
async def test_what_comes_in_pieces_is_kept_as_one(artifacts: ArtifactStore, pieces: tuple[bytes, ...]) -> None:
    ref = await artifacts.receive(pieces_of(*pieces), owner="ann", media_type="image/png", name="a.png")
    assert (ref.size, ref.media_type, ref.name) == (len(b"".join(pieces)), "image/png", "a.png")
    assert await artifacts.get(ref.id, owner="ann") == ref
    assert await artifacts.read(ref.id, owner="ann") == b"".join(pieces)


async def test_the_oldest_make_room_when_there_are_too_many(state: Path) -> None:
    async with open_store(state, ArtifactSettings(count=2)) as store:
        first, *others = [await store.artifacts.keep(b"%d" % number, owner="ann") for number in range(3)]
        await refusal(store.artifacts, first.id)
        assert [await store.artifacts.read(ref.id, owner="ann") for ref in others] == [b"1", b"2"]
        assert [one.ref for one in await store.artifacts.all(owner="ann")] == others[::-1]


async def test_the_oldest_make_room_when_all_together_are_too_large(state: Path) -> None:
    async with open_store(state, ArtifactSettings(total=10)) as store:
        first, second = [await store.artifacts.keep(b"12345", owner=owner) for owner in ("ann", "bob")]
        await store.artifacts.receive(pieces_of(b"12", b"34"), owner="ann")
        await refusal(store.artifacts, first.id)
        assert await store.artifacts.read(second.id, owner="bob") == b"12345"


async def test_what_is_too_old_is_gone(artifacts: ArtifactStore, state: Path) -> None:
    old = await artifacts.keep(b"x", owner="ann")
    async with open_store(state, ArtifactSettings(days=0)) as short:
        await refusal(short.artifacts, old.id)
        assert await short.artifacts.all(owner="ann") == []


async def test_more_than_an_artifact_may_have_is_refused_and_leaves_nothing(state: Path) -> None:
    async with open_store(state, ArtifactSettings(size=10)) as store:
        for attempt in (
            store.artifacts.keep(b"x" * 11, owner="ann"),
            store.artifacts.receive(pieces_of(b"x" * 6, b"x" * 6), owner="ann"),
        ):
            with pytest.raises(ToolError) as refused:
                await attempt
            assert refused.value.code == "file_too_large"
        assert await store.artifacts.all(owner="ann") == []


async def test_many_at_once_are_all_stored(artifacts: ArtifactStore) -> None:
    refs = await asyncio.gather(*(artifacts.keep(b"%d" % number, owner="ann") for number in range(40)))
    found = [await artifacts.read(ref.id, owner="ann") for ref in refs]
    assert found == [b"%d" % number for number in range(40)]
    assert await artifacts.check() == ""


async def test_what_breaks_off_leaves_nothing(artifacts: ArtifactStore) -> None:
    with pytest.raises(EOFError):
        await artifacts.receive(pieces_of(b"x", then=EOFError()), owner="ann", session="s")
    assert await artifacts.forget_session("s", owner="ann") == 0
