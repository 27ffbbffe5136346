"""Providers of the same process, for tests and demos: each is a function from a request to a response."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

from handspan.bridge.transport import ProviderApp
from handspan.core.values import JsonObject
from handspan.wire.cetp import CetpResponse, label_of, no_response_error

Answerer: TypeAlias = Callable[[str, JsonObject | None], Awaitable[CetpResponse]]
"""Answers a method with its extras, as a provider does."""


class InProcessTransport:
    """Apps that are added and removed by calls of this object."""

    def __init__(self) -> None:
        self._apps: dict[str, tuple[ProviderApp, Answerer]] = {}
        self._changed = asyncio.Event()
        self._versions = 0
        self.woken: list[tuple[str, bool]] = []
        """Every call of `wake`: the app, and whether its screen was asked for."""
        self.authorized: list[tuple[str, str]] = []
        """Every call of `authorize`: the app and the intent."""

    def add(self, app_id: str, answer: Answerer, *, label: str = "", can_authorize: bool = False) -> None:
        """Add an app, or replace it."""
        self._versions += 1
        name = label or app_id.rpartition(".")[2]
        app = ProviderApp(app_id, name, label_of(name), str(self._versions), can_authorize=can_authorize)
        self._apps[app_id] = (app, answer)
        self._changed.set()

    def remove(self, app_id: str) -> None:
        """Remove an app."""
        self._apps.pop(app_id, None)
        self._changed.set()

    async def apps(self) -> Sequence[ProviderApp]:
        """Return the apps."""
        return [app for app, _ in self._apps.values()]

    async def call(self, app: ProviderApp, method: str, extras: JsonObject | None) -> CetpResponse:
        """Return the response of the app."""
        _, answer = self._apps.get(app.id, (None, None))
        return no_response_error(app.id, "it was removed") if answer is None else await answer(method, extras)

    async def changes(self) -> AsyncIterator[None]:
        """Yield after each `add` and `remove`."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            yield

    async def wake(self, app: ProviderApp, *, shows_screen: bool) -> str:
        """Note the call in `woken`."""
        self.woken.append((app.id, shows_screen))
        return ""

    async def authorize(self, app: ProviderApp, intent: str) -> None:
        """Note the call in `authorized`."""
        self.authorized.append((app.id, intent))

    async def close(self) -> None:
        """Nothing to do."""
