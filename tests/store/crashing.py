"""A process to be killed, for `test_killed.py`: it appends and calls, and prints what was acknowledged.

Each line is one acknowledged thing: `message SESSION SEQ`, `start ID`, `suspend ID`, `finish ID`.
"""

import asyncio
import os
import sys
from itertools import count
from pathlib import Path

from handspan.core.calls import new_call_id
from handspan.core.records import SessionRecord
from handspan.core.results import succeed
from handspan.core.store import Store
from tests.store.things import READS, WRITES, answers, asks, call, finished, started, user
from tests.stores import open_store

SESSIONS = 8


def acknowledge(*words: object) -> None:
    """Say it in one write: a killed process must not leave half a line."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def talk(store: Store, session: SessionRecord, place: int) -> None:
    """Turns without end: a question, a call, its result."""
    await store.conversations.begin_turn(session.id, owner="ann")
    length = session.length
    for number in count():
        record = call(new_call_id(), tool=READS if number % 3 == 0 else WRITES, session=session.id)
        await store.conversations.append(session.id, user(f"{length + 1}"), asks(record.id), owner="ann", after=length)
        acknowledge("message", session.id, length + 2)
        await started(store.ledger, record)
        if not record.tool.read_only:
            acknowledge("start", record.id)
        if number % 5 == place % 5:
            await store.ledger.suspend(record)
            acknowledge("suspend", record.id)
        if number % 2:
            await finished(store.ledger, record, succeed(record.id))
            acknowledge("finish", record.id)
            await store.conversations.append(session.id, answers(record.id), owner="ann")
        else:
            async with store.unit_of_work():
                await finished(store.ledger, record, succeed(record.id))
                await store.conversations.append(session.id, answers(record.id), owner="ann")
            acknowledge("finish", record.id)
        length += 3
        acknowledge("message", session.id, length)


async def main(state: Path) -> None:
    """Go on with sessions that are there, or make them."""
    async with open_store(state) as store:
        await store.recover()
        sessions = list((await store.conversations.page(owner="ann")).sessions)
        idle = [session for session in sessions if session.state == "idle"]
        while len(idle) < SESSIONS:
            idle.append(await store.conversations.create(owner="ann"))
        await asyncio.gather(*(talk(store, session, place) for place, session in enumerate(idle)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
