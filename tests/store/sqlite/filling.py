"""Fills a small disk, for `test_database.py`: exits with 0 when nothing that was acknowledged is lost."""

import asyncio
import sys
from pathlib import Path

from handspan.core.errors import StoreError
from handspan.core.messages import Text, UserMessage
from tests.stores import database_of, open_store


async def main(state: Path) -> None:
    """Append until the disk is full; make room; append again; look whether all is there."""
    ballast = state.parent / "ballast"
    ballast.write_bytes(b"x" * 100_000)
    async with open_store(state) as store:
        session = (await store.conversations.create(owner="ann")).id
        acknowledged, full = 0, None
        while full is None:
            try:
                text = f"{acknowledged} " + "x" * 5000
                await store.conversations.append(session, UserMessage((Text(text),)), owner="ann")
                acknowledged += 1
            except StoreError as error:
                full = str(error)
        assert "the disk is full" in full, full
        assert acknowledged > 5
        ballast.unlink()
        await store.conversations.append(session, UserMessage((Text("there is room"),)), owner="ann")
        messages = await store.conversations.load(session, owner="ann")
        assert len(messages) == acknowledged + 1
    async with open_store(state) as store:
        assert await store.conversations.load(session, owner="ann") == messages
        assert await database_of(store).fetch_one("PRAGMA integrity_check") == ("ok",)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
