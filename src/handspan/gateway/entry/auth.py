"""Authentication: here a token is checked, after the Host and the Origin of the request (SPEC S5).

Every request and every connection is checked anew: a token that any process has revoked is refused at once.
"""

import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send

from handspan.config.settings import Settings
from handspan.core.bounded import BoundedDict
from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.core.nodes import Nodes
from handspan.core.principals import OPERATOR, Principal, TokenScope
from handspan.core.records import Token
from handspan.core.store import TokenBook
from handspan.core.values import strip_invisible
from handspan.gateway.entry.host_policy import HostPolicy, address_of, header_of, is_local
from handspan.gateway.entry.operator_token import OPERATOR_LABEL, is_operator_label, open_operator_token
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.entry.tokens import (
    PAGE,
    PAGE_SECONDS,
    PresentedToken,
    Via,
    find_token,
    hash_of,
    is_same,
    new_token,
    page_cookie,
)
from handspan.gateway.http.refusals import Header, Refusal, send_refusal, send_whole

SCOPES: Final[tuple[TokenScope, ...]] = ("chat", "device", "tools", "admin")
ADMIN: Final[TokenScope] = "admin"
PAGE_LABEL: Final = "page"
INSIDE: Final = "handspan.inside"
"""The key of `Admitted` in an ASGI scope's extensions, for a gateway inside its own process. No client can set it."""

_log = logging.getLogger(__name__)

_SAFE: Final = frozenset({"GET", "HEAD"})
_OPEN: Final = frozenset(
    {
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/ping"),
        ("POST", "/pair"),
        ("GET", "/pair"),
        ("GET", "/device"),
        ("GET", "/device/root.crt"),
        ("GET", "/device/root.mobileconfig"),
        ("GET", "/signin"),
        ("GET", "/oauth/callback"),
        ("GET", "/worker.js"),
        ("GET", "/manifest.webmanifest"),
        ("POST", "/push/answer"),
        ("GET", "/"),
    }
)
_SIGNED: Final = "/channels/"
"""Requests below this path are signed with the secret of their channel; the route itself checks that."""
_OPEN_FOLDERS: Final = ("/page/", "/sdk/", "/examples/")
_RENEWED_AFTER: Final = 60.0
"""Seconds after which an answer prolongs the browser's cookie again."""
_MAX_REVOKED: Final = 10_000
"""Revoked tokens that are remembered: requests older than the last so many revocations are long answered."""
_LONGEST_LABEL: Final = 64
_LONGEST_PATH: Final = 200
_LONGEST_CLIENT: Final = 80
_HEADERS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
_SEVERAL: Final = frozenset({b"set-cookie", b"vary"})
"""Headers that a response may have several times."""
_PREFLIGHT: Final[tuple[Header, ...]] = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, range, last-event-id, idempotency-key, x-pairing-code, x-session-id, x-persona,"
        b" x-idempotency-key, x-webhook-secret, x-chat-id, openai-organization, openai-project, x-stainless-arch,"
        b" x-stainless-async, x-stainless-helper-method, x-stainless-lang, x-stainless-os, x-stainless-package-version,"
        b" x-stainless-poll-helper, x-stainless-custom-poll-interval, x-stainless-retry-count, x-stainless-runtime,"
        b" x-stainless-runtime-version, x-stainless-timeout",
    ),
    (b"access-control-max-age", b"600"),
)
_EXPOSED: Final[Header] = (
    b"access-control-expose-headers",
    b"content-range, etag, location, retry-after, x-request-id, x-timestamp",
)


class Admitted(Struct, frozen=True):
    """The principal and the token of a request that was let in."""

    who: Principal
    """Owner and scopes as the store has them."""
    token: str
    """The hash of the token. When the token is revoked, its connections are closed."""
    via: Via
    renews: bool = False
    """Whether the answer prolongs the browser's cookie."""

    def may(self, scope: TokenScope) -> bool:
        """Whether the token has this scope; `admin` has them all."""
        return may(self.who, scope)

    def require(self, scope: TokenScope) -> None:
        """Raise `Refusal` when the token lacks this scope."""
        if self.may(scope):
            return
        text = f"This token lacks the scope {scope!r}: use one that has it."
        if scope in self.who.scopes:  # SPEC F1
            bound = ", ".join(self.who.agents)
            text = f"This token is bound to an agent ({bound}), and only talks to it: use one that is not bound."
        raise Refusal(403, "forbidden", text)

    def require_front(self) -> None:
        """Raise `Refusal` when the token may not talk to agents at a front, where one bound to agents may, too."""
        if "chat" not in self.who.scopes:
            self.require("chat")


def check_agent(who: Principal, name: str) -> None:
    """Raise `Refusal` when the token is bound to agents, and this is none of them."""
    if who.agents and name not in who.agents:
        raise Refusal(403, "forbidden", f"This token is for other agents only: {', '.join(who.agents)}.")


def may(who: Principal, scope: TokenScope) -> bool:
    """Whether the principal has this scope. `admin` has them all, and `chat` can do what `tools` can.

    A token with `chat` that is bound to agents talks to them at the fronts alone (SPEC F1).
    """
    has_chat = "chat" in who.scopes and not who.agents
    if scope == "chat":
        return has_chat or ADMIN in who.scopes
    return scope in who.scopes or ADMIN in who.scopes or (scope == "tools" and has_chat)


class Auth:
    """Admits requests by their tokens. Call `open` before the first request."""

    def __init__(
        self, settings: Settings, tokens: TokenBook, nodes: Nodes, clock: Callable[[], float] = time.time
    ) -> None:
        """All nodes learn of every token that is revoked here."""
        self.host_policy = HostPolicy(settings.gateway)
        self.prefix = settings.gateway.path_prefix
        self.operator_token = ""
        """The token of the person who runs this gateway; set by `open`."""
        self._operator_hash = ""
        """The hash of the operator's token; empty after that was revoked."""
        self._revoked_lately: BoundedDict[str, None] = BoundedDict(_MAX_REVOKED)
        """The hashes of the tokens that were revoked last, oldest first."""
        self._tokens = tokens
        self._state = settings.state
        self._bus = nodes.bus
        self._clock = clock
        self.tries = TryLimit(10, 60.0, 300.0, clock=clock, share=partial(nodes.work.share_tries, "token"))
        self._nodes = nodes

    async def open(self) -> None:
        """Find or make the operator's token. Raises `ConfigError` when its file or the setting can't be used."""
        self.operator_token = await open_operator_token(
            self._state, self._tokens, node=self._nodes.name, shared=self._nodes.operator_token
        )
        self._operator_hash = hash_of(self.operator_token)

    async def end_own_token(self) -> None:
        """Revoke the operator's token of this node, which has stopped. One that all nodes share stays."""
        if not self._nodes.operator_token and self._operator_hash:
            await self.revoke(self._operator_hash, OPERATOR.owner)

    async def admit(self, scope: Scope) -> Admitted:
        """Return the principal of a request with a known Host, Origin and token. Raises `Refusal` for all others."""
        self.host_policy.check(scope)
        return await self.identify(scope)

    async def admit_socket(
        self, scope: Scope, receive: Receive, send: Send, is_open: Callable[[], bool], needs: TokenScope | None = None
    ) -> Admitted | None:
        """Return the principal of a WebSocket that may be accepted; None for any other, which is sent its refusal.

        `is_open`: whether the gateway takes new connections; `needs`: the scope that the token must have.
        """
        await receive()
        try:
            admitted = await self.admit(scope)
            if needs is not None:
                admitted.require(needs)
            if not is_open():
                raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
        except Refusal as refused:
            log_refusal(refused, scope)
            await send_refusal(refused, scope, send)
            return None
        return admitted

    async def identify(self, scope: Scope) -> Admitted:
        """Return the principal of a request whose Host and Origin are already checked.

        Raises `Refusal` without a valid token.
        """
        inside: Admitted | None = scope.get("extensions", {}).get(INSIDE)
        if inside is not None:
            return inside
        presented = find_token(scope)
        if presented is None:
            raise unauthorized_refusal()
        if presented.via == "cookie":
            self._check_own_page(scope)
        address = address_of(scope)
        if not is_local(address):  # on this computer, a valid token passes even if another program guesses
            self._check_tries(address)
        record = await self._find(presented)
        if record is None:
            self._check_tries(address)
            self.tries.note(address)
            raise unauthorized_refusal()
        await self._nodes.follow(record.owner)
        renews = presented.via == "cookie" and (record.last_seen or 0.0) < self._clock() - _RENEWED_AFTER
        return Admitted(Principal(record.owner, record.scopes), record.hash, presented.via, renews)

    async def issue(self, owner: str, scopes: tuple[str, ...], label: str = "", *, page: bool = False) -> str:
        """Return a new token for this owner. Only its hash is stored."""
        token = f"{PAGE if page else ''}{new_token()}"
        await self._tokens.add(hash_of(token), owner=owner, scopes=scopes, label=PAGE_LABEL if page else _label(label))
        return token

    async def revoke(self, token_hash: str, owner: str) -> bool:
        """Revoke a token and close its connections. Return False when the owner has no such token."""
        if not await self._tokens.revoke(token_hash, owner=owner):
            return False
        self.note_revoked(token_hash)
        self._bus.publish(TokenRevoked(owner, token_hash))
        return True

    def note_revoked(self, token_hash: str) -> None:
        """Remember that this token was revoked: `refuse_revoked` then stops requests that it has already admitted."""
        self._revoked_lately[token_hash] = None
        if token_hash == self._operator_hash:
            self._operator_hash = ""

    def refuse_revoked(self, admitted: Admitted) -> None:
        """Raise `Refusal` when the token was revoked after the request was admitted: for slow requests."""
        if admitted.token in self._revoked_lately:
            raise unauthorized_refusal()

    def reset_tries(self, scope: Scope) -> None:
        """Forget the wrong tokens of this address: it has just shown a valid one."""
        self.tries.forget(address_of(scope))

    def _check_tries(self, address: str) -> None:
        if wait := self.tries.wait(address):
            text = f"Too many wrong tokens came from this address: wait {math.ceil(wait)} s, and check the token."
            raise Refusal(429, "too_many_tries", text, wait)

    async def _find(self, presented: PresentedToken) -> Token | None:
        """Return the stored token; None for an invalid one. Raises `Refusal` when the store is away."""
        if presented.token.startswith(PAGE) != (presented.via == "cookie"):
            return None
        token_hash = hash_of(presented.token)
        try:
            record = await self._tokens.find(token_hash)
            if record is None or not is_same(record.hash, token_hash):
                return None
            if presented.via == "cookie" and (record.last_seen or record.created) < self._clock() - PAGE_SECONDS:
                await self.revoke(record.hash, record.owner)
                return None
        except StoreError:
            if presented.via != "cookie" and is_same(self._operator_hash, token_hash):
                # The operator can ask what is wrong with the store (`handspan doctor`).
                owner, scopes = OPERATOR.owner, OPERATOR.scopes
                return Token(token_hash, owner, scopes, OPERATOR_LABEL, created=0.0, last_seen=None, revoked=None)
            raise Refusal(503, "unavailable", "Tokens can't be looked up at the moment: try again later.", 5) from None
        return record

    def _check_own_page(self, scope: Scope) -> None:
        """Raise `Refusal` unless our own page sent the request: browsers add the cookie to requests of any page."""
        is_own, site = self.host_policy.is_own_origin(scope), header_of(scope, b"sec-fetch-site")
        if scope["type"] == "http" and scope["method"] in _SAFE:
            good = site in (None, "same-origin", "none") and (is_own or header_of(scope, b"origin") is None)
        else:
            good = is_own or (scope["type"] == "http" and site == "same-origin" and header_of(scope, b"origin") is None)
        if not good:
            text = "This cookie is for the gateway's own page: other pages and programs need a token of their own."
            raise Refusal(403, "foreign_request", text)


async def let_in(auth: Auth, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send] | None:
    """Return `receive` and `send` for an HTTP request that is admitted or needs no token; None for all others.

    `scope["state"]["admitted"]` has the principal. A request that is not let in was answered here.
    """
    more: list[Header] = [*_HEADERS]
    send = _with_headers(send, more)
    try:
        auth.host_policy.check(scope)
        if allowed := auth.host_policy.allowed_origin(scope):
            more += [(b"access-control-allow-origin", allowed.encode("latin-1")), (b"vary", b"Origin"), _EXPOSED]
            if scope["method"] == "OPTIONS" and header_of(scope, b"access-control-request-method"):
                await send_whole(send, 204, _PREFLIGHT)
                return None
        if not is_open(scope):
            admitted = await auth.identify(scope)
            scope.setdefault("state", {})["admitted"] = admitted
            receive = _receive_while_admitted(auth, receive, admitted)
            if admitted.renews and (presented := find_token(scope)):
                more.append((b"set-cookie", page_cookie(scope, presented.token, auth.prefix)))
    except Refusal as refusal:
        log_refusal(refusal, scope)
        await send_refusal(refusal, scope, send)
        return None
    return receive, send


def is_let_in(scope: Scope) -> bool:
    """Whether `let_in` has found a valid token in this HTTP request."""
    return "admitted" in scope["state"]


def log_refusal(refusal: Refusal, scope: Scope) -> None:
    """Log a request that is not let in: where it comes from, and why not. Its query may hold a token: never that."""
    method, path, address = scope.get("method", "WebSocket"), scope["path"][:_LONGEST_PATH], address_of(scope)
    client = strip_invisible((header_of(scope, b"user-agent") or "")[:_LONGEST_CLIENT])
    about = {"event": "refused", "path": path, "address": address, "status": refusal.status, "code": refusal.code}
    named = f", client {client!r}" if client else ""
    if refusal.code == "unknown_origin":  # a person has to know which one to add to the settings
        about["origin"] = strip_invisible((header_of(scope, b"origin") or "")[:_LONGEST_CLIENT])
        named = f", origin {about['origin']!r}{named}"
    text = "%s %s from %s refused: %d %s%s"
    _log.info(text, method, path, address, refusal.status, refusal.code, named, extra={**about, "client": client})


def _receive_while_admitted(auth: Auth, receive: Receive, admitted: Admitted) -> Receive:
    """Return a `receive` that refuses the body once the token is revoked: an incomplete request is not done."""

    async def receive_more() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            auth.refuse_revoked(admitted)
        return message

    return receive_more


def is_open(scope: Scope) -> bool:
    """Whether this route needs no token: its answer is the same for all clients (SPEC S5)."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    path: str = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
    if (method, path) in _OPEN or (method == "POST" and path.startswith(_SIGNED)):
        return True
    return method == "GET" and path.startswith(_OPEN_FOLDERS) and ".." not in path.split("/")


def _with_headers(send: Send, more: list[Header]) -> Send:
    """Return a `send` that adds these headers to responses that lack them."""

    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name for name, _ in headers}
            headers += [header for header in more if header[0] not in names or header[0] in _SEVERAL]
            message = {**message, "headers": headers}
        await send(message)

    return send_more


def _label(given: str) -> str:
    """Return a label that can be shown to people, and is none of the reserved labels."""
    label = " ".join(strip_invisible(given).split())[:_LONGEST_LABEL]
    return f"{label} (device)" if is_operator_label(label) or label == PAGE_LABEL else label


def unauthorized_refusal() -> Refusal:
    """Return the refusal for a missing and for an invalid token: the text is the same."""
    text = (
        "No valid token. Make one with `handspan tokens new NAME --scope chat`, or pair (POST /pair with a code); then "
        "send 'Authorization: Bearer TOKEN'."
    )
    return Refusal(401, "unauthorized", text)
