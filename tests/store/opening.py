"""Opens a store on a disk that is read-only, for `test_database.py`: exits with 0 when that is said in words."""

import asyncio
import sys
from pathlib import Path

from handspan.core.conversations import StoreError
from handspan.store.sqlite.store import SqliteStore


async def main(state: Path) -> None:
    """Open and write; the one or the other is refused."""
    try:
        async with SqliteStore(state) as store:
            await store.conversations.create(owner="ann")
    except StoreError as error:
        assert any(words in str(error) for words in ("read-only", "Read-only", "can't be opened")), error
    else:
        raise AssertionError("a read-only disk was written")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
