"""Opens a store on a disk that is read-only, for `test_database.py`: exits with 0 when that is said in words."""

import asyncio
import sys
from pathlib import Path

from handspan.core.errors import StoreError
from tests.stores import open_store


async def main(state: Path) -> None:
    """Open and write; the one or the other is refused."""
    try:
        async with open_store(state) as store:
            await store.conversations.create(owner="ann")
    except StoreError as error:
        assert any(words in str(error) for words in ("read-only", "Read-only", "can't be opened")), error
    else:
        raise AssertionError("a read-only disk was written")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
