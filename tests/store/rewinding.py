"""A process to be killed, for `test_killed.py`: it talks, goes back, chooses versions, and prints what is stored.

Each line is `said SESSION NUMBER`: so many texts were acknowledged, none of which may ever be lost.
"""

import asyncio
import sys
from itertools import count
from pathlib import Path

from handspan.core.messages import ResultsMessage, Text
from handspan.core.store import Store
from tests.store.crashing import acknowledge
from tests.store.things import says, user
from tests.stores import open_store


async def go_back_and_forth(store: Store, session: str) -> None:
    """Say things without end; leave some of them each time, and choose an old version now and then."""
    texts = len(await all_texts(store, session))
    for turn in count():
        length = (await store.conversations.get(session, owner="ann")).length
        await store.conversations.append(session, user(f"{texts}"), says(f"{texts + 1}"), owner="ann", after=length)
        texts += 2
        acknowledge("said", session, texts)
        await store.conversations.rewind(session, max(0, length - turn % 4), owner="ann")
        if turn % 3 == 0:
            versions = await store.conversations.versions(session, owner="ann")
            left = [one.branch for one in versions if one.left_at is not None]
            await store.conversations.choose_version(session, left[turn % len(left)], owner="ann")


async def all_texts(store: Store, session: str) -> list[str]:
    """Every text of the conversation and of the versions that were left."""
    current = await store.conversations.load(session, owner="ann")
    left = await store.conversations.left_messages(session, owner="ann")
    messages = [*current, *(dated.message for branch in left.values() for dated in branch)]
    parts = [part for message in messages if not isinstance(message, ResultsMessage) for part in message.parts]
    return [part.text for part in parts if isinstance(part, Text)]


async def main(state: Path) -> None:
    """Go on with the sessions, or make them."""
    async with open_store(state, most_versions=10**6) as store:
        await store.recover()
        for number in range(3):
            await store.conversations.create(owner="ann", session=f"s{number}")
        await asyncio.gather(*(go_back_and_forth(store, f"s{number}") for number in range(3)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
