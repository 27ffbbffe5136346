"""The socket: opened, read, opened again after a growing while. It knows nothing of what is said."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from handspan.client.faults import GatewayRefused, GatewayUnreachable, NotOpened
from handspan.core.fast import IS_FAST
from handspan.core.values import strip_invisible

if TYPE_CHECKING:
    import ssl

_DELIBERATE: Final = 1000
_SENT_AWAY: Final = 1008
_NEVER_HERE: Final = frozenset((400, 404, 405, 426))
"""Statuses that mean a wrong address, if nobody ever answered there."""
_log = logging.getLogger(__name__)


class Backoff(Struct, frozen=True):
    """How long to wait before coming back: doubled each time, and spread, so that not everybody comes at once."""

    first: float = 1.0
    longest: float = 30.0
    spread: float = 0.5

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds before this attempt, counted from 0; `chance` between 0 and 1 says where in the spread."""
        return float(min(self.longest, self.first * 2.0 ** min(attempt, 30)) * (1 + self.spread * chance))


class Ears(Protocol):
    """Who hears what the link does. None of them may block."""

    def opening(self) -> None: ...

    def opened(self) -> None: ...

    def on_message(self, data: bytes) -> None: ...

    def dropped(self, comes_back: bool) -> None: ...


class LinkSocket(Protocol):
    """One connection to the gateway, however it was opened."""

    over: asyncio.Future[None]

    @property
    def paused(self) -> bool: ...

    @property
    def close_code(self) -> int | None: ...

    @property
    def close_reason(self) -> str | None: ...

    @property
    def close_exc(self) -> Exception | None: ...

    def listen(self, listener: Ears) -> None: ...

    def send_text(self, data: bytes) -> bool: ...

    async def drained(self) -> None: ...

    async def close(self, code: int = 1000) -> None: ...


OpenLink: TypeAlias = Callable[[str], Awaitable[LinkSocket]]
"""Opens a connection to this address; raises `NotOpened` when there is none."""


class Link:
    """A link to the gateway that comes back by itself."""

    def __init__(
        self,
        url: Callable[[], str],
        token: str,
        is_local: bool,
        backoff: Backoff,
        ears: Ears,
        tls: "ssl.SSLContext | None" = None,
        open_link: OpenLink | None = None,
    ) -> None:
        """`url()` is asked before every attempt: a session that was begun goes on under its id.

        `open_link` opens each connection in place of a WebSocket.
        """
        self._open_link = open_link
        self._url = url
        self._token = token
        self._is_local = is_local
        self._backoff = backoff
        self._ears = ears
        self._tls = tls
        self._socket: LinkSocket | None = None
        self._scope: asyncio.Timeout | None = None
        self._is_closed = False
        self._close_code = 1001
        self._attempt = 0
        self._was_connected = False

    async def serve(self, *, is_patient: bool = True) -> None:
        """Keep the link up until `close`, or until the gateway ends it for good.

        `GatewayRefused` when it does not let us in, or sends us away; without patience `GatewayUnreachable` when it was
        never there.
        """
        try:
            async with asyncio.timeout(None) as self._scope:
                while not self._is_closed and not await self._once(is_patient):
                    delay = self._backoff.delay(self._attempt, random.random())
                    self._attempt += 1
                    await asyncio.sleep(delay)
        except TimeoutError:
            if not self._is_closed:  # pragma: no cover - nobody else moves the scope's end
                raise
        finally:
            self._scope = None

    def send(self, data: bytes) -> bool:
        """Send one text message. False: the link was not there, nothing was sent."""
        return self._socket is not None and self._socket.send_text(data)

    @property
    def is_choked(self) -> bool:
        """The gateway does not take what is sent: wait until it is `drained`."""
        return self._socket is not None and self._socket.paused

    async def drained(self) -> None:
        """Wait until the link takes more, or is gone."""
        if self._socket is not None:
            await self._socket.drained()

    def settled(self) -> None:
        """The gateway has answered: the next drop is a new one."""
        self._attempt = 0
        self._was_connected = True

    def close(self, code: int = _DELIBERATE) -> None:
        """End it, from wherever it is."""
        self._is_closed = True
        self._close_code = code
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _once(self, is_patient: bool) -> bool:
        """One link, from its opening to its end; True when the gateway ended it on purpose."""
        self._ears.opening()
        try:
            socket = self._socket = await self._open()
        except NotOpened as error:
            self._refused(error.status, error.body)
            return self._failed(str(error), is_patient)
        try:
            self._ears.opened()
            socket.listen(self._ears)
            await socket.over
        finally:
            self._socket = None
            try:
                await socket.close(self._close_code)
                _log.debug("the link dropped: %s", socket.close_exc)
            finally:
                comes_back = socket.close_code not in (_DELIBERATE, _SENT_AWAY)
                self._ears.dropped(comes_back and not self._is_closed)
        if socket.close_code == _SENT_AWAY and not self._is_closed:
            raise self._sent_away(socket.close_reason or "")
        return socket.close_code == _DELIBERATE

    async def _open(self) -> LinkSocket:
        if self._open_link is not None:
            return await self._open_link(self._url())
        # Their library loads with the first connection.
        from handspan.client.fast_socket import FastSocket  # noqa: PLC0415 - as above
        from handspan.client.socket import ClientSocket, open_socket  # noqa: PLC0415 - as above

        kind = FastSocket if IS_FAST else ClientSocket
        return await open_socket(self._url(), self._token, self._is_local, self._tls, kind)

    def _sent_away(self, reason: str) -> GatewayRefused:
        """ws.md 9.2: a person has to let this client in again."""
        said, place = strip_invisible(reason) or "no reason was given", self._url().partition("?")[0]
        hint = "pair this device anew, or give a token that is valid"
        return GatewayRefused(0, f"The gateway at {place} sent this client away ({said}): {hint}.")

    def _refused(self, status: int, body: bytes) -> None:
        said = strip_invisible(body.decode("utf-8", "replace")).strip()[:300]
        place = self._url().partition("?")[0]
        if status in (401, 403):
            what = "refused the token" if self._token else "wants a token"
            hint = "pair this device anew, or give a token that is valid" if status == 401 else "see what it says"
            raise GatewayRefused(status, f"The gateway at {place} {what} (HTTP {status}): {hint}. {said}".rstrip())
        if status in _NEVER_HERE and not self._was_connected:
            raise GatewayRefused(
                status,
                f"There is no gateway at {place} (HTTP {status}): check the address and its path. {said}".rstrip(),
            )

    def _failed(self, why: str, is_patient: bool) -> bool:
        place = self._url().partition("?")[0]
        if not is_patient and not self._was_connected:
            raise GatewayUnreachable(f"Nobody answers at {place}: {why}. Is the gateway running (`handspan serve`)?")
        _log.info("no link to %s: %s", place, why)
        return False
