"""The gateway that a command asks: one that runs, else one that is opened inside this process."""

import asyncio
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
from handspan.cli.ctrl_c import until_ctrl_c
from handspan.cli.options import (
    ListingGroup,
    given_options,
    is_json,
    json_option,
    kept_option,
    read_place,
    settings_options,
)
from handspan.cli.requests import Method, Requests
from handspan.cli.running import find_running
from handspan.cli.trust import CA, named_tls, own_tls, read_certificate
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
        function = kept_option(name, help=text)(function)
    return settings_options(function)


def place_options(function: F) -> F:
    """Let a command take the options of `gateway_options`, and --embedded."""
    option = kept_option("embedded", is_flag=True, help="Do it in this process, even if a gateway runs.")
    return gateway_options(option(function))


def request_options(function: F) -> F:
    """Let a command take the options of `place_options`, and --json."""
    return json_option(place_options(function))


_REQUEST_PARAMS: Final = click.command("")(request_options(lambda: None)).params


class RequestCommand(click.Command):
    """A command that asks the gateway: it takes the options of `request_options`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += _REQUEST_PARAMS


class RequestGroup(ListingGroup):
    """A group that lists what the gateway has. It and its commands take the options of `request_options`."""

    command_class = RequestCommand

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += _REQUEST_PARAMS


def is_embedded() -> bool:
    """Whether --embedded is given."""
    return "embedded" in given_options()


def given_url() -> str:
    """Return the address of --url or its variable; empty without one."""
    return _given_value("url", _URL)


def given_token() -> str:
    """Return the token of --token or its variable; empty without one."""
    return _given_value("token", _TOKEN)


def given_certificate() -> str:
    """Return the certificate of --ca or its variable, as PEM; empty without one."""
    file = _given_value("ca", CA)
    return read_certificate(file) if file else ""


def _given_value(option: str, variable: str) -> str:
    return str(given_options().get(option) or os.environ.get(variable, ""))


def fetch(path: str, form: type[T], **query: str) -> T:
    """Return what the gateway has at this path, read as `form`."""
    return ask_gateway(lambda requests: requests.get(path, form, **query))


def change(method: Method, path: str, form: type[T], body: object = None) -> T:
    """Change something at the gateway, and return its answer, read as `form`."""
    return ask_gateway(lambda requests: requests.change(method, path, form, body))


def ask_gateway(work: Callable[[Requests], Awaitable[T]], *, is_silent: bool = False) -> T:
    """Run `work` at the gateway that was found, else at one inside this process, and return its result."""
    return ask_at(find_gateway(is_silent=is_silent), work)


def ask_at(remote: "Remote | None", work: Callable[[Requests], Awaitable[T]]) -> T:
    """Run `work` at this gateway, or at one inside this process if it is None, and return its result."""

    async def run() -> T:
        async with open_requests(remote) as requests:
            return await work(requests)

    return asyncio.run(until_ctrl_c(run()))


def open_requests(remote: "Remote | None", *, model: str = "") -> AbstractAsyncContextManager[Requests]:
    """Open requests to this gateway. None: to one inside this process, where `model` answers for every agent."""
    if remote is not None:
        return remote.open_requests()
    gc.set_threshold(_GC_OBJECTS)
    return late.inside.open_inside(model)


def find_gateway(*, is_silent: bool = False) -> "Remote | None":
    """Return the gateway to use, or None for this process. Standard error names it, unless --json is given."""
    remote, words = _find_with_words()
    if not (is_silent or is_json()):
        say_aside(f"({words})")
    return remote


def _find_with_words() -> "tuple[Remote | None, str]":
    """Return the gateway to use and a few words about it."""
    given = given_options()
    if is_embedded():
        if given.get("url") or given.get("token"):
            raise click.UsageError("--embedded, or --url and --token: one of the two.")
        return None, "embedded"
    settings = read_place()
    remote = named_gateway() or running_gateway(settings, may_embed=True)
    if remote is not None:
        more = "; --config: its own" if "config" in given else ""
        return remote, f"gateway {remote.url}{more}{_check_workspace(remote, settings)}"
    if given.get("token"):
        raise click.UsageError("No gateway is running that --token could be for: name one with --url.")
    return None, "no gateway is running: embedded"


def _check_workspace(remote: "Remote", settings: Settings) -> str:
    """Return a note on the gateway's workspace if these settings have another: files would land elsewhere.

    Raises `UsageError` when --workspace asks for another one.
    """
    own = remote.workspace
    if own and os.path.realpath(own) == os.path.realpath(settings.workspace):
        return ""
    if "workspace" not in given_options():
        return f"; its workspace is {own!r}" if own else ""
    raise click.UsageError(
        f"--workspace: the gateway at {remote.url} works in {repr(own) if own else 'a workspace of its own'}, and a "
        "command can't change that. Leave it out, use --embedded, or start a gateway for this folder: "
        "`handspan serve --workspace FOLDER --state ANOTHER_FOLDER`."
    )


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


def remote_at(url: str, token: str, tls: "ssl.SSLContext | None" = None, **found: Any) -> "Remote":
    """Return the gateway at this address, with what else was found. The end of the command closes the connection."""
    try:
        remote = late.remote.Remote(url, token, tls, **found)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}.") from None
    if (context := click.get_current_context(silent=True)) is not None:  # None on a thread that finds it again
        context.call_on_close(remote.close)
    return remote


def running_gateway(settings: Settings, token: str | None = None, *, may_embed: bool = False) -> "Remote | None":
    """Return the gateway that serves the state folder; None when there is none.

    `token`: None for that of the options. With a token no option is read, so that `find_again` works on any thread.
    """
    given = given_token() if token is None else token
    running = find_running(settings.state)
    if running is None:
        return None
    if not (given or running.token):
        raise ConfigError(
            f"A gateway runs at {running.url}, but its token is not in {str(settings.state)!r}: give one with --token"
            f"{', or use --embedded' if may_embed else ''}."
        )
    try:
        tls = own_tls(settings)
    except OSError as error:
        raise ConfigError(f"gateway.tls_cert: {str(settings.gateway.tls_cert)!r} can't be read: {error}.") from None
    return remote_at(
        running.url,
        given or running.token,
        tls,
        workspace=running.workspace,
        state="" if given else str(settings.state),
        search_path=running.search_path,
        find_again=lambda: running_gateway(settings, given, may_embed=may_embed),
    )


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
