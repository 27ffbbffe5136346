"""Wherever a model or a tool is when its turn is aborted: what is stored can go on (SPEC A2, A4, M4)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from handspan import tool
from handspan.agent.conversation import Conversation, StoredLog
from handspan.agent.loop import Loop
from handspan.core.agents import GENERAL
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Message, Text, UserMessage, check_next
from handspan.core.principals import OPERATOR
from handspan.core.store import Store
from handspan.core.tool import ToolSpec
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelEvent, Projection
from handspan.models.scripted import Scripted, ScriptTurn, call
from handspan.registry.registry import Registry
from tests.stores import open_artifacts, open_store

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner
SPOKEN = ("Let me see what two and two are. " * 4, "They are four.")
SCRIPT: tuple[ScriptTurn, ...] = ([SPOKEN[0], call("double", number=2)], SPOKEN[1])
BREATHS = 13
"""In one turn with this script."""


class AbortAt:
    """Lets others go on, and aborts the turn at the breath of this number."""

    def __init__(self, abort_at: int = 0) -> None:
        self._left = abort_at
        self._turn = asyncio.current_task()

    async def take(self) -> None:
        self._left -= 1
        if self._left == 0:
            assert self._turn is not None
            self._turn.cancel()
        await asyncio.sleep(0)


class PausingModel:
    """A model that takes a breath after every event."""

    name = "breathing"

    def __init__(self, turns: Sequence[ScriptTurn], breath: AbortAt) -> None:
        self._script = Scripted(turns)
        self._breath = breath

    def projection(self, instructions: str = "") -> KeptMessages:
        return self._script.projection(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        await self._breath.take()
        async for event in self._script.reply(projection, specs, artifacts):
            yield event
            await self._breath.take()


class StoredSession:
    """A session in a store, opened anew for every turn, as by a process that knows nothing else."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.breath = AbortAt()
        self.registry = Registry()
        engine = Engine(open_artifacts(folder), folder, ledger=store.ledger)
        self.loop = Loop(engine, store.ledger)

        @tool
        async def double(number: int) -> int:
            """Double a number."""
            await self.breath.take()
            return 2 * number

        self.registry.register(double)

    async def turn(self, session_id: str, *, abort_at: int = 0, inbox: str = "") -> bool:
        """Whether a turn came to its end, and was not aborted."""
        self.breath = AbortAt(abort_at)
        messages = await self.store.conversations.load(session_id, owner=OWNER)
        caller = Caller(OPERATOR, GENERAL, self.registry.toolbox(GENERAL, OPERATOR))
        log = StoredLog(self.store.conversations, OWNER)
        session = Conversation(session_id, caller, PausingModel(SCRIPT, self.breath), log, messages)
        await self.loop.close(session)
        await session.append(UserMessage((Text("go"),)))
        session.inbox += [UserMessage((Text(inbox),))] if inbox else []
        try:
            ended = await self.loop.advance(session, lambda _: None)
        except asyncio.CancelledError:
            return False
        assert ended.reason == "done"
        return True


@pytest.mark.parametrize("inbox", ["", "and hurry"])
@pytest.mark.parametrize("place", range(1, 16))
async def test_a_turn_that_is_aborted_anywhere_never_leaves_replies_in_a_row(
    tmp_path: Path, place: int, inbox: str
) -> None:
    async with asyncio.timeout(60), open_store(tmp_path / "state") as store:
        stage = StoredSession(store, tmp_path)
        session = (await store.conversations.create(owner=OWNER)).id
        ends = [await stage.turn(session, abort_at=place, inbox=inbox) for _ in range(2)]
        assert await stage.turn(session)
        said = await store.conversations.load(session, owner=OWNER)
    assert ends == [place > BREATHS] * 2
    for last, coming in itertools.pairwise(said):
        check_next(last, coming)
    assert isinstance(said[-1], AssistantMessage) and said[-1].text == "They are four."
    cut_off = [message.text for message in said if isinstance(message, AssistantMessage) and message.stop == "aborted"]
    assert all(text and text in "".join(SPOKEN) for text in cut_off)


class CuttingLog:
    """Keeps messages in the store; the turn is aborted while the one of this number is on its way."""

    def __init__(self, log: StoredLog, cut_at: int) -> None:
        self._log = log
        self._left = cut_at
        self._turn = asyncio.current_task()

    def append(self, session: str, message: Message, after: int) -> "asyncio.Future[None] | None":
        self._left -= 1
        if self._left == 0:
            assert self._turn is not None
            self._turn.cancel()
        return self._log.append(session, message, after)


@pytest.mark.parametrize("place", range(1, 5))
async def test_what_is_on_its_way_into_the_store_when_a_turn_is_aborted_is_part_of_it(
    tmp_path: Path, place: int
) -> None:
    async with asyncio.timeout(60), open_store(tmp_path / "state") as store:
        stage = StoredSession(store, tmp_path)
        session_id = (await store.conversations.create(owner=OWNER)).id
        caller = Caller(OPERATOR, GENERAL, stage.registry.toolbox(GENERAL, OPERATOR))
        log = CuttingLog(StoredLog(store.conversations, OWNER), place)
        session = Conversation(session_id, caller, PausingModel(SCRIPT, stage.breath), log)
        with pytest.raises(asyncio.CancelledError):
            await session.append(UserMessage((Text("go"),)))
            await stage.loop.advance(session, lambda _: None)
            await asyncio.sleep(0)  # the last message was on its way: the abort is heard here
        assert session.messages == await store.conversations.load(session_id, owner=OWNER)
        assert await stage.turn(session_id)
        said = await store.conversations.load(session_id, owner=OWNER)
    for last, coming in itertools.pairwise(said):
        check_next(last, coming)
