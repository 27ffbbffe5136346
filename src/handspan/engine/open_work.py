"""Calls that are about to get their result: the engine waits for them before the store is closed (SPEC E2, G3)."""

import asyncio


class OpenWork:
    """Counts what has begun and has not ended. `wait` returns when all has ended."""

    def __init__(self) -> None:
        self.count = 0
        """`Engine.call` counts here itself, which is faster."""
        self.ended: asyncio.Future[None] | None = None
        """Only while `wait` waits."""

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        self.notify()

    def notify(self) -> None:
        """Let `wait` look again."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until all has ended, at most so many seconds. Return whether it has."""
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
