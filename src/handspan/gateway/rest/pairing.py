"""How a client gets access: pairing codes, sign-in links, tokens (SPEC S5).

`/pair` and `/signin` are open: they answer every caller the same.
"""

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from handspan.core.errors import StoreError
from handspan.core.principals import AGENT_SCOPE, ANSWERS_SCOPE
from handspan.core.records import TOKEN_ID_LENGTH, Token
from handspan.gateway.entry.host_policy import address_of
from handspan.gateway.entry.pairing import LINK_SECONDS, pairing_url, qr_svg, sign_in_url
from handspan.gateway.entry.tokens import hash_of, page_cookie
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE, moment
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import HTML, Family, RestRequest
from handspan.gateway.serving.listening import TLS_FOLDER, has_own_root, is_loopback, url_for_others
from handspan.wire.rest import tokens as wire

if TYPE_CHECKING:
    from handspan.gateway.serving.lan_certificates import LanCertificates

family: Final = Family("pairing")
_ROOT_TYPE: Final = "application/x-x509-ca-cert"
_PROFILE_TYPE: Final = "application/x-apple-aspen-config"

_STYLE: Final = (
    ":root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}"
    "body{max-width:34rem;margin:15vh auto;padding:0 1.5rem}"
    "h1{font-size:1.4rem}"
)
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"


def render_page(title: str, text: str) -> str:
    """Return a page for a browser that came here. `text` is HTML."""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Handspan</title>
<style>{_STYLE}</style>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""


_LINK_INVALID: Final = render_page(
    title="This link does not work any more",
    text="A sign-in link works once, for ten minutes. <code>handspan pair --browser</code> shows a new one.",
)
_NOT_STORED: Final = render_page(
    title="The sign-in can't be stored at the moment",
    text="Open a new link in a while: <code>handspan pair --browser</code> shows one.",
)
_NOT_YET: Final = render_page(title="Not yet", text="A sign-in link is opened by a person, not ahead of one.")


@family.post("/pair", "open", lenient=True, size="tiny", also_refuses=(403, 429, 503))
async def pair(request: RestRequest, headers: wire.PairHeaders, body: wire.PairBody) -> wire.Paired:
    """A token for a pairing code, which is in the header or in the body.

    Other fields of the body are ignored. One address has ten tries a minute; then it has to wait.
    """
    parts, scope = request.parts, request.asgi.scope
    try:
        code = headers.x_pairing_code.strip() or body.code
        made = await parts.pairing.pair(code, body.label, address_of(scope), body.scopes)
    except StoreError:
        text = "The token can't be stored at the moment: ask for a new code."
        raise Refusal(503, "unavailable", text, 5) from None
    parts.auth.reset_tries(scope)
    text = "Paired: send this token as 'Authorization: Bearer TOKEN'. It is not shown again."
    return wire.Paired(made.token, f"{text} It may do what its scopes say: {', '.join(made.scopes)}.")


@family.get("/pair", "open", status=303, media_type=HTML)
async def pair_page(request: RestRequest) -> AsgiResponse:
    """A redirect to the phone's page, for links made before it was there. The browser takes the code along."""
    return AsgiResponse(b"", 303, {**PRIVATE, "location": f"{request.parts.auth.prefix}/device"})


@family.get("/device/root.crt", "open", media_type=_ROOT_TYPE, also_refuses=(404,))
async def root_certificate(request: RestRequest) -> AsgiResponse:
    """The root that a phone has to trust, for Android and other computers."""
    return _respond_file(_certificates(request).root_der(), _ROOT_TYPE, "handspan-root.crt")


@family.get("/device/root.mobileconfig", "open", media_type=_PROFILE_TYPE, also_refuses=(404,))
async def root_profile(request: RestRequest) -> AsgiResponse:
    """The root that a phone has to trust, as a profile for iOS."""
    return _respond_file(_certificates(request).root_profile(), _PROFILE_TYPE, "handspan.mobileconfig")


@family.get("/signin", "open", status=303, media_type=HTML, also={403: AsgiResponse, 503: AsgiResponse})
async def sign_in(request: RestRequest, query: wire.SignInQuery) -> AsgiResponse:
    """The cookie for the browser that has the link, and a redirect to the page."""
    asgi, auth = request.asgi, request.parts.auth
    if asgi.method == "HEAD" or "sec-purpose" in asgi.headers:  # a preview: the person has not clicked yet
        return respond_html(_NOT_YET, 503)
    try:
        token = await request.parts.pairing.sign_in(query.code)
    except StoreError:
        return respond_html(_NOT_STORED, 503)
    if token is None and not await _is_signed_in(request):
        return respond_html(_LINK_INVALID, 403)
    headers = {**PRIVATE, "location": f"{auth.prefix}/"}
    if token is not None:
        auth.reset_tries(asgi.scope)
        headers["set-cookie"] = page_cookie(asgi.scope, token, auth.prefix).decode()
    return AsgiResponse(b"", 303, headers)


@family.get("/api/me", "device")
async def me(request: RestRequest) -> wire.WhoAmI:
    """The owner and the scopes of the token of this request."""
    assert request.admitted is not None
    return wire.WhoAmI(request.owner, request.who.scopes, request.admitted.via == "cookie")


@family.post("/api/signout", "device", also_refuses=(409,))
async def sign_out(request: RestRequest) -> wire.RevokedToken:
    """Sign this browser out: its token is revoked."""
    assert request.admitted is not None
    if request.admitted.via != "cookie":
        raise Refusal(409, "conflict", "Only a browser signs out. Revoke a token with DELETE /api/tokens/ID.")
    await request.parts.auth.revoke(request.token_hash, request.owner)
    return wire.RevokedToken(revoked=True, id=request.token_hash[:TOKEN_ID_LENGTH])


@family.post("/api/signin", "admin", status=201)
async def create_link(request: RestRequest) -> wire.SignInLink:
    """A new sign-in link for the caller."""
    code = await request.parts.pairing.new_link(request.who)
    return wire.SignInLink(sign_in_url(_own_url(request), code), LINK_SECONDS)


@family.get("/api/tokens", "admin", tag="tokens")
async def tokens(request: RestRequest) -> wire.TokenList:
    """The caller's tokens, revoked ones too."""
    found = await request.store.tokens.all(owner=request.owner)
    return wire.TokenList([_render_token(request, token) for token in found])


@family.post("/api/tokens", "admin", status=201, also_refuses=(404, 409), tag="tokens")
async def create_token(request: RestRequest, body: wire.NewToken) -> wire.MadeToken:
    """A new token of the caller, for a program or a device."""
    scopes = await _scopes_of(request, body)
    token = await request.parts.auth.issue(request.owner, scopes, body.label)
    request.publish("tokens", change="created")
    return wire.MadeToken(token, hash_of(token)[:TOKEN_ID_LENGTH], scopes, body.label)


@family.delete("/api/tokens/{token_id}", "admin", tag="tokens")
async def revoke_token(request: RestRequest, token_id: str) -> wire.RevokedToken:
    """Revoke a token. Connections that it opened close at once."""
    known = {token.hash[:TOKEN_ID_LENGTH]: token.hash for token in await request.store.tokens.all(owner=request.owner)}
    if token_id not in known or not await request.parts.auth.revoke(known[token_id], request.owner):
        raise not_found_refusal("token", token_id)
    request.publish("tokens", change="revoked", id=token_id)
    return wire.RevokedToken(revoked=True, id=token_id)


@family.post("/api/pairing", "admin", status=201, tag="tokens")
async def create_code(request: RestRequest, body: wire.NewCode) -> wire.MadeCode:
    """A pairing code for one device (`POST /pair`). It works once, and for a short time.

    Without `scopes` it gives a token that can be a device and nothing else.
    """
    made = await request.parts.pairing.new_code(request.who, tuple(dict.fromkeys(body.scopes)))
    url = _url_for_others(request)
    base = url or _own_url(request)
    pin = _certificates(request).pin_for(base) if has_own_root(request.app.settings) else None
    link = pairing_url(base, made.code, pin)
    qr = None if url is None else qr_svg(link)
    return wire.MadeCode(made.code, made.scopes, made.expires_in, url, link=link, qr=qr, pin=pin)


def _url_for_others(request: RestRequest) -> str | None:
    """Return the address for a phone: that of a tunnel or proxy if the caller uses one, else that in the network."""
    settings = request.app.settings.gateway
    _, port = request.asgi.scope.get("server") or ("", None)
    host = urlsplit(f"//{request.asgi.headers['host']}").hostname or ""
    return url_for_others(settings, port or settings.port) or (None if is_loopback(host) else _own_url(request))


def _own_url(request: RestRequest) -> str:
    """Return the address at which the caller reached the gateway."""
    asgi = request.asgi
    return f"{asgi.scope['scheme']}://{asgi.headers['host']}{request.parts.auth.prefix}"


async def _scopes_of(request: RestRequest, body: wire.NewToken) -> tuple[str, ...]:
    """Return the scopes of a new token, also those to answer and for agents. Raises `Refusal` if these do not fit."""
    scopes = tuple(dict.fromkeys(body.scopes))
    if body.answers and scopes == ("device",):
        text = "'answers' is for MCP clients, and a token with the scope 'device' alone calls no tools: add 'tools'."
        raise Refusal(409, "conflict", text)
    if body.agents and not {*scopes} <= {"tools", "chat"}:
        raise Refusal(409, "conflict", "Only a token with the scopes 'tools' and 'chat' can be bound to agents.")
    bound = [f"{AGENT_SCOPE}{(await find_agent(request, name)).name}" for name in dict.fromkeys(body.agents)]
    return (*scopes, *([ANSWERS_SCOPE] if body.answers else []), *bound)


def _certificates(request: RestRequest) -> "LanCertificates":
    """Return our own certificates. Raises `Refusal` when the gateway has none."""
    from handspan.gateway.serving.lan_certificates import LanCertificates  # noqa: PLC0415 - its library is only needed for this

    settings = request.app.settings
    if not has_own_root(settings):
        raise Refusal(404, "not_found", "This gateway has no root of its own: `handspan serve --lan --tls` makes one.")
    return LanCertificates(settings.state / TLS_FOLDER)


def _respond_file(data: bytes, media_type: str, name: str) -> AsgiResponse:
    return AsgiResponse(data, 200, {**PRIVATE, "content-disposition": f'attachment; filename="{name}"'}, media_type)


async def _is_signed_in(request: RestRequest) -> bool:
    """Whether this browser is signed in already: the person opens the link a second time."""
    try:
        return (await request.parts.auth.identify(request.asgi.scope)).via == "cookie"
    except Refusal:
        return False


def respond_html(text: str, status: int = 200) -> AsgiResponse:
    """Return a page that loads nothing, has no style but ours, and is stored nowhere."""
    headers = {**PRIVATE, "content-security-policy": _POLICY}
    return AsgiResponse(text, status, headers, HTML)


def _render_token(request: RestRequest, token: Token) -> wire.TokenView:
    """Return the token as clients see it: never the token itself."""
    return wire.TokenView(
        token.hash[:TOKEN_ID_LENGTH],
        token.label,
        token.scopes,
        moment(token.created),
        last_seen=None if token.last_seen is None else moment(token.last_seen),
        revoked=None if token.revoked is None else moment(token.revoked),
        current=token.hash == request.token_hash,
    )
