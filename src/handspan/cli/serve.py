"""`handspan serve`: the gateway (SPEC G1, G3, U2)."""

import asyncio
import contextlib
import gc
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from handspan.cli import late
from handspan.cli.options import config_folder, place_words, read_loaded_settings, settings_options
from handspan.cli.running import StateInUse, announce, claim_state, find_running, write_ready
from handspan.cli.trust import own_tls
from handspan.cli.wrapping import wrap_for
from handspan.config.load import LoadedSettings
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.principals import CLIENT_SCOPES, DEVICE_SCOPES, OPERATOR
from handspan.core.version import VERSION
from handspan.gateway.entry.pairing import pairing_url, qr_text, sign_in_url
from handspan.gateway.log.events import EventLog
from handspan.gateway.log.setup import open_log
from handspan.gateway.serving.listening import TLS_FOLDER, has_own_root, url_for_others
from handspan.gateway.serving.server import DRAIN_SECONDS, find_uvloop, serve, use_one_heap

if TYPE_CHECKING:
    from handspan.gateway.gateway import Gateway
    from handspan.gateway.serving.lan_certificates import LanCertificates

_RENEW_SECONDS: Final = 30.0
_log = logging.getLogger(__name__)
_COLUMN: Final = 9
"""The column in which the words begin, after the name of a line."""
_A_MOMENT: Final = 0.02
"""Seconds in which programs that wait for the gateway are answered first."""


@click.command("serve")
@click.option("--host", help="The address to listen on; 0.0.0.0 lets phones in the same network in.")
@click.option("--lan", is_flag=True, help="Let phones and computers of this network in, as --host 0.0.0.0 does.")
@click.option("--tls", is_flag=True, help="Speak https with a certificate of our own; a phone loads its root once.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port to listen on; 0 for any that is free.")
@click.option("--role", type=click.Choice(["all", "edge", "agent"]), help="What this node of several does: all.")
@click.option("--model", help="A model of the settings, 'offline', or API:MODEL such as anthropic:claude-sonnet-5.")
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write {url, token, pid} there once it answers; only you can read it.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log every call and every request, too.")
@click.option("--quiet", "-q", is_flag=True, help="Print and log nothing but warnings and errors.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Lines for people (text) or programs (json).")
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False),
    help="Write the log there, in place of standard error; a full file is kept as FILE.1.",
)
@settings_options
def command(ready_file: Path | None, model: str | None, verbose: bool, quiet: bool, **given: Any) -> None:
    """Serve agents to people, and tools of any device to agents. Ctrl-C ends it in order, a second one at once.

    SIGHUP, as `handspan reload`, takes the settings as they are now. A terminal that is closed ends the gateway in
    order, unless `nohup` started it.
    """
    gc.disable()  # what is made from here to the first answer stays: `serve` lets Python look for garbage after that
    if given["lan"] and given["host"]:
        raise click.UsageError("--lan, or --host: --lan listens on every network of this computer.")
    if verbose and quiet:
        raise click.UsageError("--verbose, or --quiet.")
    loaded = read_loaded_settings(
        {
            "gateway.host": "0.0.0.0" if given["lan"] else given["host"],
            "gateway.port": given["port"],
            "gateway.tls": given["tls"] or None,
            "cluster.role": given["role"],
            "log.level": "debug" if verbose else "warning" if quiet else None,
            "log.format": given["log_format"],
            "log.file": given["log_file"] and os.path.abspath(given["log_file"]),
        }
    )
    settings = loaded.settings
    if ready_file is not None:
        _remove_ready_file(ready_file)
    try:
        use_one_heap()
        loop = find_uvloop()
        with claim_state(settings.state), open_log(settings), asyncio.Runner(loop_factory=loop) as runner:
            runner.run(_serve(_with_certificate(loaded), model or "", ready_file, is_quiet=quiet))
    except StateInUse as taken:
        click.echo(f"handspan: {taken}{_running_address(settings)}", err=True)
        sys.exit(1)


def _with_certificate(loaded: LoadedSettings) -> LoadedSettings:
    """Return the settings with the certificate for `gateway.tls`, which this function makes if there is none."""
    settings = loaded.settings
    if not settings.gateway.tls or settings.gateway.tls_cert is not None:
        return loaded
    certificates = _make_certificates(settings)
    certificates.renew()
    gateway = msgspec.structs.replace(settings.gateway, tls_cert=certificates.certificate)
    read_again = loaded.reload
    assert read_again is not None  # settings that come from files can be read again
    return loaded._replace(
        settings=msgspec.structs.replace(settings, gateway=gateway), reload=lambda: _with_certificate(read_again())
    )


def _make_certificates(settings: Settings) -> "LanCertificates":
    return late.lan_certificates.LanCertificates(settings.state / TLS_FOLDER)


async def _renew(certificates: "LanCertificates") -> None:
    """Renew the certificate when an address of this computer changed, or before it ends. The server loads it."""
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        try:
            if await asyncio.to_thread(certificates.renew):
                click.echo("TLS      the addresses of this computer changed: the certificate was made anew")
        except ConfigError as problem:
            click.echo(f"TLS      {problem}", err=True)


async def _serve(loaded: LoadedSettings, model: str, ready_file: Path | None, *, is_quiet: bool) -> None:
    """Serve until a signal stops it. Print and log what the operator has to know meanwhile."""
    settings = loaded.settings
    gateway = late.gateway.Gateway(settings, config_folder(), model=model, loaded=loaded)
    events = EventLog(logs_each_call=settings.log.level == "debug")
    if settings.log.level != "warning":
        events.follow(gateway.parts.bus)
    with contextlib.ExitStack() as while_it_serves:
        saying: list[asyncio.Task[None]] = []

        def on_ready(url: str) -> None:
            """Announce the gateway, which answers now: to other commands, in the log, and to the operator."""
            while_it_serves.enter_context(announce(settings.state, url, str(settings.workspace)))
            if ready_file is not None:
                write_ready(ready_file, url, gateway.parts.auth.operator_token)
            _log.info("handspan %s serves %s (process %d)", VERSION, url, os.getpid())
            if not is_quiet:
                saying.append(asyncio.create_task(_print_start(gateway, settings, url, place_words(loaded))))
            elif not settings.gateway.port:
                click.echo(f"Gateway  {url}")  # nothing else says which port the system chose
            if has_own_root(settings):
                saying.append(asyncio.create_task(_renew(_make_certificates(settings))))

        try:
            await serve(
                gateway,
                settings.gateway,
                on_ready=on_ready,
                on_stopping=lambda: _print_waiting(gateway),
                on_reload=lambda: saying.append(asyncio.create_task(_reload(gateway))),
            )
            _log.info("stopped")
        finally:
            events.close()
            for task in saying:
                task.cancel()
            await asyncio.gather(*saying, return_exceptions=True)


async def _reload(gateway: "Gateway") -> None:
    """Take the settings as they are now. The log says what changed, or why not."""
    try:
        await gateway.reload()
    except ConfigError as problem:
        _log.warning("Settings can't be used, so those from before stay in force. %s", problem)


def _print_waiting(gateway: "Gateway") -> None:
    """Print which work the gateway waits for before it ends: silence would look as if Ctrl-C did nothing."""
    turns, calls = gateway.work_left()
    work = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in ((turns, "turn"), (calls, "call")) if count]
    _log.info("stopping: waits for %s", " and ".join(work) or "nothing")
    if work:
        click.echo(
            f"Stopping: waits up to {DRAIN_SECONDS:.0f} s for {' and '.join(work)} to end. Ctrl-C again ends at once."
        )


async def _print_start(gateway: "Gateway", settings: Settings, url: str, place: str) -> None:
    """Print what a person needs to know, a line each. The gateway already serves while the sandbox is tested.

    `place`: the options with which other commands find this gateway.
    """
    await asyncio.sleep(_A_MOMENT)
    await _print_page(gateway, url, place)
    report = await gateway.parts.app.sandbox.ready()
    _print_line(f"Sandbox  {report.status}: {report.reason}")
    for more in (report.warning, report.remedy):
        if more:
            _print_line(f"         {more}")
    _print_line(f"Model    {(await gateway.parts.models.default()).why}")
    for broken in gateway.parts.app.broken:
        _print_line(f"Tool     {broken.where} can't be used: {broken.problem}")
    for note in gateway.parts.app.setting_notes:
        _print_line(f"Setting  {note}")
    await _print_pairing(gateway, settings, url, place)
    _print_trust(settings, url)
    _print_line(f"Files    {settings.workspace} is the workspace, in which tools read, write and run")
    _print_line(f"State    {settings.state}")


async def _print_page(gateway: "Gateway", url: str, place: str) -> None:
    """Print the page's address. A link that signs in is a secret: a log file must not have it (SPEC S5)."""
    if sys.stdout.isatty():
        _print_line(f"Page     {sign_in_url(url, await gateway.parts.pairing.new_link(OPERATOR))}")
        _print_line(
            f"         signs one browser in, within 10 minutes; `handspan pair --browser{place}` shows a new link"
        )
    else:
        _print_line(f"Page     {url}")
        _print_line(f"         `handspan pair --browser{place}` shows a link that signs one browser in")


async def _print_pairing(gateway: "Gateway", settings: Settings, url: str, place: str) -> None:
    """Print how other devices and programs get in, with a code if this is a terminal."""
    _print_line(f"Device   `handspan device{place}` offers the tools of this computer")
    if not sys.stdout.isatty():  # a code is a secret, as the page's link is
        _print_line(f"         `handspan pair{place}` shows a code for another program, computer or phone")
        return
    others = _address_for_others(settings, url)
    made = await gateway.parts.pairing.new_code(OPERATOR, CLIENT_SCOPES if others is None else DEVICE_SCOPES)
    code, scopes = made.code, ", ".join(made.scopes)
    if others is None:
        _print_line(f"         another program pairs with the code {code} within 5 minutes; its scopes: {scopes}")
        _print_line("         phones can't reach this address: start with --lan --tls to let them")
        return
    _print_line(f"         another computer or phone pairs at {others} with the code {code} within 5 minutes")
    _print_line(
        f"         its scopes: {scopes}; `handspan pair --scope chat --scope device{place}`: for one that chats, too"
    )
    pin = _make_certificates(settings).pin_for(others) if has_own_root(settings) else None
    click.echo(qr_text(pairing_url(others, code, pin)))
    if not others.startswith("https:"):
        _print_line("         without https a phone's browser has no camera, location and motion: start with --tls too")


def _print_trust(settings: Settings, url: str) -> None:
    """Print how a phone comes to trust the gateway's own root certificate, if it has one."""
    if not has_own_root(settings):
        return
    certificates = _make_certificates(settings)
    address = _address_for_others(settings, url) or url
    _print_line(f"TLS      a phone loads the root once, from {address}/device")
    _print_line(f"         its SHA-256: {certificates.fingerprint()}")
    host = urlsplit(address).hostname or ""
    if not certificates.may_sign(host):
        _print_line(f"         the certificate is not for {host}: our root signs only for private networks.")
        _print_line("         Name a certificate of yours in `gateway.tls_cert`.")


def _print_line(line: str) -> None:
    """Print a line; if it is wrapped, all its words begin in one column."""
    click.echo(wrap_for(sys.stdout, line, _COLUMN))


def _address_for_others(settings: Settings, url: str) -> str | None:
    port = int(url.removesuffix(settings.gateway.path_prefix).rpartition(":")[2])
    return url_for_others(settings.gateway, port)


def _running_address(settings: Settings) -> str:
    """Return a sentence with the address of the running gateway; at a terminal, a new link to its page, too."""
    running = find_running(settings.state)
    if running is None:
        return ""
    where = f" It is at {running.url} (process {running.pid})."
    if not sys.stderr.isatty():
        return where
    try:
        tls = own_tls(settings)
    except OSError:
        return where
    answered = late.http_request.ask(
        "POST", f"{running.url}/api/signin", {"Authorization": f"Bearer {running.token}"}, tls=tls
    )
    if answered.status != 201:
        return where
    return f"{where}\nPage     {msgspec.json.decode(answered.body)['url']}"


def _remove_ready_file(ready_file: Path) -> None:
    """Remove an old ready file: a script must not take it for the one of this gateway."""
    try:
        ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"The ready file {str(ready_file)!r} can't be written: {error.strerror}.") from None
    if not ready_file.absolute().parent.is_dir():
        raise click.UsageError(f"The folder of the ready file {str(ready_file)!r} is not there.")
