"""A call that waits for an answer here, while a door hears of that answer too (SPEC P5, E2)."""

import asyncio

import pytest

from handspan.core.principals import Origin
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.results import Pending, succeed
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of, soon

pytestmark = pytest.mark.anyio


class Person:
    """Answers the first question when the test sets `go_on`; None means some other day."""

    def __init__(self, says: Answer | None) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self._says = says

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
        opened()
        if not self.asked.is_set():
            self.asked.set()
            await self.go_on.wait()
            return self._says
        return Answer("allow")


@pytest.fixture
def ran() -> list[str]:
    return []


def photo_kit(make_kit: MakeKit, person: Person, ran: list[str]) -> EngineKit:
    def photo() -> str:
        ran.append("click")
        return "picture"

    kit = make_kit(questions=person)
    kit.add(photo, Origin("plugin", "phone"), permissions=("camera",))
    return kit


@pytest.mark.parametrize("hears", [True, False])
async def test_a_call_that_is_answered_while_it_waits_runs_once(make_kit: MakeKit, ran: list[str], hears: bool) -> None:
    person = Person(Answer("allow") if hears else None)
    kit = photo_kit(make_kit, person, ran)
    calling = kit.start("photo", call_id="call-1")
    await soon(person.asked)
    resuming = asyncio.create_task(kit.engine.resume("call-1", kit.caller()))
    await asyncio.sleep(0)
    person.go_on.set()
    done = succeed("picture")
    assert await outcome_of([calling, resuming]) == ([done, None] if hears else [Pending(), done])
    assert ran == ["click"]
    assert kit.last().result == done


async def test_a_call_that_is_cancelled_while_it_waits_is_not_resumed(make_kit: MakeKit, ran: list[str]) -> None:
    person = Person(Answer("allow"))
    kit = photo_kit(make_kit, person, ran)
    calling = kit.start("photo", call_id="call-1")
    await soon(person.asked)
    resuming = asyncio.create_task(kit.engine.resume("call-1", kit.caller()))
    await asyncio.sleep(0)
    calling.cancel()
    [cancelled, resumed] = await outcome_of([calling, resuming])
    assert isinstance(cancelled, asyncio.CancelledError) and resumed is None
    assert ran == []
