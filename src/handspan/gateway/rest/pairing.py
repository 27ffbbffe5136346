"""How a client gets access: pairing codes, sign-in links, tokens (SPEC S5); and the page at `/`.

`/`, `/pair` and `/signin` are open: they answer every caller the same.
"""

import html
from typing import Final

from handspan.core.errors import StoreError
from handspan.core.principals import AGENT_SCOPE
from handspan.core.records import Token
from handspan.gateway.entry.host_policy import address_of
from handspan.gateway.entry.pairing import LINK_SECONDS, sign_in_url
from handspan.gateway.entry.tokens import hash_of, page_cookie
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE, moment
from handspan.gateway.listening import url_for_others
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import HTML, Family, Visit
from handspan.wire.rest.tokens import (
    MadeCode,
    MadeToken,
    NewCode,
    NewToken,
    PairBody,
    Paired,
    PairHeaders,
    RevokedToken,
    ShownToken,
    SignInLink,
    SignInQuery,
    TokenList,
)

family: Final = Family("pairing")
_ID_LENGTH: Final = 16
"""Characters of a token's hash that make its id: enough to tell the owner's tokens apart."""

PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Handspan</title>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
"""A page for a browser that came here: `{title}` and `{text}`."""
_HOME: Final = PAGE.format(
    title="Handspan is running",
    text="Talk to it with <code>handspan chat</code>, bring this computer's tools with <code>handspan device</code>, "
    'or see how the agent <a href="{prefix}/examples/browser_tools/">uses tools of a page</a>; '
    'programs find the contract at <a href="{prefix}/openapi.json">openapi.json</a>.',
)
_PAIR: Final = PAGE.format(
    title="Pair a device",
    text="This address is for an app: scan the code with it, or type the digits that stand behind it.",
)
_TOO_LATE: Final = PAGE.format(
    title="This link does not work any more",
    text="A sign-in link works once, for ten minutes. <code>handspan pair --browser</code> shows a new one.",
)
_NOT_YET: Final = PAGE.format(title="Not yet", text="A sign-in link is opened by a person, not ahead of one.")


@family.get("/", "open", media_type=HTML)
async def home(visit: Visit) -> AsgiResponse:
    """The page at the address of the gateway."""
    return respond_html(_HOME.replace("{prefix}", html.escape(visit.parts.auth.prefix)))


@family.post("/pair", "open", lenient=True, size="tiny", also_refuses=(403, 429, 503))
async def pair(visit: Visit, headers: PairHeaders, body: PairBody) -> Paired:
    """A token for a pairing code, which is in the header or in the body.

    Other fields of the body are ignored. One address has ten tries a minute; then it has to wait.
    """
    parts, scope = visit.parts, visit.request.scope
    try:
        token = await parts.pairing.pair(headers.x_pairing_code.strip() or body.code, body.label, address_of(scope))
    except StoreError:
        text = "The token can't be stored at the moment: ask for a new code."
        raise Refusal(503, "unavailable", text, 5) from None
    parts.auth.forgive(scope)
    return Paired(token, "Paired: send this token as 'Authorization: Bearer TOKEN'. It is not shown again.")


@family.get("/pair", "open", media_type=HTML)
async def pair_page(visit: Visit) -> AsgiResponse:
    """The page that a browser shows after scanning a QR code."""
    return respond_html(_PAIR)


@family.get("/signin", "open", status=303, media_type=HTML, also={403: AsgiResponse, 503: AsgiResponse})
async def sign_in(visit: Visit, query: SignInQuery) -> AsgiResponse:
    """The cookie for the browser that has the link, and a redirect to the page."""
    request, auth = visit.request, visit.parts.auth
    if request.method == "HEAD" or "sec-purpose" in request.headers:  # a preview: the person has not clicked yet
        return respond_html(_NOT_YET, 503)
    try:
        token = await visit.parts.pairing.sign_in(query.code)
    except StoreError:
        return respond_html(_TOO_LATE, 503)
    if token is None and not await _is_signed_in(visit):
        return respond_html(_TOO_LATE, 403)
    headers = {**PRIVATE, "location": f"{auth.prefix}/"}
    if token is not None:
        auth.forgive(request.scope)
        headers["set-cookie"] = page_cookie(request.scope, token, auth.prefix).decode()
    return AsgiResponse(b"", 303, headers)


@family.post("/api/signin", "admin", status=201)
async def create_link(visit: Visit) -> SignInLink:
    """A new sign-in link for the caller."""
    request = visit.request
    base = f"{request.scope['scheme']}://{request.headers['host']}{visit.parts.auth.prefix}"
    return SignInLink(sign_in_url(base, visit.parts.pairing.new_link(visit.who)), LINK_SECONDS)


@family.get("/api/tokens", "admin", tag="tokens")
async def tokens(visit: Visit) -> TokenList:
    """The caller's tokens, revoked ones too."""
    found = await visit.parts.store.tokens.all(owner=visit.owner)
    return TokenList([_render_token(visit, token) for token in found])


@family.post("/api/tokens", "admin", status=201, also_refuses=(409,), tag="tokens")
async def create_token(visit: Visit, body: NewToken) -> MadeToken:
    """A new token of the caller, for a program or a device."""
    scopes = (*dict.fromkeys(body.scopes), *await _agent_scopes(visit, body))
    token = await visit.parts.auth.issue(visit.owner, scopes, body.label)
    visit.publish("tokens", change="created")
    return MadeToken(token, hash_of(token)[:_ID_LENGTH], scopes, body.label)


@family.delete("/api/tokens/{token_id}", "admin", tag="tokens")
async def revoke_token(visit: Visit, token_id: str) -> RevokedToken:
    """Revoke a token. Connections that it opened close at once."""
    known = {token.hash[:_ID_LENGTH]: token.hash for token in await visit.parts.store.tokens.all(owner=visit.owner)}
    if token_id not in known or not await visit.parts.auth.revoke(known[token_id], visit.owner):
        raise not_found("token", token_id)
    visit.publish("tokens", change="revoked", id=token_id)
    return RevokedToken(True, token_id)


@family.post("/api/pairing", "admin", status=201, tag="tokens")
async def create_code(visit: Visit, body: NewCode) -> MadeCode:
    """A pairing code for one device (`POST /pair`). It works once, and for a short time."""
    made = visit.parts.pairing.new_code(visit.who, tuple(dict.fromkeys(body.scopes)))
    settings = visit.parts.app.settings.gateway
    _, port = visit.request.scope.get("server") or ("", None)
    return MadeCode(made.code, made.scopes, made.expires_in, url_for_others(settings, port or settings.port))


async def _agent_scopes(visit: Visit, body: NewToken) -> tuple[str, ...]:
    """Return the scopes that bind a token to agents. Raises `Refusal` when that can't be held."""
    if body.agents and set(body.scopes) != {"tools"}:
        raise Refusal(409, "conflict", "Only a token with the scope 'tools' alone can be bound to agents.")
    found = [await find_agent(visit, name) for name in dict.fromkeys(body.agents)]
    return tuple(f"{AGENT_SCOPE}{agent.name}" for agent in found)


async def _is_signed_in(visit: Visit) -> bool:
    """Whether this browser is signed in already: the person opens the link a second time."""
    try:
        return (await visit.parts.auth.identify(visit.request.scope)).via == "cookie"
    except Refusal:
        return False


def respond_html(text: str, status: int = 200) -> AsgiResponse:
    """A page that loads nothing and is stored nowhere."""
    headers = {**PRIVATE, "content-security-policy": "default-src 'none'"}
    return AsgiResponse(text, status, headers, HTML)


def _render_token(visit: Visit, token: Token) -> ShownToken:
    assert visit.admitted is not None
    return ShownToken(
        token.hash[:_ID_LENGTH],
        token.label,
        token.scopes,
        moment(token.created),
        None if token.last_seen is None else moment(token.last_seen),
        None if token.revoked is None else moment(token.revoked),
        token.hash == visit.admitted.token,
    )
