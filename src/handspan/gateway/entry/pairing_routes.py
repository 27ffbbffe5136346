"""The routes by which somebody new comes in: `/pair` and `/signin`. Those are open, and answer everybody the same."""

from typing import Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from handspan.core.conversations import StoreError
from handspan.core.errors import WireError
from handspan.core.values import Json
from handspan.gateway.entry.auth import Admitted, Auth
from handspan.gateway.entry.pairing import LINK_SECONDS, Pairing, sign_in_url
from handspan.gateway.entry.places import address_of
from handspan.gateway.entry.refusals import Refused
from handspan.gateway.entry.tokens import page_cookie
from handspan.wire import strict_json

_LARGEST_BODY: Final = 4096
_PRIVATE: Final = {"cache-control": "no-store"}
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
    text="Talk to it with <code>handspan chat</code>, bring this computer's tools with <code>handspan device</code>; "
    'programs find the contract at <a href="openapi.json">openapi.json</a>.',
)
_PAIR: Final = _PAGE.format(
    title="Pair a device",
    text="This address is for an app: scan the code with it, or type the digits that stand behind it.",
)
_TOO_LATE: Final = _PAGE.format(
    title="This link does not work any more",
    text="A sign-in link works once, for ten minutes. Run <code>handspan serve</code> again: it shows a new one.",
)
_NOT_YET: Final = _PAGE.format(title="Not yet", text="A sign-in link is opened by a person, not ahead of one.")


class PairingRoutes:
    """`/`, `POST /pair`, `GET /pair` and `GET /signin`, which are open; `POST /api/signin`, which is for admins."""

    def __init__(self, auth: Auth, pairing: Pairing) -> None:
        self._auth = auth
        self._pairing = pairing

    def routes(self) -> list[Route]:
        """To be put among the others; `AuthMiddleware` lets them through without a token."""
        return [
            Route("/", self.home, methods=["GET"]),
            Route("/pair", self.pair, methods=["POST"]),
            Route("/pair", self.show, methods=["GET"]),
            Route("/signin", self.sign_in, methods=["GET"]),
            Route("/api/signin", self.new_link, methods=["POST"]),
        ]

    async def home(self, _: Request) -> Response:
        """What a person sees who opens the address of the gateway."""
        return _html(_HOME)

    async def pair(self, request: Request) -> Response:
        """A token for a pairing code, which stands in the header or in the body."""
        try:
            given = await _body(request)
            code = request.headers.get("x-pairing-code", "").strip() or _text(given, "code")
            token = await self._pairing.pair(code, _text(given, "label"), address_of(request.scope))
        except Refused as refused:
            return _refusal(refused)
        except StoreError:
            return _refusal(
                Refused(503, "unavailable", "The token can't be kept at the moment: ask for a new code.", 5)
            )
        self._auth.forgive(request.scope)
        message = "Paired: send this token as 'Authorization: Bearer TOKEN'. It is not shown again."
        told = {"paired": True, "persisted": True, "token": token, "message": message}
        return Response(msgspec.json.encode(told), 200, _PRIVATE, "application/json")

    async def show(self, _: Request) -> Response:
        """What a browser shows that was led here by a QR code."""
        return _html(_PAIR)

    async def sign_in(self, request: Request) -> Response:
        """The cookie for whoever has the link, and the way to the page."""
        if request.method == "HEAD" or "sec-purpose" in request.headers:  # nobody has clicked yet
            return _html(_NOT_YET, 503)
        try:
            token = await self._pairing.sign_in(request.query_params.get("code", ""))
        except StoreError:
            return _html(_TOO_LATE, 503)
        if token is None and not await self._is_signed_in(request):
            return _html(_TOO_LATE, 403)
        headers = {**_PRIVATE, "location": f"{self._auth.prefix}/"}
        if token is not None:
            self._auth.forgive(request.scope)
            headers["set-cookie"] = page_cookie(request.scope, token, self._auth.prefix).decode()
        return Response(b"", 303, headers)

    async def new_link(self, request: Request) -> Response:
        """A new sign-in link for whoever asks."""
        admitted: Admitted = request.state.admitted
        try:
            admitted.require("admin")
        except Refused as refused:
            return _refusal(refused)
        base = f"{request.scope['scheme']}://{request.headers['host']}{self._auth.prefix}"
        told = {"url": sign_in_url(base, self._pairing.new_link(admitted.who)), "expires_in": LINK_SECONDS}
        return Response(msgspec.json.encode(told), 201, _PRIVATE, "application/json")

    async def _is_signed_in(self, request: Request) -> bool:
        """Whether the link was opened a second time, in the browser that it has signed in."""
        try:
            return (await self._auth.identify(request.scope)).via == "cookie"
        except Refused:
            return False


async def _body(request: Request) -> Json:
    """What the body says; nothing where there is none. Clients that send the code in the header may send anything."""
    data = b""
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > _LARGEST_BODY:
                raise Refused(413, "bad_request", f"Send at most {_LARGEST_BODY} bytes.")
    except ClientDisconnect:
        raise Refused(400, "bad_request", "The connection ended before the request did. Send it again.") from None
    try:
        return strict_json.parse(data) if data.strip() else None
    except WireError:
        return None


def _text(given: Json, name: str) -> str:
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


def _refusal(refused: Refused) -> Response:
    headers = {name.decode(): value.decode() for name, value in refused.headers}
    return Response(refused.body(), refused.status, headers, "application/json")


def _html(text: str, status: int = 200) -> Response:
    headers = {**_PRIVATE, "content-security-policy": "default-src 'none'"}
    return Response(text, status, headers, "text/html")
