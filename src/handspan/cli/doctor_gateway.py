"""What `handspan doctor` finds out about a gateway that runs: as its client, and as a program without a token."""

import ssl
from collections.abc import Iterator
from typing import Final

from handspan.cli.http_request import HttpAnswer, ask
from handspan.cli.running import find_running
from handspan.cli.trust import certificate_of, own_tls
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.version import VERSION
from handspan.wire.rest.status import Finding

_UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "aGFuZHNwYW4tZG9jdG9yIQ==",
}
_UNKNOWN_HOST: Final = "handspan-doctor.invalid"
_CLIENT: Final = {"User-Agent": f"handspan-doctor/{VERSION} (checks that strangers are refused)"}
"""The gateway's log has this header beside each refused request, so that the checks do not look like an attack."""


def gateway_findings(settings: Settings, url: str | None = None, token: str | None = None) -> Iterator[Finding]:
    """Yield the findings about the gateway at this address; without an address, the one of the state folder."""
    if url is not None:
        yield from _OutsideChecks(url.rstrip("/"), token or "", None).findings()
        return
    try:
        running = find_running(settings.state)
        tls = own_tls(certificate_of(settings)) if running is not None else None
    except (ConfigError, OSError) as error:
        yield Finding("gateway", False, str(error), "correct the settings, or give --url and --token")
        return
    if running is None:
        yield Finding("gateway", True, "none serves this state folder (`handspan serve` starts one)")
        return
    yield from _OutsideChecks(running.url, token or running.token, tls).findings()


class _OutsideChecks:
    """Checks one gateway from outside."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._token = token
        self._tls = tls

    def findings(self) -> Iterator[Finding]:
        reached = self._ask("/health")
        if reached.status != 200:
            remedy = "start it with `handspan serve`, or correct the address"
            yield Finding("gateway", False, f"{self._url} {_describe_answer(reached)}", remedy)
            return
        yield Finding("gateway", True, f"{self._url} answers")
        yield self._ready_check()
        yield self._host_check()
        if not self._token:
            yield Finding("gateway token", False, "there is none to try", "give one with --token")
            return
        yield self._token_check()
        yield self._socket_check()

    def _ready_check(self) -> Finding:
        answered = self._ask("/ready")
        if answered.status == 200:
            return Finding("gateway store", True, "takes writes")
        remedy = "the check `store` says why, and what to do; so does the gateway's log"
        return Finding("gateway store", False, f"a look at /ready {_describe_answer(answered)}", remedy)

    def _host_check(self) -> Finding:
        answered = self._ask("/health", {"Host": _UNKNOWN_HOST})
        if answered.status == 403:
            return Finding("gateway host check", True, "requests under a foreign name are refused")
        return Finding(
            "gateway host check",
            False,
            f"a request for {_UNKNOWN_HOST!r} {_describe_answer(answered)}",
            "a proxy in between may set Host itself: let it pass the name on that the browser sent",
        )

    def _token_check(self) -> Finding:
        right = self._ask("/api/me", {"Authorization": f"Bearer {self._token}"})  # this path needs no store
        without = self._ask("/api/me")  # a wrong token would count as a guess: ten of them lock this address out
        if right.status not in (200, 403):  # 403: the token is known, but its scopes do not allow this
            is_away = right.status == 503  # the store is away; the operator's token is known without it
            remedy = "give the operator's" if is_away else "pair again, or give another"
            return Finding("gateway token", False, f"the token {_describe_answer(right)}", f"{remedy} one with --token")
        if without.status != 401:
            text = f"a request without a token {_describe_answer(without)}"
            return Finding("gateway token", False, text, "a proxy in between may add a token of its own: take it out")
        return Finding("gateway token", True, "the token is known, a request without one is refused")

    def _socket_check(self) -> Finding:
        answered = self._ask("/ws/chat", {**_UPGRADE, "Authorization": f"Bearer {self._token}"})
        if answered.status == 101:
            return Finding("gateway WebSocket", True, "connections open")
        return Finding(
            "gateway WebSocket",
            False,
            f"a connection {_describe_answer(answered)}",
            "a proxy in between has to pass Upgrade and Connection on",
        )

    def _ask(self, path: str, headers: dict[str, str] | None = None) -> HttpAnswer:
        return ask("GET", f"{self._url}{path}", {**_CLIENT, **(headers or {})}, tls=self._tls)


def _describe_answer(answered: HttpAnswer) -> str:
    return f"was answered with {answered.status}" if answered.status else f"was not answered: {answered.problem}"
