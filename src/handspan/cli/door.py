"""The gateway that a command asks: one that runs, else one that is opened inside this process."""

import contextlib
import gc
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from handspan.cli import late
from handspan.cli.ctrl_c import run_until_done
from handspan.cli.options import read_place, settings_options
from handspan.cli.requests import Requests
from handspan.cli.running import find_running
from handspan.cli.trust import CA, certificate_of, named_tls, own_tls, read_certificate
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError, HandspanError

if TYPE_CHECKING:
    import ssl

    from handspan.cli.remote import Remote

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_GC_OBJECTS: Final = 50_000
"""New objects between two collections of garbage. What a command loads is no garbage, and looking takes time."""
_URL: Final = "HANDSPAN_URL"
_TOKEN: Final = "HANDSPAN_TOKEN"


def gateway_options(function: F) -> F:
    """Let a command take the options that name a gateway: its address, or the settings with its state folder."""
    for name, text in (
        ("ca", f"A file (PEM or DER) with the certificate to trust at --url; or {CA}."),
        ("token", f"A token of the gateway; {_TOKEN} says it where no other user sees it."),
        ("url", f"The gateway's address (or {_URL}); default: the one that serves the state folder."),
    ):
        function = click.option(f"--{name}", expose_value=False, callback=_keep, help=text)(function)
    return settings_options(function)


def place_options(function: F) -> F:
    """Let a command take the options of `gateway_options`, and --embedded."""
    text = "Do it in this process, even if a gateway runs."
    option = click.option("--embedded", is_flag=True, expose_value=False, callback=_keep, help=text)
    return gateway_options(option(function))


def _keep(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
    """Keep the value of an option for `_given_options`."""
    if value:
        _given_options(ctx)[str(param.name)] = value


def _given_options(ctx: click.Context) -> dict[str, Any]:
    given: dict[str, Any] = ctx.find_root().ensure_object(dict)
    return given


def is_embedded() -> bool:
    """Whether --embedded is given."""
    return bool(_given_options(click.get_current_context()).get("embedded"))


def given_url() -> str:
    """Return the address of --url or its variable; empty without one."""
    return str(_given_options(click.get_current_context()).get("url") or os.environ.get(_URL, ""))


def ask_gateway(work: Callable[[Requests], Awaitable[T]], *, says: bool = True) -> T:
    """Run `work` at the gateway that was found, else at one inside this process, and return its result."""
    return ask_at(find_gateway(says=says), work)


def ask_at(remote: "Remote | None", work: Callable[[Requests], Awaitable[T]]) -> T:
    """Run `work` at this gateway, or at one inside this process if it is None, and return its result."""
    return run_until_done(_work_at(remote, work))


async def _work_at(remote: "Remote | None", work: Callable[[Requests], Awaitable[T]]) -> T:
    async with open_requests(remote) as requests:
        return await work(requests)


def open_requests(remote: "Remote | None", *, model: str = "") -> AbstractAsyncContextManager[Requests]:
    """Open requests to this gateway. None: to one inside this process, where `model` answers for every agent."""
    if remote is not None:
        return remote.open_requests()
    gc.set_threshold(_GC_OBJECTS)
    return late.inside.open_inside(model)


def find_gateway(*, says: bool = True) -> "Remote | None":
    """Return the gateway to use, or None for this process. With `says`, standard error names it."""
    given = _given_options(click.get_current_context())
    if is_embedded():
        if given.get("url") or given.get("token"):
            raise click.UsageError("--embedded, or --url and --token: one of the two.")
        _say("(embedded)", says)
        return None
    settings = read_place()
    remote = named_gateway() or running_gateway(settings, may_embed=True)
    if remote is None:
        if given.get("token"):
            raise click.UsageError("No gateway is running that --token could be for: name one with --url.")
        _say("(no gateway is running: embedded)", says)
        return None
    more = "; --config: its own" if "config" in given else ""
    _say(f"(gateway {remote.url}{more}{_check_workspace(remote, settings)})", says)
    return remote


def _check_workspace(remote: "Remote", settings: Settings) -> str:
    """Return a note on the gateway's workspace if these settings have another: files would land elsewhere.

    Raises `UsageError` when --workspace asks for another one.
    """
    own = remote.workspace
    if own and os.path.realpath(own) == os.path.realpath(settings.workspace):
        return ""
    if "workspace" not in _given_options(click.get_current_context()):
        return f"; its workspace is {own!r}" if own else ""
    raise click.UsageError(
        f"--workspace: the gateway at {remote.url} works in {repr(own) if own else 'a workspace of its own'}, and a "
        "command can't change that. Leave it out, use --embedded, or start a gateway for this folder: "
        "`handspan serve --workspace FOLDER --state ANOTHER_FOLDER`."
    )


def given_certificate() -> str:
    """Return the certificate of --ca or its variable, as PEM; empty without one."""
    file = str(_given_options(click.get_current_context()).get("ca") or os.environ.get(CA, ""))
    return read_certificate(file) if file else ""


def named_gateway(token: str = "", certificate: str = "") -> "Remote | None":
    """Return the gateway of --url; None without --url. `token` and `certificate` (PEM) count when none is given."""
    url = given_url()
    if not url:
        return None
    settings = read_place()
    tls = named_tls(settings, url, given_certificate() or certificate)
    remote = remote_at(url, given_token() or token, tls)
    running = None if remote.token else running_gateway(settings)
    if running is not None and running.url == remote.url:
        running.find_again = None  # the person named this address: it is kept
        return running
    if not remote.token:
        raise click.UsageError(f"--url {remote.url} wants a token: --token, or the variable {_TOKEN}.")
    return remote


def remote_at(url: str, token: str, tls: "ssl.SSLContext | None" = None, workspace: str = "") -> "Remote":
    """Return the gateway at this address. The end of the command closes the connection to it."""
    try:
        remote = late.remote.Remote(url, token, tls, workspace)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}.") from None
    if (context := click.get_current_context(silent=True)) is not None:  # None on a thread that finds it again
        context.call_on_close(remote.close)
    return remote


def running_gateway(settings: Settings, *, may_embed: bool = False) -> "Remote | None":
    """Return the gateway that serves the state folder; None when there is none."""
    return _find_running(settings, given_token(), may_embed)


def _find_running(settings: Settings, given: str, may_embed: bool) -> "Remote | None":
    """Return the gateway that serves the state folder. `given`: the token of the options.

    It reads no options itself, so that `find_again` works on any thread.
    """
    running = find_running(settings.state)
    if running is None:
        return None
    token = given or running.token
    if not token:
        raise ConfigError(
            f"A gateway runs at {running.url}, but its token is not in {str(settings.state)!r}: give one with --token"
            f"{', or use --embedded' if may_embed else ''}."
        )
    try:
        tls = own_tls(certificate_of(settings))
    except OSError as error:
        raise ConfigError(f"gateway.tls_cert: {str(settings.gateway.tls_cert)!r} can't be read: {error}.") from None
    remote = remote_at(running.url, token, tls, running.workspace)
    remote.state = "" if given else str(settings.state)
    remote.search_path = running.search_path
    remote.find_again = lambda: _find_running(settings, given, may_embed)
    return remote


def given_token() -> str:
    """Return the token of --token or its variable; empty without one."""
    return str(_given_options(click.get_current_context()).get("token") or os.environ.get(_TOKEN, ""))


def _say(words: str, says: bool) -> None:
    if says:
        say_aside(words)


class _ChangedSettings(msgspec.Struct, frozen=True):
    """The part of the settings in force that `note_changed_settings` reads: whether their file has changed."""

    is_changed: bool


async def note_changed_settings(requests: Requests) -> None:
    """Say at a terminal that the settings file has changed since the gateway started."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        return
    with contextlib.suppress(HandspanError):  # only the operator may see the settings
        if (await requests.get("/api/settings", _ChangedSettings)).is_changed:
            say_aside("(the settings have changed since the gateway started: `handspan config` says what)")


def say_aside(words: str) -> None:
    """Print a note on standard error if a person sees it and the output. In a pipe it would only be in the way."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        click.echo(words, err=True)
