"""A channel to a program of the operator's: every message is a signed POST.

Signatures are HMAC-SHA256 over the time and the body, good for five minutes.
"""

import hashlib
import hmac
import secrets
import time
from typing import Final

import msgspec

from handspan.channels.bus import Unsent
from handspan.core.channels import OutgoingMessage
from handspan.core.errors import ConfigError, ToolError, WireError
from handspan.core.values import JsonObject
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.net.urls import parse_url

ID_HEADER: Final = "X-Handspan-Id"
TIME_HEADER: Final = "X-Handspan-Timestamp"
SIGNATURE_HEADER: Final = "X-Handspan-Signature"
VALID_SECONDS: Final = 300
SHORTEST_SECRET: Final = 16
_VERSION: Final = "v1="
_LONGEST_TIME: Final = 12
_SECONDS: Final = 20.0
_SHOWN: Final = 300


class WebhookChannel:
    """Posts messages as JSON. The receiver knows a repeated one by its id."""

    def __init__(self, name: str, url: str, secret: str, guard: NetGuard) -> None:
        """Raise `ConfigError` for an address or a secret that can't be used."""
        if len(secret) < SHORTEST_SECRET:
            raise ConfigError(f"channels.{name}.secret has fewer than {SHORTEST_SECRET} characters. Set a longer one.")
        try:
            parse_url(url)
        except ToolError as error:
            raise ConfigError(f"channels.{name}.url: {error.message}") from error
        self._url = url
        self.secret = secret
        self._guard = guard.trust(url)

    async def deliver(self, message: OutgoingMessage) -> str:
        """Post the message and return its id. Raises `ToolError` unless the answer is a 2xx."""
        body = msgspec.json.encode(_body(message))
        message_id = message.id or secrets.token_hex(16)
        headers = {"Content-Type": "application/json", ID_HEADER: message_id, **sign(self.secret, body)}
        request = OutgoingRequest(self._url, "POST", tuple(headers.items()), body)
        try:
            # No redirects: what is signed is for this address alone.
            answer = await self._guard.fetch(request, RequestLimits(seconds=_SECONDS, body_bytes=4096, redirects=0))
        except ToolError as error:
            if error.code in ("network_error", "timeout"):  # if it did arrive, the receiver knows its id
                raise Unsent(error.message) from error
            raise
        if not 200 <= answer.status < 300:
            said = " ".join(answer.body.decode("utf-8", "replace").split())[:_SHOWN]
            text = f"The receiver of the webhook answered HTTP {answer.status}{f': {said}' if said else ''}."
            raise Unsent(text) if answer.status >= 500 or answer.status == 429 else ToolError("network_error", text)
        return message_id


def _body(message: OutgoingMessage) -> JsonObject:
    body: JsonObject = {"channel": message.channel, "chat_id": message.chat_id, "content": message.content, "media": []}
    if message.reply_to:
        body["reply_to"] = message.reply_to
    metadata: JsonObject = {"session": message.session} if message.session else {}
    if message.buttons:
        metadata["buttons"] = [{"label": one.label, "data": one.data} for one in message.buttons]
    return body | {"metadata": metadata}


def sign(secret: str, body: bytes, at: int | None = None) -> dict[str, str]:
    """Return the two headers that sign this body, for this moment (seconds since 1970) or now."""
    moment = str(int(time.time()) if at is None else at)
    return {TIME_HEADER: moment, SIGNATURE_HEADER: _VERSION + _digest(secret, moment, body)}


def check_signature(secret: str, body: bytes, moment: str, signature: str, now: float | None = None) -> str:
    """Return the signature of this body, by which a repeated request is known. Raises `WireError` for a wrong one."""
    if not (moment.isascii() and moment.isdecimal() and len(moment) <= _LONGEST_TIME) or not signature:
        raise WireError(f"Sign the request: {TIME_HEADER} (seconds since 1970) and {SIGNATURE_HEADER} (v1=HMAC).")
    wanted = _digest(secret, moment, body)
    given = signature.strip().removeprefix(_VERSION).lower()
    if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
        raise WireError(f"The signature is wrong: it is v1= and the hex of HMAC-SHA256(secret, {TIME_HEADER}.body).")
    if abs((time.time() if now is None else now) - int(moment)) > VALID_SECONDS:
        raise WireError(f"The signature is older than {VALID_SECONDS} s, or from the future: check the clock.")
    return wanted


def _digest(secret: str, moment: str, body: bytes) -> str:
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
