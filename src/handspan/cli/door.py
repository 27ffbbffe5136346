"""The gateway that a command asks: one that runs, else the same gateway opened inside this process."""

import asyncio
import contextlib
import gc
import importlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import click
import msgspec

from handspan.cli.http_request import own_tls
from handspan.cli.options import config_folder, read_settings
from handspan.cli.requests import GatewayAnswer, Method, OnLine, Requests, check_answer
from handspan.cli.running import find_running
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from handspan.cli.remote import Remote
    from handspan.client.client import Client
    from handspan.client.threads import CallThreads
    from handspan.gateway.inside import InsideGateway

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Late: TypeAlias = Literal["client", "inside", "remote", "threads", "qr"]

_GC_OBJECTS: Final = 50_000
"""New objects between two collections of garbage. What a command loads is no garbage, and looking takes time."""
_URL: Final = "HANDSPAN_URL"
_TOKEN: Final = "HANDSPAN_TOKEN"
_LATE: Final[dict[Late, str]] = {
    "client": "handspan.client.client",
    "inside": "handspan.gateway.inside",
    "remote": "handspan.cli.remote",
    "threads": "handspan.client.threads",
    "qr": "handspan.gateway.entry.pairing",
}
"""What is loaded when it is first needed, so that a command that does not need it starts sooner."""


def load(name: Late) -> ModuleType:
    """Return this module; load it when it is first needed."""
    return importlib.import_module(_LATE[name])


def gateway_options(function: F) -> F:
    """Let a command take the options that name a gateway."""
    for name, text in (
        ("token", f"A token of the gateway; {_TOKEN} says it where no other user sees it."),
        ("url", f"The gateway's address (or {_URL}); default: the one that serves the state folder."),
    ):
        function = click.option(f"--{name}", expose_value=False, callback=_keep, help=text)(function)
    return function


def place_options(function: F) -> F:
    """Let a command take the options that say where it works."""
    text = "Do it in this process, even if a gateway runs."
    option = click.option("--embedded", is_flag=True, expose_value=False, callback=_keep, help=text)
    return gateway_options(option(function))


def _keep(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
    if value:
        _given(ctx)[str(param.name)] = value


def _given(ctx: click.Context) -> dict[str, Any]:
    given: dict[str, Any] = ctx.find_root().ensure_object(dict)
    return given


def given_url() -> str:
    """Return the address of --url or its variable; empty without one."""
    return str(_given(click.get_current_context()).get("url") or os.environ.get(_URL, ""))


def ask_gateway(work: Callable[[Requests], Awaitable[T]], *, says: bool = True) -> T:
    """Run `work` at the gateway that was found, else at one inside this process, and return its result."""
    return asyncio.run(_work_at(find_gateway(says=says), work))


async def _work_at(remote: "Remote | None", work: Callable[[Requests], Awaitable[T]]) -> T:
    async with open_requests(remote) as requests:
        return await work(requests)


@contextlib.asynccontextmanager
async def open_requests(remote: "Remote | None", *, model: str = "") -> AsyncIterator[Requests]:
    """Open requests to this gateway. None: to one inside this process, where `model` answers for every agent."""
    if remote is not None:
        threads = load("threads").CallThreads()  # its threads hold no process up: Ctrl-C ends a command at once
        try:
            yield _remote_requests(remote, threads)
        finally:
            threads.close()
            remote.close()
        return
    gc.set_threshold(_GC_OBJECTS)
    inside: InsideGateway = load("inside").InsideGateway(read_settings(), config_folder(), model=model)
    await inside.open()
    try:
        yield _inside_requests(inside)
    finally:
        await inside.close()


def _remote_requests(remote: "Remote", threads: "CallThreads") -> Requests:
    async def send(
        method: Method, path: str, body: object, headers: Mapping[str, str], on_line: OnLine | None
    ) -> GatewayAnswer:
        loop = asyncio.get_running_loop()
        on_loop = None if on_line is None else lambda line: loop.call_soon_threadsafe(on_line, line)
        answered: GatewayAnswer = await threads.run(remote.send, method, path, body, headers, on_loop)
        return answered

    def client() -> "Client":
        made: Client = load("client").Client(remote.url, remote.token, tls=remote.tls)
        return made

    return Requests(remote.url, send, client)


def _inside_requests(inside: "InsideGateway") -> Requests:
    url: str = load("inside").URL

    async def send(
        method: Method, path: str, body: object, headers: Mapping[str, str], on_line: OnLine | None
    ) -> GatewayAnswer:
        data = b"" if body is None else msgspec.json.encode(body)
        given = headers if body is None else {"Content-Type": "application/json", **headers}
        answer = await inside.send(method, path, data, given, on_line)
        return check_answer("This gateway", answer.status, answer.body)

    def client() -> "Client":
        made: Client = load("client").Client(url, open_link=inside.connect)
        return made

    return Requests(url, send, client)


def find_gateway(*, says: bool = True) -> "Remote | None":
    """Return the gateway to use, or None for this process. With `says`, standard error names it."""
    given = _given(click.get_current_context())
    if given.get("embedded"):
        if given.get("url") or given.get("token"):
            raise click.UsageError("--embedded, or --url and --token: one of the two.")
        _say("(embedded)", says)
        return None
    remote = named_gateway() or running_gateway(read_settings(), may_embed=True)
    if remote is None:
        if given.get("token"):
            raise click.UsageError("No gateway is running that --token could be for: name one with --url.")
        _say("(no gateway is running: embedded)", says)
        return None
    own = [f"--{name}" for name in ("config", "workspace") if name in given]
    more = f"; {' and '.join(own)}: its own" if own else ""
    _say(f"(gateway {remote.url}{more})", says)
    return remote


def named_gateway(token: str = "") -> "Remote | None":
    """Return the gateway of --url; None without --url. `token` counts when no token is given."""
    url = given_url()
    if not url:
        return None
    settings = read_settings()
    remote = remote_at(url, _token() or token)
    running = None if remote.token else running_gateway(settings)
    if running is not None and running.url == remote.url:
        return running
    if not remote.token:
        raise click.UsageError(f"The gateway at {remote.url} wants a token: --token, or the variable {_TOKEN}.")
    return remote


def remote_at(url: str, token: str, tls: "ssl.SSLContext | None" = None) -> "Remote":
    """Return the gateway at this address."""
    try:
        remote: Remote = load("remote").Remote(url, token, tls)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}.") from None
    return remote


def running_gateway(settings: Settings, *, may_embed: bool = False) -> "Remote | None":
    """Return the gateway that serves the state folder; None when there is none."""
    running = find_running(settings.state)
    if running is None:
        return None
    token = _token() or running.token
    if not token:
        raise ConfigError(
            f"A gateway runs at {running.url}, but its token is not in {str(settings.state)!r}: give one with --token"
            f"{', or use --embedded' if may_embed else ''}."
        )
    try:
        tls = own_tls(settings.gateway.tls_cert)
    except OSError as error:
        raise ConfigError(f"gateway.tls_cert: {str(settings.gateway.tls_cert)!r} can't be read: {error}.") from None
    return remote_at(running.url, token, tls)


def _token() -> str:
    return str(_given(click.get_current_context()).get("token") or os.environ.get(_TOKEN, ""))


def _say(words: str, says: bool) -> None:
    if says:
        click.echo(words, err=True)
