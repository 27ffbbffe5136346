"""How a bridge finds and reaches apps: the seam between the bridge and a platform (cetp.md 6 and 7)."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct

from handspan.core.values import JsonObject
from handspan.wire.cetp import CetpResponse


class ProviderApp(Struct, frozen=True):
    """An app that offers tools, as its platform declares it."""

    id: str
    """Unique on this platform, as in `org.example.finance`."""
    name: str
    """The app's name for a person."""
    label: str
    """The prefix of the app's tools, without the suffix that a clash adds (cetp.md 8.2)."""
    fingerprint: str = ""
    """Changes when the app was replaced."""
    can_authorize: bool = False
    """Whether `authorize` can start its login."""
    problem: str = ""
    """Why the app is skipped; empty when it is not."""


class Transport(Protocol):
    """One platform. No method raises for what an app does: `call` returns an error instead."""

    async def apps(self) -> Sequence[ProviderApp]:
        """Return the apps that are declared now, also those that are skipped."""
        ...

    async def call(self, app: ProviderApp, method: str, extras: JsonObject | None) -> CetpResponse:
        """Return the response of the app; without one, the error of cetp.md 2.6."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield each time when an app may have been added, replaced or removed."""
        ...

    async def wake(self, app: ProviderApp, *, shows_screen: bool) -> str:
        """Try to make a sleeping app reachable: silently, or with its screen (cetp.md 8.5).

        Return why that was in vain, as far as that is known; else an empty text.
        """
        ...

    async def authorize(self, app: ProviderApp, intent: str) -> None:
        """Start the app's own login for the person."""
        ...

    async def close(self) -> None:
        """Close what this transport has opened. Apps that others may use run on (cetp.md 6.11)."""
        ...
