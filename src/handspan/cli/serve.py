"""`handspan serve`: the gateway (SPEC G1, G3, U2)."""

import asyncio
import contextlib
import gc
import importlib
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import click
import msgspec

from handspan.cli.http_request import ask, own_tls
from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.running import StateInUse, announce, claim_state, find_running, write_ready
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.principals import OPERATOR
from handspan.gateway.app import App
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing, pairing_url, sign_in_url
from handspan.gateway.listening import url_for_others
from handspan.gateway.server import Servable, find_uvloop, serve
from handspan.models.choice import Choice

_GATEWAY: Final = "handspan.gateway.gateway"
_QR: Final = "handspan.gateway.entry.pairing"
_A_MOMENT: Final = 0.02
"""Seconds in which programs that wait for the gateway are answered first."""


class ServedGateway(Servable, Protocol):
    """The gateway that this command serves, as far as its messages need it."""

    app: App
    auth: Auth
    pairing: Pairing

    async def model_choice(self) -> Choice:
        """The model that answers, and why."""
        ...


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
    settings = read_settings({"gateway.host": host, "gateway.port": port})
    if ready_file is not None:
        _forget(ready_file)
    try:
        with claim_state(settings.state), asyncio.Runner(loop_factory=find_uvloop()) as runner:
            runner.run(_serve(settings, model or "", ready_file))
    except StateInUse as taken:
        click.echo(f"handspan: {taken}{_where_it_is(settings)}", err=True)
        sys.exit(1)


async def _serve(settings: Settings, model: str, ready_file: Path | None) -> None:
    gateway: ServedGateway = importlib.import_module(_GATEWAY).Gateway(settings, config_folder(), model=model)
    with contextlib.ExitStack() as while_it_serves:
        saying: list[asyncio.Task[None]] = []

        def on_ready(url: str) -> None:
            while_it_serves.enter_context(announce(settings.state, url))
            if ready_file is not None:
                write_ready(ready_file, url, gateway.auth.operator_token)
            saying.append(asyncio.create_task(_say(gateway, settings, url)))

        try:
            await serve(gateway, settings.gateway, on_ready=on_ready)
        finally:
            for task in saying:
                task.cancel()
            await asyncio.gather(*saying, return_exceptions=True)


async def _say(gateway: ServedGateway, settings: Settings, url: str) -> None:
    """Print what a person needs to know, a line each. The gateway serves already while the sandbox is tried out."""
    await asyncio.sleep(_A_MOMENT)
    link = sign_in_url(url, gateway.pairing.new_link(OPERATOR))
    click.echo(f"Page     {link}")
    click.echo("         signs one browser in, within 10 minutes; `handspan pair --browser` shows a new link")
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
    click.echo(f"State    {settings.state}")


def _say_how_to_pair(gateway: ServedGateway, settings: Settings, url: str) -> None:
    click.echo("Device   `handspan device` offers the tools of this computer")
    code = gateway.pairing.new_code(OPERATOR).code
    port = int(url.removesuffix(settings.gateway.path_prefix).rpartition(":")[2])
    others = url_for_others(settings.gateway, port)
    if others is None:
        click.echo(f"         another program pairs with the code {code} within 5 minutes")
        click.echo("         phones can't reach this address: start with --host 0.0.0.0 to let them")
        return
    click.echo(f"         another computer or phone pairs at {others} with the code {code} within 5 minutes")
    if sys.stdout.isatty():
        show: Any = importlib.import_module(_QR).qr_text
        click.echo(show(pairing_url(others, code)))


def _where_it_is(settings: Settings) -> str:
    """Say where the running gateway is, with a new link to its page."""
    running = find_running(settings.state)
    if running is None:
        return ""
    where = f" It is at {running.url} (process {running.pid})."
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
