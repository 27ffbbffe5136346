"""What a token looks like, where in a request it stands, and how two of them are compared (SPEC S5, ws.md 1.2)."""

import hashlib
import hmac
import secrets
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from starlette.types import Scope

from handspan.gateway.entry.host_policy import header_of, is_secure

Via: TypeAlias = Literal["header", "subprotocol", "query", "cookie"]

PAGE: Final = "page."
"""What the tokens of the page begin with. They come by cookie alone, and nothing else does."""
PAGE_SECONDS: Final = 30 * 24 * 3600

AGENTFLOW: Final = "agentflow-bearer"
"""The sub-protocol after which the token stands as an entry of its own (graph.md 7.1)."""

_SUBPROTOCOL: Final = "bearer."
_BEARER: Final = "bearer"


class PresentedToken(NamedTuple):
    """A token that somebody shows; whether it is worth anything is not known yet."""

    token: str
    via: Via

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"Shown(via={self.via!r})"


def new_token() -> str:
    """A token that nobody can guess: 256 random bits, in characters that headers, addresses and cookies take."""
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """What is kept of a token. It needs no salt: nobody can try all tokens."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are the same; how long that takes says nothing about them. The only comparison there is."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def find_token(scope: Scope) -> PresentedToken | None:
    """The token of the first place that has one: header, sub-protocol, query, cookie. An empty one is none."""
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
    """The header that makes a browser keep the page's token, where no script and no other site gets at it."""
    kept = f"Path={prefix or '/'}; Max-Age={PAGE_SECONDS}{'; Secure' if is_secure(scope) else ''}"
    return f"{_cookie_name(scope)}={token}; HttpOnly; SameSite=Strict; {kept}".encode()


def _of_header(scope: Scope) -> str:
    scheme, _, token = (header_of(scope, b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


def _of_subprotocols(scope: Scope) -> str:
    offered = [
        entry.strip()
        for name, value in scope["headers"]
        if name == b"sec-websocket-protocol"
        for entry in value.decode("latin-1").split(",")
    ]
    if token := next((rest for entry in offered if (rest := _after(entry, _SUBPROTOCOL))), ""):
        return token
    return next((token for entry, token in pairwise(offered) if entry == AGENTFLOW), "")


def _of_query(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    if b"token=" not in query:
        return ""
    return next((value for name, value in parse_qsl(query.decode("latin-1")) if name == "token"), "")


def _of_cookie(scope: Scope) -> str:
    name = f"{_cookie_name(scope)}="
    pairs = (
        pair.strip()
        for key, value in scope["headers"]
        if key == b"cookie"
        for pair in value.decode("latin-1").split(";")
    )
    return next((rest for pair in pairs if (rest := _after(pair, name))), "")


def _after(text: str, beginning: str) -> str:
    return text[len(beginning) :] if text.startswith(beginning) else ""


def _cookie_name(scope: Scope) -> str:
    """One for each port: browsers keep cookies by host alone, and two gateways must not sign each other out."""
    _, port = scope.get("server") or ("", None)
    return "handspan_page" if port is None else f"handspan_page_{port}"
