"""Tokens: how they are made and compared, and where a request may have one (SPEC S5, ws.md 1.2)."""

import hashlib
import hmac
import secrets
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_plus

from starlette.types import Scope

from handspan.gateway.entry.host_policy import header_of, is_secure

Via: TypeAlias = Literal["header", "subprotocol", "query", "cookie"]

PAGE: Final = "page."
"""The prefix of the page's tokens. Only they are accepted in a cookie, and only there."""
PAGE_SECONDS: Final = 30 * 24 * 3600

AGENTFLOW: Final = "agentflow-bearer"
"""The sub-protocol that is followed by the token as the next entry (graph.md 7.1)."""

_SUBPROTOCOL: Final = "bearer."
_BEARER: Final = "bearer"
_MOST_LOOKED_AT: Final = 16
"""Sub-protocols, tokens in a query and cookies of our name that are looked at: a header has room for thousands."""


class PresentedToken(NamedTuple):
    """A token of a request, not checked yet."""

    token: str
    via: Via

    def __repr__(self) -> str:
        """Return a text without the token, because it may end up in logs."""
        return f"PresentedToken(via={self.via!r})"


def new_token() -> str:
    """Return a new token: 256 random bits, in characters that are safe in headers, addresses and cookies."""
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """Return the hash under which a token is stored. It needs no salt: there are too many tokens to try."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are equal, compared in constant time. All secrets are compared here."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def find_token(scope: Scope) -> PresentedToken | None:
    """Return the token of the header, the sub-protocol, the query or the cookie, in this order; None without one."""
    if token := _of_header(scope):
        return PresentedToken(token, "header")
    if token := _of_subprotocols(scope):
        return PresentedToken(token, "subprotocol")
    if token := _of_query(scope):
        return PresentedToken(token, "query")
    if token := _of_cookie(scope):
        return PresentedToken(token, "cookie")
    return None


def page_cookie(scope: Scope, token: str, prefix: str) -> bytes:
    """Return the cookie header with the page's token. No script and no other site can read the cookie."""
    rest = f"Path={prefix or '/'}; Max-Age={PAGE_SECONDS}{'; Secure' if is_secure(scope) else ''}"
    return f"{_cookie_name(scope)}={token}; HttpOnly; SameSite=Strict; {rest}".encode()


def _of_header(scope: Scope) -> str:
    scheme, _, token = (header_of(scope, b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


def _of_subprotocols(scope: Scope) -> str:
    """Return the token among the subprotocols that a WebSocket offers: browsers can send it nowhere else."""
    offered = [
        entry.strip()
        for name, value in scope["headers"]
        if name == b"sec-websocket-protocol"
        for entry in value.decode("latin-1").split(",", _MOST_LOOKED_AT)[:_MOST_LOOKED_AT]
    ]
    if token := next((rest for entry in offered if (rest := _after(entry, _SUBPROTOCOL))), ""):
        return token
    return next((token for entry, token in pairwise(offered) if entry == AGENTFLOW), "")


def _of_query(scope: Scope) -> str:
    _, *given = (b"&" + scope.get("query_string", b"")).split(b"&token=", _MOST_LOOKED_AT)
    token = next((value for rest in given if (value := rest.partition(b"&")[0])), b"")
    return unquote_plus(token.decode("latin-1"))


def _of_cookie(scope: Scope) -> str:
    """Return the token in our cookie; empty without one."""
    name = f"{_cookie_name(scope)}=".encode()
    for key, value in scope["headers"]:
        if key == b"cookie":
            for before, rest in pairwise((b";" + value).split(name, _MOST_LOOKED_AT)):
                token: bytes = rest.partition(b";")[0].strip()
                if token and before.rstrip().endswith(b";"):
                    return token.decode("latin-1")
    return ""


def _after(text: str, beginning: str) -> str:
    return text[len(beginning) :] if text.startswith(beginning) else ""


def _cookie_name(scope: Scope) -> str:
    """Return a name with the port: browsers share cookies between ports, and two gateways need their own."""
    _, port = scope.get("server") or ("", None)
    return "handspan_page" if port is None else f"handspan_page_{port}"
