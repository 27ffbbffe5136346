"""How a new client gets a token: a pairing code for devices and programs, a sign-in link for browsers (SPEC S5).

Only a person with a token can make them. Each works once and for a short time. Of several nodes, each knows
the codes of all.
"""

import io
import math
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from handspan.core.late_imports import segno
from handspan.core.nodes import EntryCode, Nodes
from handspan.core.principals import DEVICE_SCOPES, Principal
from handspan.gateway.entry.auth import ADMIN, SCOPES, Auth, may
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.entry.tokens import hash_of, new_token
from handspan.gateway.http.refusals import Refusal

CODE_SECONDS: Final = 300.0
LINK_SECONDS: Final = 600.0

_CODE: Final = "code"
_LINK: Final = "link"
_WRONG_TRIES: Final = 5
_DIGITS: Final = 12
_MAX_CODES: Final = 16
"""How many codes may be open at once; a new one replaces the oldest."""


class NewAccess(Struct, frozen=True):
    """The token that a code was exchanged for, and what it may do."""

    token: str
    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"NewAccess(scopes={self.scopes!r})"


class PairingCode(Struct, frozen=True):
    """A code with which one device gets a token."""

    code: str
    scopes: tuple[str, ...]
    expires_in: float

    def __repr__(self) -> str:
        """Without the code: a repr ends up in logs."""
        return f"PairingCode(scopes={self.scopes!r})"


class Pairing:
    """Makes codes and links, and exchanges them for tokens."""

    def __init__(self, auth: Auth, nodes: Nodes, clock: Callable[[], float] = time.time) -> None:
        self._auth = auth
        self._codes = nodes.codes
        self.tries = TryLimit(10, 60.0, clock=clock, share=partial(nodes.work.share_tries, "pairing"))

    async def new_code(self, who: Principal, scopes: tuple[str, ...] = DEVICE_SCOPES) -> PairingCode:
        """Make a pairing code for a device of this owner, valid for five minutes on every node. Raises `StoreError`."""
        _check(who, scopes)
        digits = f"{secrets.randbelow(10**_DIGITS):0{_DIGITS}}"
        await self._add(EntryCode(hash_of(digits), _CODE, who.owner, scopes), CODE_SECONDS)
        return PairingCode(f"{digits[:4]}-{digits[4:8]}-{digits[8:]}", scopes, CODE_SECONDS)

    async def pair(self, code: str, label: str, address: str, scopes: tuple[str, ...] | None = None) -> NewAccess:
        """Check a pairing code and return its token, with those of its scopes that the client needs (None: all).

        Raises `Refusal` for a wrong code; five wrong codes end every open one.
        """
        if wait := self.tries.wait(address):
            text = f"Too many tries to pair came from this address: wait {math.ceil(wait)} s."
            raise Refusal(429, "too_many_tries", text, wait)
        self.tries.note(address)
        digits = code.strip().replace("-", "").replace(" ", "")
        found = await self._codes.take(hash_of(digits), _CODE)
        if found is None:
            await self._count_wrong(digits)
            raise Refusal(403, "wrong_code", "This pairing code is wrong, used or too old: ask for a new one.")
        granted = tuple(scope for scope in found.scopes if scopes is None or scope in scopes)
        if not granted:
            text = f"The code gives the scopes {', '.join(found.scopes)}, and the client needs none of them."
            raise Refusal(403, "forbidden", text)
        return NewAccess(await self._auth.issue(found.owner, granted, label or "paired device"), granted)

    async def new_link(self, who: Principal) -> str:
        """Return the code of a link that signs in one browser as this person for ten minutes. Raises `StoreError`."""
        code = new_token()
        await self._add(EntryCode(hash_of(code), _LINK, who.owner, who.scopes), LINK_SECONDS)
        return code

    async def sign_in(self, code: str) -> str | None:
        """Return the token for the browser's cookie; None when the link is wrong, used or too old."""
        found = await self._codes.take(hash_of(code), _LINK)
        return None if found is None else await self._auth.issue(found.owner, found.scopes, page=True)

    async def _add(self, code: EntryCode, seconds: float) -> None:
        await self._codes.add(code, seconds, _WRONG_TRIES, _MAX_CODES)

    async def _count_wrong(self, digits: str) -> None:
        """Count a wrong code against every open one. A typing error does not count."""
        if len(digits) == _DIGITS and digits.isascii() and digits.isdecimal():
            await self._codes.count_wrong(_CODE)


def pairing_url(base: str, code: str, pin: str | None = None) -> str:
    """Return the address that a phone scans. Browsers do not send the part after `#`, so no log has the code.

    With the pin of the gateway's own root a client can fetch that root and know that it is the right one.
    """
    root = "" if pin is None else f"root={pin}&"
    return f"{base}/device#{root}code={code}"


def sign_in_url(base: str, code: str) -> str:
    """Return the address that signs a person in."""
    return f"{base}/signin?code={code}"


def _check(who: Principal, scopes: tuple[str, ...]) -> None:
    """Raise `Refusal` unless this person may make a code, and the scopes exist."""
    if not may(who, ADMIN):
        raise Refusal(403, "forbidden", "Only a token with the scope 'admin' makes pairing codes.")
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        raise Refusal(
            422, "bad_request", f"There is no scope {unknown[0]!r}: name some of {', '.join(map(repr, SCOPES))}."
        )
    if not scopes:
        raise Refusal(422, "bad_request", f"A token needs a scope: name some of {', '.join(map(repr, SCOPES))}.")


def qr_text(url: str) -> str:
    """Return a QR code in block characters, dark on light as terminals and cameras want it."""
    text = io.StringIO()
    segno.make(url, error="l", micro=False).terminal(out=text, border=2, compact=True)
    return text.getvalue()


def qr_svg(url: str) -> str:
    """Return a QR code as an SVG image that scales, dark on light also on a dark page."""
    image = io.BytesIO()
    segno.make(url, error="m", micro=False).save(
        image, kind="svg", xmldecl=False, scale=4, border=4, omitsize=True, light="white", nl=False
    )
    return image.getvalue().decode()
