"""`handspan doctor`: does everything work here, and what to do where it does not."""

import platform
import ssl
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Final

import click

from handspan.cli.door import RequestCommand, ask_gateway, given_token, given_url, is_embedded
from handspan.cli.http_request import HttpAnswer, ask
from handspan.cli.options import config_folder, read_client_settings, read_loaded_settings
from handspan.cli.render import print_as_json
from handspan.cli.requests import RemoteRefused
from handspan.cli.running import find_running
from handspan.cli.trust import own_tls
from handspan.cli.wrapping import wrap_for
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.version import VERSION
from handspan.wire.rest.status import Diagnosis, Finding

_COLUMN: Final = 6
"""Where the words begin, after the mark."""
_LIBRARIES: Final = ("msgspec", "jsonschema-rs", "httpx2", "pydantic", "click")
_NEEDED: Final = ("gateway", "gateway token")
"""The checks that must pass before a running gateway is asked for its own findings."""
_UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "aGFuZHNwYW4tZG9jdG9yIQ==",
}
_UNKNOWN_HOST: Final = "handspan-doctor.invalid"
_CLIENT: Final = {"User-Agent": f"handspan-doctor/{VERSION} (checks that strangers are refused)"}
"""The gateway's log has this header beside each refused request, so that the checks do not look like an attack."""


@click.command("doctor", cls=RequestCommand)
def command() -> None:
    """See whether everything works here, and what to do where it does not. Exit code 1: something does not.

    A gateway that runs is looked at from outside, and asked how it does; else one inside this process is asked.
    """
    findings = list(_findings())
    if not print_as_json(findings):
        for finding in findings:
            # A `note`: the check passed, but something is to be done.
            mark = "FAIL" if not finding.ok else "note" if finding.remedy else "ok  "
            click.echo(wrap_for(sys.stdout, f"{mark}  {finding.what}: {finding.found}", _COLUMN))
            if finding.remedy:
                click.echo(wrap_for(sys.stdout, f"{' ' * _COLUMN}do this: {finding.remedy}", _COLUMN))
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


def _findings() -> Iterator[Finding]:
    """Yield what works and what does not: the versions, the settings, the gateway."""
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("versions", ok=True, found=f"handspan {VERSION}, Python {platform.python_version()}, {libraries}")
    problem = ""
    try:
        loaded = read_loaded_settings()
        file = loaded.file or "no settings file, so all defaults"
        yield Finding("configuration", ok=True, found=f"{file}; folder {config_folder()}")
    except HandspanError as error:
        problem = str(error)
        yield Finding("configuration", ok=False, found=problem, remedy="correct the settings")
    try:
        yield from _check_gateway(read_client_settings())
    except HandspanError as error:
        if str(error) != problem:
            yield Finding(
                "start", ok=False, found=str(error), remedy="this first: until then no gateway can start here"
            )


def _check_gateway(settings: Settings) -> Iterator[Finding]:
    """Yield what the gateway says of itself, then what is seen of it from outside."""
    outside = [] if is_embedded() else list(gateway_findings(settings, given_url() or None, given_token() or None))
    if all(finding.ok for finding in outside if finding.what in _NEEDED):
        try:
            asked = ask_gateway(lambda requests: requests.get("/api/doctor", Diagnosis), is_silent=True)
            yield from asked.findings
        except RemoteRefused as refused:
            yield Finding(
                "gateway doctor", ok=False, found=str(refused), remedy="give the operator's token with --token"
            )
    yield from outside


# A gateway that runs: as its client sees it, and as a program without a token does.


def gateway_findings(settings: Settings, url: str | None = None, token: str | None = None) -> Iterator[Finding]:
    """Yield the findings about the gateway at this address; without an address, the one of the state folder."""
    if url is not None:
        yield from _OutsideChecks(url.rstrip("/"), token or "", None).findings()
        return
    try:
        running = find_running(settings.state)
        tls = own_tls(settings) if running is not None else None
    except (ConfigError, OSError) as error:
        yield Finding("gateway", ok=False, found=str(error), remedy="correct the settings, or give --url and --token")
        return
    if running is None:
        yield Finding("gateway", ok=True, found="none serves this state folder (`handspan serve` starts one)")
        return
    yield from _OutsideChecks(running.url, token or running.token, tls).findings()


class _OutsideChecks:
    """Checks one gateway from outside."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._tls = tls
        self._token = {"Authorization": f"Bearer {token}"} if token else {}

    def findings(self) -> Iterator[Finding]:
        """Yield what a client sees of the gateway, also through a proxy."""
        health = self._ask("/health")
        remedy = "start it with `handspan serve`, or correct the address"
        yield _judge("gateway", health, 200, f"{self._url} answers", about=self._url, remedy=remedy)
        if health.status != 200:
            return
        remedy = "the check `store` says why, and what to do; so does the gateway's log"
        ready = self._ask("/ready")
        yield _judge("gateway store", ready, 200, "takes writes", about="a look at /ready", remedy=remedy)
        yield _judge(
            "gateway host check",
            self._ask("/health", {"Host": _UNKNOWN_HOST}),
            403,
            "requests under a foreign name are refused",
            about=f"a request for {_UNKNOWN_HOST!r}",
            remedy="a proxy in between may set Host itself: let it pass the name on that the browser sent",
        )
        if not self._token:
            yield Finding("gateway token", ok=False, found="there is none to try", remedy="give one with --token")
            return
        yield self._token_check()
        opened = self._ask("/ws/chat", _UPGRADE | self._token)
        remedy = "a proxy in between has to pass Upgrade and Connection on"
        yield _judge("gateway WebSocket", opened, 101, "connections open", about="a connection", remedy=remedy)

    def _token_check(self) -> Finding:
        """Return whether the token is known, and whether a request without one is refused."""
        right = self._ask("/api/me", self._token)  # this path needs no store
        without = self._ask("/api/me")  # a wrong token would count as a guess: ten of them lock this address out
        if right.status not in (200, 403):  # 403: the token is known, but its scopes do not allow this
            is_away = right.status == 503  # the store is away; the operator's token is known without it
            remedy = "give the operator's" if is_away else "pair again, or give another"
            return Finding(
                "gateway token",
                ok=False,
                found=f"the token {_describe_answer(right)}",
                remedy=f"{remedy} one with --token",
            )
        good = "the token is known, a request without one is refused"
        remedy = "a proxy in between may add a token of its own: take it out"
        return _judge("gateway token", without, 401, good, about="a request without a token", remedy=remedy)

    def _ask(self, path: str, headers: Mapping[str, str] | None = None) -> HttpAnswer:
        return ask("GET", f"{self._url}{path}", {**_CLIENT, **(headers or {})}, tls=self._tls)


def _judge(what: str, answered: HttpAnswer, wanted: int, good: str, *, about: str, remedy: str) -> Finding:
    """Return what an answer shows: `good` if it has the wanted status; else how `about` was answered."""
    if answered.status == wanted:
        return Finding(what, ok=True, found=good)
    return Finding(what, ok=False, found=f"{about} {_describe_answer(answered)}", remedy=remedy)


def _describe_answer(answered: HttpAnswer) -> str:
    return f"was answered with {answered.status}" if answered.status else f"was not answered: {answered.problem}"
