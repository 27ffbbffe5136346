"""Calls that are about to get their result: the engine waits for them before the store is closed (SPEC E2, G3)."""

import asyncio


class OpenWork:
    """Counts calls that have begun and have not ended. `wait` returns when all have ended."""

    def __init__(self) -> None:
        self.count = 0
        """The number of open calls. `Engine.call` changes it directly: `with` is slower."""
        self.ended: asyncio.Future[None] | None = None
        """The future that `wait` awaits; None when nothing waits."""

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        self.notify()

    def notify(self) -> None:
        """Let `wait` check the count again."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until all calls have ended, at most so many seconds. Return whether they have."""
        try:
            async with asyncio.timeout(seconds):
                while self.count:
                    self.ended = asyncio.get_running_loop().create_future()
                    await self.ended
        except TimeoutError:
            return False
        finally:
            self.ended = None
        return True
