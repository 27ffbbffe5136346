"""Sends one notification to one browser, over its push service (RFC 8030). Loaded with the first one."""

import asyncio
import hmac
import logging
import time
from typing import Final, Literal

import msgspec
from msgspec import Struct

from handspan.config.push_settings import PushSettings
from handspan.core.errors import ToolError
from handspan.core.questions import Question
from handspan.core.records import PushSubscription
from handspan.core.values import encode
from handspan.gateway.push.encryption import BrowserKeys, SenderKey, encrypt
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.net.policy import HostList
from handspan.net.urls import Url, parse_url
from handspan.wire.rest.push import Notice

_log = logging.getLogger(__name__)

_PAUSES: Final = (1.0, 5.0, 25.0)
"""Seconds before each further try."""
_LONGEST_PAUSE: Final = 60.0
_LIMITS: Final = RequestLimits(seconds=10.0, body_bytes=1024, redirects=0)
_AUTHORIZATION_SECONDS: Final = 12 * 3600
"""RFC 8292 2: a day at most."""
_LATER: Final = frozenset((429, 500, 502, 503, 504))
_FORGOTTEN: Final = frozenset((404, 410))
_SENT: Final = frozenset((200, 201, 202, 204))
_LONGEST_ENDPOINT: Final = 2048
_AT_ONCE: Final = 16
"""Requests to push services, of all owners together."""


class SendOutcome(Struct, frozen=True):
    """What came of a notification."""

    problem: str = ""
    """Why it was not accepted; empty: it was."""
    is_forgotten: bool = False
    """Whether the push service does not know the browser any more."""
    wait: float | None = None
    """Seconds after which another try may succeed; None: none will."""


class PushSender:
    """Encrypts notifications and gives them to push services, with a few further tries."""

    def __init__(
        self, secret: bytes, guard: NetGuard, settings: PushSettings, pauses: tuple[float, ...] = _PAUSES
    ) -> None:
        self._secret = secret
        self._key = SenderKey(secret)
        self._guard = guard
        self._contact = settings.contact
        self._own_hosts = HostList(settings.hosts, "push.hosts")
        self._own_guards: dict[str, NetGuard] = {}
        """By origin: to make one takes long, since each loads the certificates of the system."""
        self._pauses = pauses
        self._free = asyncio.Semaphore(_AT_ONCE)

    @property
    def public_key(self) -> str:
        """The key that browsers bind their subscriptions to."""
        return self._key.public

    def check(self, subscription: PushSubscription) -> None:
        """Raise `WireError` or `ToolError` for keys and addresses to which nothing can be sent."""
        BrowserKeys.read(subscription.p256dh, subscription.auth)
        url = parse_url(subscription.endpoint)
        self._guard_for(url).check(url)

    def answer_token(self, subscription: str, question: Question, decision: Literal["allow", "deny"]) -> str:
        """Return the token with which this browser can give this answer to this question, with these arguments."""
        about = (subscription, decision, question.id, question.tool, question.fingerprint, question.arguments)
        return hmac.new(self._secret, b"answer " + encode(about), "sha256").hexdigest()

    async def send(self, subscription: PushSubscription, notice: Notice, *, ttl: float, is_urgent: bool) -> SendOutcome:
        """Return whether the push service has accepted it. It keeps the notification for at most `ttl` seconds."""
        outcome, until = SendOutcome(), time.monotonic() + ttl
        for pause in (*self._pauses, None):
            outcome = await self._try(subscription, notice, ttl=until - time.monotonic(), is_urgent=is_urgent)
            if outcome.wait is None or pause is None:
                break
            wait = min(max(pause, outcome.wait), _LONGEST_PAUSE)
            if time.monotonic() + wait >= until:
                break
            await asyncio.sleep(wait)
        if outcome.problem:
            _log.warning("A notification for %r was not accepted: %s", subscription.label, outcome.problem)
        return outcome

    async def _try(self, subscription: PushSubscription, notice: Notice, *, ttl: float, is_urgent: bool) -> SendOutcome:
        """Send it once."""
        try:
            url = parse_url(subscription.endpoint)
            request = self._request(url, subscription, notice, ttl=ttl, is_urgent=is_urgent)
            async with self._free:
                answer = await self._guard_for(url).fetch(request, _LIMITS)
        except ToolError as error:  # it names the host, and not the rest of the endpoint, which is a secret
            is_lasting = error.code in ("policy_denied", "invalid_arguments")
            return SendOutcome(_without_path(error.message, subscription), wait=None if is_lasting else 0.0)
        if answer.status in _SENT:
            return SendOutcome()
        problem = f"{url.host!r} answered with the status {answer.status}."
        wait = _retry_after(answer.headers.get("retry-after", "")) if answer.status in _LATER else None
        return SendOutcome(problem, is_forgotten=answer.status in _FORGOTTEN, wait=wait)

    def _request(
        self, url: Url, subscription: PushSubscription, notice: Notice, *, ttl: float, is_urgent: bool
    ) -> OutgoingRequest:
        keys = BrowserKeys.read(subscription.p256dh, subscription.auth)
        headers = (
            ("authorization", self._key.sign(url.origin, self._contact, int(time.time()) + _AUTHORIZATION_SECONDS)),
            ("content-encoding", "aes128gcm"),
            ("content-type", "application/octet-stream"),
            ("ttl", str(max(0, int(ttl)))),
            ("urgency", "high" if is_urgent else "normal"),
        )
        return OutgoingRequest(subscription.endpoint, "POST", headers, encrypt(msgspec.json.encode(notice), keys))

    def _guard_for(self, url: Url) -> NetGuard:
        """Return the guard for this push service. Raises `ToolError` (`policy_denied`) without https."""
        if self._own_hosts.names(url.host, url.port):
            if url.origin not in self._own_guards:
                self._own_guards[url.origin] = self._guard.trust(url.origin)
            return self._own_guards[url.origin]
        if url.scheme != "https" or len(str(url)) > _LONGEST_ENDPOINT:
            text = f"A push service needs https and an address of at most {_LONGEST_ENDPOINT} characters: {url.host!r}."
            raise ToolError("policy_denied", f"{text} The setting push.hosts lists those that may have http.")
        return self._guard


def _retry_after(text: str) -> float:
    """Return the seconds of a header `Retry-After`; 0 for none, and for a date."""
    return float(text) if text.isdecimal() and len(text) <= 6 else 0.0


def _without_path(message: str, subscription: PushSubscription) -> str:
    """Return the message without the endpoint."""
    return message.replace(subscription.endpoint, "the push service")
