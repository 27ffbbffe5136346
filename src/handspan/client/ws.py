"""The link of a client or device to the gateway: a WebSocket that reconnects after a drop, with backoff."""

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from handspan.client.address import Address, GatewayPlace
from handspan.client.errors import GatewayRefused, GatewayUnreachable, NotOpened
from handspan.core.fast import IS_FAST
from handspan.core.values import strip_invisible

_DELIBERATE: Final = 1000
"""The close code of a link that was closed on purpose."""
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_UNAVAILABLE: Final = 503
_REMOVED: Final = 1008
"""The close code for a client that a person has to let in again (ws.md 9.2)."""
_REPLACED: Final = 4001
"""The close code when a newer connection of this client took over, perhaps on another node.

This connection does not come back (ws.md 9.2).
"""
_WRONG_ADDRESS: Final = frozenset((400, 404, 405, 426))
"""Statuses that mean a wrong address, as long as no gateway has ever answered there."""
_PAIR_AGAIN: Final = "pair this device anew, or give a token that is valid"
_MAKE_TOKEN: Final = "`handspan tokens new LABEL --scope device` makes one"
_FITS_A_HEADER: Final = r"[!-~]*"
_NO_TOKEN: Final = (
    "This is no token: it has characters that none has. "
    "Give the one that `handspan tokens new LABEL --scope device` prints."
)
_LONGEST_HERE: Final = 3.0
"""The longest delay in seconds for a gateway on this computer."""
_log = logging.getLogger(__name__)


class Backoff(Struct, frozen=True):
    """How long to wait before the next attempt: twice as long each time, plus a random part.

    The random part keeps many clients from connecting at the same moment.
    """

    first: float = 1.0
    longest: float = 30.0
    spread: float = 0.5

    def delay(self, attempt: int, chance: float) -> float:
        """Return the seconds before this attempt; the first is 0. `chance` between 0 and 1 chooses the random part."""
        return float(min(self.longest, self.first * 2.0 ** min(attempt, 30)) * (1 + self.spread * chance))


def usual_backoff(address: Address) -> Backoff:
    """Return the backoff for this gateway: short on this computer, where few clients wait, and often a person does."""
    return Backoff(longest=_LONGEST_HERE) if address.is_local else Backoff()


class LinkListener(Protocol):
    """Gets what happens to the link. No method may block."""

    def on_opening(self) -> None: ...

    def on_open(self) -> None: ...

    def on_message(self, data: bytes) -> None: ...

    def on_drop(self, will_retry: bool) -> None: ...


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

    def listen(self, listener: LinkListener) -> None: ...

    def send_text(self, data: bytes) -> bool: ...

    async def wait_writable(self) -> None: ...

    async def close(self, code: int = 1000) -> None: ...


OpenLink: TypeAlias = Callable[[str], Awaitable[LinkSocket]]
"""Opens a connection to this address; raises `NotOpened` when that fails."""


class Link:
    """A link to the gateway that opens again after a drop."""

    def __init__(
        self,
        url: Callable[[], str],
        place: GatewayPlace,
        backoff: Backoff,
        listener: LinkListener,
        open_link: OpenLink | None = None,
    ) -> None:
        """`url()` is called before every attempt, so that a new link continues the session where the gateway is now.

        `open_link` opens each connection in place of a WebSocket.
        """
        self._open_link = open_link
        self._url = url
        self._place = place
        self._backoff = backoff
        self._listener = listener
        self._socket: LinkSocket | None = None
        self._scope: asyncio.Timeout | None = None
        """The time limit of `serve`: `close` lets it expire."""
        self._is_closed = False
        self._close_code = 1001
        self._attempt = 0
        self._was_connected = False
        self._logged = ""
        """The reason in the log why there is no link; empty after the gateway has answered."""

    async def serve(self, *, waits_for_gateway: bool = True) -> None:
        """Keep the link open until `close`, or until the gateway closes it for good.

        Raises `GatewayRefused` when the gateway refuses or removes this client. Raises `GatewayUnreachable` when no
        gateway has ever answered and `waits_for_gateway` is False.
        """
        if not re.fullmatch(_FITS_A_HEADER, self._place.token):
            raise GatewayRefused(0, _NO_TOKEN)
        try:
            async with asyncio.timeout(None) as self._scope:
                while not self._is_closed and not await self._run_link(waits_for_gateway=waits_for_gateway):
                    delay = self._backoff.delay(self._attempt, random.random())
                    self._attempt += 1
                    await asyncio.sleep(delay)
                    await self._place.refresh()
        except TimeoutError:
            if not self._is_closed:  # pragma: no cover - only `close` moves the end of the scope
                raise
        finally:
            self._scope = None

    def send(self, data: bytes) -> bool:
        """Send one text message. Return False, and send nothing, when there is no link."""
        return self._socket is not None and self._socket.send_text(data)

    @property
    def is_paused(self) -> bool:
        """Whether the gateway reads too slowly: call `wait_writable` before the next message."""
        return self._socket is not None and self._socket.paused

    async def wait_writable(self) -> None:
        """Wait until the link takes more messages, or has dropped."""
        if self._socket is not None:
            await self._socket.wait_writable()

    def mark_connected(self) -> None:
        """Note that the gateway has answered: the next drop begins with the shortest delay."""
        self._attempt = 0
        self._was_connected = True
        self._logged = ""

    def close(self, code: int = _DELIBERATE) -> None:
        """Close the link, or stop trying to open one."""
        self._is_closed = True
        self._close_code = code
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _run_link(self, *, waits_for_gateway: bool) -> bool:
        """Open one link and wait for its end. Return True when the gateway closed it on purpose."""
        self._listener.on_opening()
        try:
            socket = self._socket = await self._open()
        except NotOpened as error:
            if refusal := self._final_refusal(error.status, error.body):
                if error.status == _UNAUTHORIZED and await self._place.find_new_token():
                    return False
                raise refusal from None
            if not waits_for_gateway and not self._was_connected:
                raise GatewayUnreachable(self._explain_no_link(error)) from None
            said = f": {text}" if error.status and (text := _readable(error.body)) else ""
            self._log_no_link(f"{error}{said}")
            return False
        try:
            self._listener.on_open()
            socket.listen(self._listener)
            await socket.over
        finally:
            self._socket = None
            try:
                await socket.close(self._close_code)
                _log.debug("the link dropped: %s", socket.close_exc)
            finally:
                will_retry = socket.close_code not in (_DELIBERATE, _REMOVED, _REPLACED)
                self._listener.on_drop(will_retry and not self._is_closed)
        if socket.close_code == _REMOVED and not self._is_closed:
            reason = strip_invisible(socket.close_reason or "") or "no reason was given"
            raise GatewayRefused(0, f"The gateway at {self._address} removed this client ({reason}): {_PAIR_AGAIN}.")
        if socket.close_code == _REPLACED:
            _log.warning("Another connection of this client has taken over: this one stays away.")
        return socket.close_code in (_DELIBERATE, _REPLACED)

    def _log_no_link(self, why: str) -> None:
        """Log why there is no link: once, not after every attempt, which may come every few seconds."""
        if why != self._logged:
            self._logged = why
            _log.info("no link to %s: %s", self._address, why)

    def _explain_no_link(self, error: NotOpened) -> str:
        if error.status == _UNAVAILABLE:
            said = f" It says: {text}" if (text := _readable(error.body)) else ""
            return f"The gateway at {self._address} takes no connections now (HTTP 503): try again in a moment.{said}"
        return f"No gateway answers at {self._address}: {error}. Is the gateway running (`handspan serve`)?"

    async def _open(self) -> LinkSocket:
        """Return a new connection to the gateway."""
        if self._open_link is not None:
            return await self._open_link(self._url())
        # The library `websockets` loads with the first connection.
        from handspan.client.fast_socket import FastSocket  # noqa: PLC0415 - as above
        from handspan.client.socket import ClientSocket, open_socket  # noqa: PLC0415 - as above

        kind = FastSocket if IS_FAST else ClientSocket
        return await open_socket(self._url(), self._place, kind)

    @property
    def _address(self) -> str:
        """The URL without its query, for messages."""
        return self._url().partition("?")[0]

    def _final_refusal(self, status: int, body: bytes) -> GatewayRefused | None:
        """Return the error for a refusal that another attempt would get again; None for any other refusal."""
        text = _readable(body)
        if status == _UNAUTHORIZED:  # what a gateway says with it is for programs that speak HTTP
            what = "refused the token" if self._place.token else "wants a token"
            message = f"The gateway at {self._address} {what} (HTTP 401): {_PAIR_AGAIN} ({_MAKE_TOKEN})."
            return GatewayRefused(status, message)
        if status == _FORBIDDEN:  # the host, the origin or the scopes of the token: the gateway says which
            message = f"The gateway at {self._address} does not admit this client (HTTP 403). {text}"
            return GatewayRefused(status, message.rstrip())
        if status in _WRONG_ADDRESS and not self._was_connected:
            message = f"There is no gateway at {self._address} (HTTP {status}): check the address and its path. {text}"
            return GatewayRefused(status, message.rstrip())
        return None


def _readable(body: bytes) -> str:
    """Return the text of a refusal; of an error in JSON, its message."""
    text = body.decode("utf-8", "replace")
    with contextlib.suppress(msgspec.DecodeError, ValueError):
        text = msgspec.json.decode(body, type=_RefusedUpgrade).error
    return strip_invisible(text).strip()[:300]


class _RefusedUpgrade(Struct, frozen=True):
    error: str
