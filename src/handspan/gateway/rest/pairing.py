"""How somebody new comes in: `/pair`, `/signin` and the page at `/`. Those are open, and answer everybody the same."""

import html
from typing import Final

from handspan.core.errors import StoreError
from handspan.gateway.entry.pairing import LINK_SECONDS, sign_in_url
from handspan.gateway.entry.places import address_of
from handspan.gateway.entry.tokens import page_cookie
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.rest.route import HTML, Family, Visit
from handspan.wire.rest.tokens import PairBody, Paired, PairHeaders, SignInLink, SignInQuery

family: Final = Family("pairing")

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Handspan</title>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
_HOME: Final = _PAGE.format(
    title="Handspan is running",
    text="Talk to it with <code>handspan chat</code>, bring this computer's tools with <code>handspan device</code>, "
    'or see how the agent <a href="{prefix}/examples/browser_tools/">uses tools of a page</a>; '
    'programs find the contract at <a href="{prefix}/openapi.json">openapi.json</a>.',
)
_PAIR: Final = _PAGE.format(
    title="Pair a device",
    text="This address is for an app: scan the code with it, or type the digits that stand behind it.",
)
_TOO_LATE: Final = _PAGE.format(
    title="This link does not work any more",
    text="A sign-in link works once, for ten minutes. <code>handspan pair --browser</code> shows a new one.",
)
_NOT_YET: Final = _PAGE.format(title="Not yet", text="A sign-in link is opened by a person, not ahead of one.")


@family.get("/", "open", media_type=HTML)
async def home(visit: Visit) -> AsgiResponse:
    """What a person sees who opens the address of the gateway."""
    return _html(_HOME.replace("{prefix}", html.escape(visit.doors.auth.prefix)))


@family.post("/pair", "open", lenient=True, size="tiny", also_refuses=(403, 429, 503))
async def pair(visit: Visit, headers: PairHeaders, body: PairBody) -> Paired:
    """A token for a pairing code, which stands in the header or in the body.

    What the body has beside it is passed over. Ten tries a minute from one address; the eleventh is told to wait.
    """
    doors, scope = visit.doors, visit.request.scope
    try:
        token = await doors.pairing.pair(headers.x_pairing_code.strip() or body.code, body.label, address_of(scope))
    except StoreError:
        text = "The token can't be kept at the moment: ask for a new code."
        raise Refusal(503, "unavailable", text, 5) from None
    doors.auth.forgive(scope)
    return Paired(token, "Paired: send this token as 'Authorization: Bearer TOKEN'. It is not shown again.")


@family.get("/pair", "open", media_type=HTML)
async def pair_page(visit: Visit) -> AsgiResponse:
    """What a browser shows that was led here by a QR code."""
    return _html(_PAIR)


@family.get("/signin", "open", status=303, media_type=HTML, also={403: AsgiResponse, 503: AsgiResponse})
async def sign_in(visit: Visit, query: SignInQuery) -> AsgiResponse:
    """The cookie for whoever has the link, and the way to the page."""
    request, auth = visit.request, visit.doors.auth
    if request.method == "HEAD" or "sec-purpose" in request.headers:  # nobody has clicked yet
        return _html(_NOT_YET, 503)
    try:
        token = await visit.doors.pairing.sign_in(query.code)
    except StoreError:
        return _html(_TOO_LATE, 503)
    if token is None and not await _is_signed_in(visit):
        return _html(_TOO_LATE, 403)
    headers = {**PRIVATE, "location": f"{auth.prefix}/"}
    if token is not None:
        auth.forgive(request.scope)
        headers["set-cookie"] = page_cookie(request.scope, token, auth.prefix).decode()
    return AsgiResponse(b"", 303, headers)


@family.post("/api/signin", "admin", status=201)
async def create_link(visit: Visit) -> SignInLink:
    """A new sign-in link for whoever asks."""
    request = visit.request
    base = f"{request.scope['scheme']}://{request.headers['host']}{visit.doors.auth.prefix}"
    return SignInLink(sign_in_url(base, visit.doors.pairing.new_link(visit.who)), LINK_SECONDS)


async def _is_signed_in(visit: Visit) -> bool:
    """Whether the link was opened a second time, in the browser that it has signed in."""
    try:
        return (await visit.doors.auth.identify(visit.request.scope)).via == "cookie"
    except Refusal:
        return False


def _html(text: str, status: int = 200) -> AsgiResponse:
    headers = {**PRIVATE, "content-security-policy": "default-src 'none'"}
    return AsgiResponse(text, status, headers, HTML)
