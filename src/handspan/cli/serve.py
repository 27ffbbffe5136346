"""`handspan serve`: the gateway (SPEC G1, G3, U2)."""

import asyncio
import contextlib
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from handspan.cli.http_request import ask, own_tls
from handspan.cli.options import config_folder, read_loaded_settings, settings_options
from handspan.cli.running import StateInUse, announce, claim_state, find_running, write_ready
from handspan.config.load import LoadedSettings
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.principals import OPERATOR
from handspan.gateway.entry.pairing import pairing_url, qr_text, sign_in_url
from handspan.gateway.listening import url_for_others
from handspan.gateway.server import DRAIN_SECONDS, find_uvloop, serve

if TYPE_CHECKING:
    from handspan.gateway.gateway import Gateway

_A_MOMENT: Final = 0.02
"""Seconds in which programs that wait for the gateway are answered first."""


@click.command("serve")
@click.option("--host", help="The address to listen on; 0.0.0.0 lets phones in the same network in.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port to listen on; 0 for any that is free.")
@click.option("--model", help="A model of the settings, 'offline', or API:MODEL such as anthropic:claude-sonnet-5.")
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write {url, token, pid} there once it answers; only you can read it.",
)
@settings_options
def command(host: str | None, port: int | None, model: str | None, ready_file: Path | None) -> None:
    """Serve agents to people, and tools of any device to agents. Ctrl-C ends it in order, a second one at once."""
    gc.disable()  # what is made from here to the first answer stays: `serve` lets Python look for garbage after that
    loaded = read_loaded_settings({"gateway.host": host, "gateway.port": port})
    settings = loaded.settings
    if ready_file is not None:
        _forget(ready_file)
    try:
        with claim_state(settings.state), asyncio.Runner(loop_factory=find_uvloop()) as runner:
            runner.run(_serve(loaded, model or "", ready_file))
    except StateInUse as taken:
        click.echo(f"handspan: {taken}{_where_it_is(settings)}", err=True)
        sys.exit(1)


async def _serve(loaded: LoadedSettings, model: str, ready_file: Path | None) -> None:
    from handspan.gateway.gateway import Gateway  # after the state folder is claimed: it is most of what is loaded

    settings = loaded.settings
    gateway = Gateway(settings, config_folder(), model=model, loaded=loaded)
    with contextlib.ExitStack() as while_it_serves:
        saying: list[asyncio.Task[None]] = []

        def on_ready(url: str) -> None:
            while_it_serves.enter_context(announce(settings.state, url, str(settings.workspace)))
            if ready_file is not None:
                write_ready(ready_file, url, gateway.auth.operator_token)
            saying.append(asyncio.create_task(_say(gateway, settings, url)))

        try:
            await serve(
                gateway, settings.gateway, on_ready=on_ready, on_stopping=lambda: _say_what_is_waited_for(gateway)
            )
        finally:
            for task in saying:
                task.cancel()
            await asyncio.gather(*saying, return_exceptions=True)


def _say_what_is_waited_for(gateway: "Gateway") -> None:
    """Print what the end waits for, if it waits: silence would look as if Ctrl-C did nothing."""
    turns, calls = gateway.work_left()
    work = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in ((turns, "turn"), (calls, "call")) if count]
    if work:
        click.echo(
            f"Stopping: waits up to {DRAIN_SECONDS:.0f} s for {' and '.join(work)} to end. Ctrl-C again ends at once."
        )


async def _say(gateway: "Gateway", settings: Settings, url: str) -> None:
    """Print what a person needs to know, a line each. The gateway serves already while the sandbox is tried out."""
    await asyncio.sleep(_A_MOMENT)
    _say_where_the_page_is(gateway, url)
    report = await gateway.app.sandbox.ready()
    click.echo(f"Sandbox  {'active' if report.active else 'NOT active'}: {report.reason}")
    for more in (report.warning, report.remedy):
        if more:
            click.echo(f"         {more}")
    click.echo(f"Model    {(await gateway.model_choice()).why}")
    for broken in gateway.app.broken:
        click.echo(f"Tool     {broken.where} can't be used: {broken.problem}")
    for note in gateway.app.setting_notes:
        click.echo(f"Setting  {note}")
    _say_how_to_pair(gateway, settings, url)
    click.echo(f"Files    {settings.workspace} is the workspace, in which tools read, write and run")
    click.echo(f"State    {settings.state}")


def _say_where_the_page_is(gateway: "Gateway", url: str) -> None:
    """Print the page's address. A link that signs in is a secret: a log file must not have it (SPEC S5)."""
    if sys.stdout.isatty():
        click.echo(f"Page     {sign_in_url(url, gateway.pairing.new_link(OPERATOR))}")
        click.echo("         signs one browser in, within 10 minutes; `handspan pair --browser` shows a new link")
    else:
        click.echo(f"Page     {url}")
        click.echo("         `handspan pair --browser` shows a link that signs one browser in")


def _say_how_to_pair(gateway: "Gateway", settings: Settings, url: str) -> None:
    click.echo("Device   `handspan device` offers the tools of this computer")
    if not sys.stdout.isatty():  # a code is a secret, as the link is
        click.echo("         `handspan pair` shows a code for another program, computer or phone")
        return
    code = gateway.pairing.new_code(OPERATOR).code
    port = int(url.removesuffix(settings.gateway.path_prefix).rpartition(":")[2])
    others = url_for_others(settings.gateway, port)
    if others is None:
        click.echo(f"         another program pairs with the code {code} within 5 minutes")
        click.echo("         phones can't reach this address: start with --host 0.0.0.0 to let them")
        return
    click.echo(f"         another computer or phone pairs at {others} with the code {code} within 5 minutes")
    click.echo(qr_text(pairing_url(others, code)))


def _where_it_is(settings: Settings) -> str:
    """Say where the running gateway is; at a terminal with a new link to its page."""
    running = find_running(settings.state)
    if running is None:
        return ""
    where = f" It is at {running.url} (process {running.pid})."
    if not sys.stderr.isatty():
        return where
    try:
        tls = own_tls(settings.gateway.tls_cert)
    except OSError:
        return where
    answered = ask("POST", f"{running.url}/api/signin", {"Authorization": f"Bearer {running.token}"}, tls=tls)
    if answered.status != 201:
        return where
    return f"{where}\nPage     {msgspec.json.decode(answered.body)['url']}"


def _forget(ready_file: Path) -> None:
    """Remove an old ready file: a script must not take it for this gateway's."""
    try:
        ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"The ready file {str(ready_file)!r} can't be written: {error.strerror}.") from None
    if not ready_file.absolute().parent.is_dir():
        raise click.UsageError(f"The folder of the ready file {str(ready_file)!r} is not there.")
